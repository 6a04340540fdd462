"""Whole clusters of the production engine under every fault, from fixed seeds; each is one history, to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from raftmeta.sim.world.world_handle import FAULTS, POINTS, World, swarm_profile

SEEDS = range(1000, 1200)
PART_SEEDS = 25  # lived by one test: a part of them stays far from the time-out on a busy machine too
EVENTS = 100_000  # of one seed, before everything heals
HASH_SEEDS = range(200)
HASH_EVENTS = 3_000
ONLY_IN_RUIN = {"put_back_ppm"}


@dataclass(frozen=True, slots=True)
class History:
    """How one world ended."""

    seed: int
    violation: str | None
    counts: dict[str, int]
    simulated_s: float


def live(seed: int) -> History:
    """One world from its seed: faults, then healing and the comparison of everything."""
    world = World.swarm(seed)
    world.run(EVENTS)
    world.settle()
    return History(seed, world.violation, world.counts, world.simulated_s)


@cache
def part_from(first: int) -> list[History]:
    """The worlds of the seeds of one part. They run without the GIL, so threads are enough to use two cores."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(live, range(first, first + PART_SEEDS)))


@pytest.fixture(scope="module")
def histories() -> list[History]:
    """The worlds of all SEEDS, most of which test_no_seed_breaks_an_invariant has lived."""
    return [history for first in SEEDS[::PART_SEEDS] for history in part_from(first)]


@pytest.fixture(scope="module")
def totals(histories: list[History]) -> Counter[str]:
    found: Counter[str] = Counter()
    for history in histories:
        found.update(history.counts)
    return found


@pytest.mark.parametrize("first", SEEDS[::PART_SEEDS])
def test_no_seed_breaks_an_invariant(first: int) -> None:
    """I1-I11, I13-I15, I17, I20, I22, I24, I26-I39, I45-I51 hold after each event of twenty million; all converge."""
    histories = part_from(first)
    assert [(history.seed, history.violation) for history in histories if history.violation is not None] == []
    assert sum(history.counts["events"] for history in histories) >= PART_SEEDS * EVENTS


@pytest.mark.parametrize(
    "fault",
    [
        "dropped", "duplicated", "corrupted", "reordered", "partitions", "crashes", "power_cuts", "isolations",
        "pauses", "transfers", "wipes", "flips", "rotten_files", "misdirections", "damaged", "disk_errors",
        "wall_jumps", "full_disks", "refused_writes", "overtaken", "replays", "cores", "hangs",
    ],
)  # fmt: skip
def test_every_fault_struck(totals: Counter[str], fault: str) -> None:
    """A sweep in which a fault never happened would prove nothing about it."""
    assert totals[fault] >= 10


@pytest.mark.parametrize(
    "work",
    [
        "elections", "truncations", "memberships", "changes", "acknowledged", "reads", "watch_events", "progress_marks",
        "compactions", "client_commands", "client_sessions_lost", "guarded", "checkpoints", "leases_granted",
        "leases_expired", "lease_renewals", "rests", "windows", "leases_let_go",
        "user_calls", "user_commands", "user_loads", "znode_answers", "znodes_refused", "znodes_out_of_order",
        "znode_owners_ended", "znodes_timed_out", "znode_writes_refused", "znode_checks", "znode_reads",
        "group_requests", "groups_refused", "group_generations", "groups_stable", "group_timers",
        "group_members_ended", "group_members_left", "group_replaced", "groups_deleted", "group_writes",
        "group_writes_fenced", "group_checks", "group_leases",
        "topics_made", "topics_refused", "offsets_committed", "offsets_refused", "offsets_deleted", "offsets_timed_out",
        "records_appended", "records_repeated", "records_refused", "records_fenced", "records_replaced",
        "tombstones_ended", "records_swept", "records_trimmed", "records_dropped", "topic_answers", "topic_checks",
    ],
)  # fmt: skip
def test_the_clusters_worked_under_faults(totals: Counter[str], work: str) -> None:
    """What the invariants speak about happened: elections, conflicts, answers, reads, watches, leases."""
    assert totals[work] >= 10


