"""A power cut at every sync of a script, one world for each: what the random ones may never hit."""

from __future__ import annotations

import pytest

from raftmeta.sim.world.world_handle import World
from tests.faces.truth import Liar

SYNCS = 120  # of one node: founding, snapshots, a removed log, truncations, changes of membership
EVENTS = 3_000


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("checkpoints", [0, 1])
def test_no_sync_is_a_bad_moment_to_lose_power(checkpoints: int, is_after: bool) -> None:
    """The cut falls before the sync took effect, or after it and before anybody was told."""
    installs = 0
    for call in range(1, SYNCS + 1):
        world = World(call % 5, nodes=3, snapshot_entries=12, snapshot_chunk_bytes=512, segment_bytes=16384,
                      checkpoints=checkpoints, isolate_ppm=500_000, transfer_ppm=300_000, membership_ppm=500_000,
                      fault_gap_us=100_000, client_gap_us=4_000, election_timeout_ticks=10)  # fmt: skip
        Liar(world).cut_at_sync(0, call, is_after)
        world.run(EVENTS)
        assert world.counts["power_cuts"] == 1, call
        world.settle()
        assert world.violation is None, (call, world.violation)
        installs += world.counts["installs"]
    assert installs > 0
