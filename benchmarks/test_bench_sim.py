"""The small world: events a second on one core with every check on, for quiet clusters and for swarm profiles."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raftmeta.sim.world_handle import World, swarm_profile

EVENTS = 200_000
PROFILES = 10


@pytest.mark.parametrize("nodes", [3, 5])
def test_quiet_cluster(benchmark: BenchmarkFixture, nodes: int) -> None:
    """No faults: what the engine, the simulated disk and the checks cost."""

    def run() -> None:
        world = World(1, nodes=nodes)
        assert world.run(EVENTS) == EVENTS

    benchmark.extra_info["operations"] = EVENTS
    benchmark.pedantic(run, rounds=3)


def test_swarm(benchmark: BenchmarkFixture) -> None:
    """Faults and sizes as the seeds choose them."""

    def run() -> None:
        for seed in range(PROFILES):
            world = World.swarm(seed)
            assert world.run(EVENTS // PROFILES) == EVENTS // PROFILES

    benchmark.extra_info["operations"] = EVENTS
    benchmark.pedantic(run, rounds=3)


def test_swarm_of_five(benchmark: BenchmarkFixture) -> None:
    """Five nodes, faults as the seeds choose them."""

    def run() -> None:
        for seed in range(PROFILES):
            world = World(seed, **{**swarm_profile(seed), "nodes": 5})
            assert world.run(EVENTS // PROFILES) == EVENTS // PROFILES

    benchmark.extra_info["operations"] = EVENTS
    benchmark.pedantic(run, rounds=3)