def test_every_world_made_progress(histories: list[History]) -> None:
    """Hardly a profile is so bad that nothing is acknowledged before it heals (a pair that is always parted is)."""
    assert sum(history.counts["acknowledged"] == 0 for history in histories) <= 4


def test_simulated_time_runs_far_ahead(histories: list[History], totals: Counter[str]) -> None:
    """At a million events a second these worlds pass a thousand times as fast as real time: quiet hours are cheap."""
    assert totals["events"] / sum(history.simulated_s for history in histories) < 1_000


def test_quiet_hours_are_quiet() -> None:
    """No client calls before the hour has passed, the shortest of them 0.94 s; then all go on."""

    def calls() -> int:
        return sum(world.counts[work] for work in ("acknowledged", "reads", "sendings"))

    def run_until(time_s: float) -> None:
        while world.simulated_s < time_s:
            world.run(10)

    world = World(1, rest_us=60_000_000, busy_us=3_000_000)
    while world.counts["rests"] == 0:
        world.run(1)
    began_s = world.simulated_s
    run_until(began_s + 0.3)  # what was under way is answered
    told = calls()
    run_until(began_s + 0.9)
    assert calls() == told
    while world.counts["rests"] == 1:
        world.run(10)
    assert calls() > told
    assert world.violation is None


def test_the_background_of_a_disk_is_overtaken_where_the_profile_says_so() -> None:
    """Without it all jobs are done as they came, which keeps old tapes; else as in production."""
    overtaken = {}
    for background_us in (0, 1, 500_000):
        world = World(2, snapshot_entries=32, background_us=background_us)
        world.run(20_000)
        world.settle()
        assert world.violation is None and world.counts["snapshots"] > 10
        overtaken[background_us] = world.counts["overtaken"]
    assert overtaken[0] == 0
    assert overtaken[1] < 100 < overtaken[500_000]


def test_the_seeds_cover_sizes_and_each_fault_with_even_chance() -> None:
    """Dense worlds: 1 to 7 nodes, each fault in about half of the profiles."""
    profiles = [swarm_profile(seed, "dense") for seed in SEEDS]
    assert {profile["nodes"] for profile in profiles} == set(range(1, 8))
    for fault in FAULTS:
        if fault.endswith("_ppm") and fault not in ONLY_IN_RUIN:
            assert 70 <= sum(profile[fault] > 0 for profile in profiles) <= 130, fault


def test_a_sparse_world_has_few_kinds_of_faults_at_high_rates() -> None:
    """Two to six kinds and no other; each kind comes, those that move leaders and members more often."""
    rates = [fault for fault in FAULTS if fault.endswith("_ppm") and fault not in ONLY_IN_RUIN]
    profiles = [swarm_profile(seed, "sparse") for seed in range(1_000)]
    drawn = Counter(fault for profile in profiles for fault in rates if profile[fault])
    assert {profile["nodes"] for profile in profiles if not profile["observers"]} == {3, 5, 7}
    assert {sum(profile[fault] > 0 for fault in rates) for profile in profiles} == {2, 3, 4, 5, 6}
    assert set(drawn) == set(rates)
    assert min(drawn[fault] for fault in ("crash_ppm", "wipe_ppm", "transfer_ppm")) > 2 * drawn["wall_ppm"]
    for profile in profiles:
        assert not POINTS.keys() & profile.keys()
        assert all(profile[fault] in (0, *range(100_000, 900_001, 100_000)) for fault in ("crash_ppm", "replay_ppm"))


