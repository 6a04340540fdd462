"""Snapshots under faults: members that are far behind, crashes inside every step, files that lose a bit."""

from __future__ import annotations

from collections import Counter

import pytest

from raftmeta.sim.world.world_handle import World

OFTEN = {"snapshot_entries": 20, "snapshot_chunk_bytes": 512}


def lived(seed: int, events: int = 30_000, **profile: int) -> dict[str, int]:
    """What happened in a world that broke nothing and converged."""
    world = World(seed, **{**OFTEN, **profile})
    world.run(events)
    world.settle(300_000)
    assert world.violation is None, (seed, world.violation)
    return world.counts


def totals(seeds: range, **profile: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        found.update(lived(seed, **profile))
    return found


def test_members_that_were_cut_off_come_back_by_snapshot() -> None:
    """paper 7: points every few entries, so that whoever misses some needs the state."""
    found = totals(range(10), nodes=5, partition_ppm=900_000, transfer_ppm=300_000)
    assert found["installs"] > 5
    assert found["log_compactions"] > found["installs"]


def test_every_step_may_be_cut_by_a_power_failure() -> None:
    """At the writes and syncs of taking, receiving, naming, beginning the log, removing."""
    found = totals(range(12), nodes=3, cut_at_sync_ppm=900_000, crash_ppm=300_000, down_us=600_000)
    assert found["power_cuts"] > 200
    assert found["loads"] > 100
    assert found["installs"] > 5


def test_pieces_may_be_lost_repeated_and_overtaken() -> None:
    """Asked for again, from where they are missing, also of another member."""
    found = totals(range(12), nodes=5, drop_ppm=200_000, duplicate_ppm=100_000, reorder_ppm=100_000, delay_ppm=100_000,
                   partition_ppm=900_000)  # fmt: skip
    assert found["installs"] > 10


def test_installs_and_membership_changes_meet() -> None:
    """openraft#1808 class: the membership of an installed state is the one at its point, then that of the log.

    Wiped members come back as learners, by snapshot, and are swapped for their old selves, while others are cut off.
    """
    found = totals(range(16), nodes=5, wipe_ppm=700_000, partition_ppm=500_000, transfer_ppm=300_000,
                   fault_gap_us=400_000)  # fmt: skip
    assert found["memberships"] > 50
    assert found["installs"] > 15


def test_a_full_disk_stops_no_member_for_good() -> None:
    """A file that finds no room is given up; what is kept for comfort goes first."""
    found = totals(range(8), nodes=3, full_ppm=700_000, crash_ppm=100_000)
    assert found["snapshots_failed"] > 10
    assert found["refused_writes"] > 10


def test_a_file_that_lost_a_bit_is_passed_over() -> None:
    """The copy before it and the log behind that lead to the same state; else the node joins anew."""
    found = totals(range(16), nodes=5, flip_ppm=900_000, fault_gap_us=200_000, down_us=100_000)
    assert found["damaged_files"] > 8


def test_a_file_that_goes_bad_under_its_holder_is_soon_replaced() -> None:
    """While nobody restarts: a member that found it damaged asks again, and the holder reads it again.

    Points are rare, so that it would be offered all the time; wiped members need it.
    """
    found: Counter[str] = Counter()
    for seed in (11, 19, 20, 24, 25, 30, 32, 33, 35):
        found.update(lived(seed, nodes=5, snapshot_entries=300, rot_ppm=900_000, wipe_ppm=900_000, rest_us=16_000_000,
                           busy_us=300_000))  # fmt: skip
    assert found["damaged_files"] > 4
    assert found["snapshots_failed"] < 2 * found["rotten_files"]


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_without_points_keeps_its_log(seed: int) -> None:
    """The other end of the setting: nothing is ever cut, and nobody needs a snapshot."""
    counts = lived(seed, snapshot_entries=0, crash_ppm=300_000, partition_ppm=300_000)
    assert (counts["snapshots"], counts["installs"], counts["log_compactions"]) == (0, 0, 0)


def test_checkpoints_are_committed_whole_or_not_at_all() -> None:
    """Crashes between any two chunks and behind the commit; a store that fails."""
    found = totals(range(12), nodes=3, checkpoints=1, crash_ppm=500_000, cut_at_sync_ppm=300_000, down_us=100_000,
                   client_gap_us=8_000)  # fmt: skip
    assert found["checkpoints"] > 200
    assert found["checkpoints_failed"] > 10
    assert found["loads"] > 100


def test_a_checkpoint_that_lost_a_bit_is_passed_over() -> None:
    """Sealed files and the log lead to the same state; else the node joins anew."""
    found = totals(range(16), nodes=5, checkpoints=1, flip_ppm=900_000, fault_gap_us=200_000, down_us=100_000)
    assert found["damaged_files"] > 8


def test_members_far_behind_are_brought_back_where_nodes_keep_checkpoints() -> None:
    """paper 7: a sealed file is made when somebody needs one, and only then."""
    found = totals(range(10), nodes=5, checkpoints=1, partition_ppm=900_000, transfer_ppm=300_000, wipe_ppm=200_000)
    assert found["installs"] > 5
    assert found["checkpoints"] > found["installs"]
