"""Plans of the assignors: python -m pytest benchmarks/test_bench_assignors.py.

10,000 partitions in 100 topics and 500 members. "one left" begins with a settled group that lost a member. "mixed"
members ask for 20 topics each, drawn by a seed; in "doubled" half of the members are new. Times are those of the
processor.
"""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raftmeta.assignors import Member, Plan, Resources, assignor, names

RESOURCES = Resources.of_topics({f"topic-{number:03}": 100 for number in range(100)})
MEMBERS = [Member(f"member-{number:03}") for number in range(500)]
_random = Random(1)
MIXED = [replace(member, topics=frozenset(_random.sample(list(RESOURCES.topics), 20))) for member in MEMBERS]

pytestmark = pytest.mark.benchmark(timer=time.process_time)


def after(members: list[Member], plan: Plan) -> list[Member]:
    return [replace(member, owned=plan.assignments[member.id], generation=1) for member in members]


def measure(benchmark: BenchmarkFixture, name: str, members: list[Member]) -> None:
    plan = benchmark.pedantic(lambda: assignor(name).assign(members, RESOURCES), rounds=5)
    assert sum(map(len, plan.assignments.values())) + len(plan.waiting) == len(RESOURCES.names)
    benchmark.extra_info["operations"] = len(RESOURCES.names)


@pytest.mark.parametrize("name", names())
def test_first_plan(benchmark: BenchmarkFixture, name: str) -> None:
    measure(benchmark, name, MEMBERS)


@pytest.mark.parametrize("name", names())
def test_one_left(benchmark: BenchmarkFixture, name: str) -> None:
    measure(benchmark, name, after(MEMBERS, assignor(name).assign(MEMBERS, RESOURCES))[1:])


def test_mixed_first_plan(benchmark: BenchmarkFixture) -> None:
    measure(benchmark, "sticky", MIXED)


def test_mixed_one_left(benchmark: BenchmarkFixture) -> None:
    measure(benchmark, "sticky", after(MIXED, assignor("sticky").assign(MIXED, RESOURCES))[1:])


def test_mixed_doubled(benchmark: BenchmarkFixture) -> None:
    half = MIXED[::2]
    measure(benchmark, "sticky", [*after(half, assignor("sticky").assign(half, RESOURCES)), *MIXED[1::2]])