OPTIONS = {
    "lease_reads": 4, "free_bytes_min": 2, "log_memory_bytes": 4, "snapshot_log_bytes": 4, "host_watchdog_ms": 4,
    "session_window": 4, "rights": 8, "znodes": 8, "groups": 8, "topics": 8, "processes": 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_worlds_draw_the_options_of_a_node(kind: str) -> None:
    """Each in one world of two, four or eight, and windows of clients in half of them."""
    profiles = [swarm_profile(seed, kind) for seed in range(1_000)]
    for option, one_of in OPTIONS.items():
        assert 0.8 < sum(profile[option] > 0 for profile in profiles) * one_of / len(profiles) < 1.2, option
    windows = Counter(profile["client_window"] for profile in profiles)
    assert set(windows) == {1, 2, 4, 8} and 400 < windows[1] < 600


def test_the_model_of_znodes_takes_every_entry(histories: list[History], totals: Counter[str]) -> None:
    """A model that lost one would check nothing from then on."""
    assert totals["znodes_lost"] == 0
    assert 15 < sum(history.counts["door_sendings"] > 0 for history in histories) < 35


def test_the_check_of_groups_takes_every_entry(histories: list[History], totals: Counter[str]) -> None:
    """Else it would see nothing from then on."""
    assert totals["groups_lost"] == 0
    assert 15 < sum(history.counts["group_sendings"] > 0 for history in histories) < 35
    assert 15 < sum(history.counts["topic_sendings"] > 0 for history in histories) < 35


@pytest.mark.parametrize("has_rights", [False, True])
def test_containers_and_ttl_nodes_go_when_their_time_is_over(has_rights: bool) -> None:
    """In quiet hours a container is empty for a minute, and TTL nodes are due while they have children."""
    totals: Counter[str] = Counter()
    for seed in range(4):
        world = World(
            seed, znodes=1, rights=has_rights, tick_ms=40, client_gap_us=30_000, lease_ttl_ms=2_000,
            fault_gap_us=5_000_000, crash_ppm=300_000, transfer_ppm=300_000, rest_us=200_000_000, busy_us=5_000_000,
        )  # fmt: skip
        world.run(150_000)
        world.settle()
        assert (world.violation, world.counts["znodes_lost"]) == (None, 0)
        totals.update(world.counts)
    for work in ("znodes_timed_out", "znodes_renewed", "znodes_containers_ended", "znode_owners_ended"):
        assert totals[work] > 3, work


def test_a_leader_without_room_hands_over() -> None:
    """Its disk is full and those of a quorum are not; growth is refused meanwhile; no command is lost or doubled."""
    world = World(3, free_bytes_min=65_536, full_ppm=900_000, fault_gap_us=200_000, client_gap_us=10_000)
    world.run(100_000)
    world.settle()
    assert world.violation is None
    assert world.counts["hand_overs"] > 3 and world.counts["refused"] > 10


def test_records_that_left_memory_are_read_from_the_disk() -> None:
    """With 1 KiB of records in memory a member that was away is served from the log's files."""
    world = World(2, log_memory_bytes=1024, crash_ppm=500_000, fault_gap_us=100_000, snapshot_entries=0)
    world.run(100_000)
    world.settle()
    assert (world.violation, world.counts["crashes"] + world.counts["power_cuts"] > 10) == (None, True)


def test_a_point_comes_after_so_many_bytes_of_records() -> None:
    """snapshot_log_bytes counts beside snapshot_entries."""
    taken = {}
    for log_bytes in (0, 4096):
        world = World(2, snapshot_entries=1_000_000, snapshot_log_bytes=log_bytes)
        world.run(20_000)
        world.settle()
        assert world.violation is None
        taken[log_bytes] = world.counts["snapshots"]
    assert taken[0] == 0 and taken[4096] > 10


def test_half_of_all_seeds_are_sparse() -> None:
    """The seed alone decides; a seed of either kind can be asked for by name."""
    kinds = Counter(
        kind
        for seed in range(1_000)
        for kind in ("dense", "sparse")
        if swarm_profile(seed) == swarm_profile(seed, kind)
    )
    assert kinds.total() == 1_000
    assert 450 <= kinds["sparse"] <= 550
    with pytest.raises(ValueError, match="unknown kind of swarm: thick"):
        swarm_profile(1, "thick")


# --- one seed, one run ------------------------------------------------------------------------------------------------
HASHES = f"""
from raftmeta.sim.world.world_handle import World
for seed in range({HASH_SEEDS.start}, {HASH_SEEDS.stop}):
    world = World.swarm(seed)
    world.run({HASH_EVENTS})
    print(seed, world.trace_hash)
"""


def hashes_of_process(hash_seed: str) -> str:
    """The trace hashes as a new process prints them."""
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([*sys.path, str(root)])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", HASHES], env=environment, capture_output=True, text=True, check=True)
    return run.stdout


def test_a_seed_is_one_history_in_every_process() -> None:
    """I20: equal trace hashes from two processes whose Python hashes differ; different ones from different seeds."""
    first = hashes_of_process("1")
    assert first == hashes_of_process("2")
    assert len({line.split()[1] for line in first.splitlines()}) == len(HASH_SEEDS)


def test_a_profile_and_a_seed_make_the_same_world_again() -> None:
    """What World.profile says is all there is beside the seed: a failure is repeated from its two arguments."""
    world = World.swarm(7)
    again = World(7, **world.profile)
    world.run(20_000)
    again.run(20_000)
    assert again.trace_hash == world.trace_hash


def test_a_run_may_be_cut_into_pieces() -> None:
    """Stopping between two events changes nothing."""
    whole = World.swarm(3)
    whole.run(10_000)
    pieces = World.swarm(3)
    assert sum(pieces.run(count) for count in (1, 99, 900, 9_000)) == 10_000
    assert pieces.trace_hash == whole.trace_hash


def test_an_unknown_fault_and_a_wrong_size_are_refused() -> None:
    """The message names the fault."""
    with pytest.raises(ValueError, match="unknown fault: earthquake_ppm"):
        World(1, earthquake_ppm=1)
    with pytest.raises(ValueError, match="nodes must be 1 to 7"):
        World(1, nodes=8)
    with pytest.raises(ValueError, match="client_window must be 1 to 8"):
        World(1, client_window=9)


def test_in_ruin_nothing_wrong_is_said() -> None:
    """More disks are lost and damaged than the cluster can survive: it may halt, and says nothing that is not so."""
    found: Counter[str] = Counter()
    for seed in range(20):
        world = World(seed, nodes=5, ruin=1, wipe_ppm=400_000, flip_ppm=400_000, misdirect_ppm=200_000,
                      crash_ppm=200_000, client_gap_us=10_000)  # fmt: skip
        world.run(20_000)
        world.settle()
        assert world.violation is None, (seed, world.violation)
        found.update(world.counts)
    assert found["wipes"] > 40
    assert found["flips"] > 40
    assert found["renewals"] + found["damaged"] > 10


@pytest.mark.parametrize("gap_us", [40_000, 100_000, 300_000, 700_000])
def test_a_lease_ends_in_time_in_worlds_where_only_leaders_change(gap_us: int) -> None:
    """I17, etcd#9395: the world's own check allows one election time-out beyond the ttl, for any number of changes.
    Clients say so little that the log alone would tell the lease clock late."""
    found: Counter[str] = Counter()
    for seed in range(12):
        world = World(seed, lease_ttl_ms=3000, transfer_ppm=1_000_000, fault_gap_us=gap_us, client_gap_us=200_000)
        world.run(60_000)
        assert world.violation is None, (seed, world.violation)
        found.update(world.counts)
    assert found["leases_expired"] >= 3
    assert found["elections"] > 300


def test_a_folder_that_was_put_back_takes_no_known_entry_with_it_silently() -> None:
    """I25: nothing else can be promised then (docs/operations.md); who knows stops."""
    found: Counter[str] = Counter()
    for seed in range(30):
        world = World(seed, ruin=1, put_back_ppm=500_000, crash_ppm=500_000, partition_ppm=300_000, isolate_ppm=300_000,
                      client_gap_us=10_000)  # fmt: skip
        world.run(20_000)  # several lives after a folder was put back, and snapshots of them
        assert world.violation is None, (seed, world.violation)
        found.update(world.counts)
    assert found["put_backs"] > 40
    assert found["histories_lost"] > 5
