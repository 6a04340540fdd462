"""Buggify points: where they stand, when they fire, and for whom."""

from __future__ import annotations

import re

import pytest

from raftmeta.native import buggify
from raftmeta.sim import World, swarm_profile
from raftmeta.sim.campaign import profile_of, profile_text
from raftmeta.sim.world.world_handle import POINTS
from tests.lint.sources import PACKAGE, source_files

ALL = dict.fromkeys(POINTS, 100_000)
STORMY = {"nodes": 5, "crash_ppm": 300_000, "partition_ppm": 300_000, "transfer_ppm": 300_000, "fault_gap_us": 50_000,
          "snapshot_entries": 16, "election_timeout_ticks": 10, "client_gap_us": 10_000}  # fmt: skip
_PLACE = re.compile(r"\bbuggify\(BUGGIFY_(\w+)\)")


def test_every_point_stands_in_production_code_once() -> None:
    """And nothing is asked that has no name; there are more than 15, none of them in the simulator."""
    sources = [path for path in source_files(".pyx", below=PACKAGE) if "sim" not in path.parts]
    placed = [name for path in sources for name in _PLACE.findall(path.read_text())]
    assert sorted(placed) == sorted(buggify.names())
    assert len(placed) >= 15


@pytest.mark.parametrize("seed", range(4))
def test_whatever_fires_breaks_no_invariant(seed: int) -> None:
    """All points at once, a tenth of the time each, under faults; then the cluster converges."""
    world = World(seed, **STORMY, **ALL)
    world.run(15_000)
    world.settle(400_000)
    assert world.violation is None
    assert len(world.buggified) > len(POINTS) // 2


def test_the_profile_says_what_fires() -> None:
    """Profile and tape make the same history again; without its points it is another one."""
    world = World(3, **STORMY, **ALL)
    world.run(10_000)
    again = World(3, **profile_of(3, profile_text(3, world.profile)))
    again.follow(world.tape)
    again.run(10_000)
    assert (again.trace_hash, again.buggified) == (world.trace_hash, world.buggified)
    calm = World(3, **STORMY)
    calm.run(10_000)
    assert calm.trace_hash != world.trace_hash
    assert calm.buggified == {}


def test_nothing_fires_while_a_world_heals() -> None:
    """Progress is owed by an engine that does what it usually does."""
    world = World(5, **STORMY, **ALL)
    world.run(5_000)
    before = world.buggified
    world.settle(400_000)
    assert before != {} and world.buggified == before


def test_a_world_fires_for_itself_only() -> None:
    """Two worlds take turns on one thread: the one without points has the history that it has alone."""
    alone = World(4, **STORMY)
    alone.run(4_000)
    calm, wild = World(4, **STORMY), World(4, **STORMY, **ALL)
    for _ in range(8):
        wild.run(500)
        calm.run(500)
    assert wild.buggified != {}
    assert calm.trace_hash == alone.trace_hash


def test_the_swarm_draws_points() -> None:
    """Half of the dense worlds have none; each point is in some, and in few."""
    drawn = [POINTS.keys() & swarm_profile(seed, "dense").keys() for seed in range(400)]
    assert 150 <= sum(not points for points in drawn) <= 250
    for point in POINTS:
        assert 20 <= sum(point in points for points in drawn) <= 90, point


def test_a_point_that_is_none_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(ValueError, match="buggify_batch_of_one"):
        World(1, buggify_gremlins=1)
