"""The simulated world on one core with every check on: events a second, and simulated seconds a second.

Seconds are of processor time: what else the machine does matters little. Each benchmark carries its events
(`operations`) and `times_real_time`, the mean over its worlds. Those of the swarm live as in a campaign: as many
events under faults, then healing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raftmeta.sim.campaign import EVENTS as EVENTS_OF_A_LIFE
from raftmeta.sim.world.world_handle import World, swarm_profile

pytestmark = pytest.mark.benchmark(timer=time.process_time)

EVENTS = 200_000
PROFILES = 40


@pytest.mark.parametrize("nodes", [3, 5])
def test_quiet_cluster(benchmark: BenchmarkFixture, nodes: int) -> None:
    """No faults: what the engine, the simulated disk and the checks cost."""

    def run() -> None:
        world = World(1, nodes=nodes)
        assert world.run(EVENTS) == EVENTS

    benchmark.extra_info["operations"] = EVENTS
    benchmark.pedantic(run, rounds=3)


def measure_lives(benchmark: BenchmarkFixture, profiles: Iterable[dict[str, int]]) -> None:
    """Live a world of each profile, the first with seed 0, to its end: one round, as the many worlds are the sample."""
    events = 0
    simulated_s = 0.0

    def run() -> None:
        nonlocal events, simulated_s
        for seed, profile in enumerate(profiles):
            world = World(seed, **profile)
            world.run(EVENTS_OF_A_LIFE)
            world.settle()
            assert world.violation is None
            events += world.counts["events"]
            simulated_s += world.simulated_s

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["operations"] = events
    benchmark.extra_info["simulated_s"] = simulated_s
    benchmark.extra_info["times_real_time"] = simulated_s / benchmark.stats["median"]


def test_swarm(benchmark: BenchmarkFixture) -> None:
    """Faults, sizes and quiet hours as the seeds choose them: the dense half of a campaign."""
    measure_lives(benchmark, [swarm_profile(seed, "dense") for seed in range(PROFILES)])


def test_sparse_swarm(benchmark: BenchmarkFixture) -> None:
    """Few kinds of faults at high rates: the other half of a campaign."""
    measure_lives(benchmark, [swarm_profile(seed, "sparse") for seed in range(PROFILES)])


def test_swarm_of_five(benchmark: BenchmarkFixture) -> None:
    """Five nodes, all else as the seeds choose it."""
    measure_lives(benchmark, [{**swarm_profile(seed, "dense"), "nodes": 5} for seed in range(PROFILES)])
