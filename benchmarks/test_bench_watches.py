"""What watches cost the thread that applies: python -m pytest benchmarks/test_bench_watches.py.

Each round applies 20,000 puts of one key through the whole machine; compare with the row without watches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.faces.watches import HandledWatch, WatchedMachine
from tests.machine import commands as c

PUTS = 20_000


def none(machine: WatchedMachine) -> list[HandledWatch]:
    return []


def distinct_keys(machine: WatchedMachine) -> list[HandledWatch]:
    return [machine.add(b"key/%06d" % n, b"key/%06d\0" % n) for n in range(100_000)]


def distinct_prefixes(machine: WatchedMachine) -> list[HandledWatch]:
    return [machine.add(b"prefix/%06d/" % n, b"prefix/%06d0" % n) for n in range(100_000)]


def the_key(machine: WatchedMachine) -> list[HandledWatch]:
    return [machine.add(b"put", b"put\0")]


@pytest.mark.parametrize("watched", [none, distinct_keys, distinct_prefixes, the_key])
def test_puts_beside_watches(
    benchmark: BenchmarkFixture, watched: Callable[[WatchedMachine], list[HandledWatch]]
) -> None:
    """100,000 watches elsewhere, or one that sees every put."""
    machine = WatchedMachine(queue_bytes_max=1 << 40)
    watches = watched(machine)
    payload = c.keys(c.put(b"put", bytes(64)))
    benchmark.extra_info["puts"] = PUTS
    benchmark.pedantic(machine.apply, args=(payload,), kwargs={"times": PUTS}, rounds=5)
    assert machine.revision == 5 * PUTS
    if watched is the_key:
        assert watches[0].take()[0] == 5 * PUTS


def test_a_put_seen_by_a_thousand_watches(benchmark: BenchmarkFixture) -> None:
    """200 puts of one key, each enqueued to 1,000 watches: 200,000 items."""
    machine = WatchedMachine(queue_bytes_max=1 << 40)
    watches = [machine.add(b"put", b"put\0") for _ in range(1000)]
    payload = c.keys(c.put(b"put", bytes(64)))
    benchmark.pedantic(machine.apply, args=(payload,), kwargs={"times": 200}, rounds=5)
    assert watches[-1].take()[0] == 1000
