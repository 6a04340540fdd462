"""Rates of the state tree alone: python -m pytest benchmarks/test_bench_tree.py.

Puts run natively: find, new entry, put, hash, cut of the old version, publish and reclaim. Divide the operations that
each test names by its time."""

from __future__ import annotations

import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.faces.machine import MachineHandle
from tests.faces.tree import TreeHandle
from tests.machine import commands as c


def loaded(keys: int) -> TreeHandle:
    tree = TreeHandle()
    tree.load_rounds(keys)
    return tree


@pytest.mark.parametrize("keys", [1_000, 100_000, 1_000_000])
@pytest.mark.parametrize("batch", [1, 256])
def test_random_overwrites(benchmark: BenchmarkFixture, keys: int, batch: int) -> None:
    """256,000 puts of 64-byte values."""
    tree = loaded(keys)
    benchmark.extra_info["puts"] = 256_000
    benchmark.pedantic(tree.run_rounds, args=(256_000 // batch,), kwargs={"batch": batch, "keys": keys}, rounds=5)
    benchmark.extra_info["bytes_per_key"] = tree.retained_bytes / keys
    assert tree.count == keys


@pytest.mark.parametrize("keys", [100_000, 1_000_000])
def test_gets_one_by_one_from_python(benchmark: BenchmarkFixture, keys: int) -> None:
    """100,000 short reads of random keys."""
    tree = loaded(keys)
    draw = random.Random(1)
    wanted = [b"key-%010d" % draw.randrange(keys) for _ in range(100_000)]

    def read() -> None:
        get = tree.get
        for key in wanted:
            get(key)

    benchmark.extra_info["gets"] = len(wanted)
    benchmark.pedantic(read, rounds=5)
    assert tree.get(wanted[0]) is not None


def test_difference_of_one_percent_of_a_million_keys(benchmark: BenchmarkFixture) -> None:
    """10,000 random changes, found by walking both roots past what they share."""
    tree = loaded(1_000_000)
    older = tree.pin()
    tree.run_rounds(40, batch=250, keys=1_000_000)
    newer = tree.pin()
    changed, more = benchmark.pedantic(older.difference, args=(newer,), rounds=5)
    assert not more and 9_000 < len(changed) <= 10_000


def test_scan_of_a_pinned_root(benchmark: BenchmarkFixture) -> None:
    """A million entries, natively."""
    tree = loaded(1_000_000)
    with tree.pin() as root:
        assert benchmark.pedantic(root.scan, rounds=5) == 1_000_000


def test_ten_children_above_a_million_keys(benchmark: BenchmarkFixture) -> None:
    """A range in groups, from the machine's published state: one seek for each of the ten children."""
    machine = MachineHandle()
    for child in range(10):
        for first in range(0, 100_000, 5_000):
            machine.apply(c.keys(*[c.put(b"dir/child-%d/%09d" % (child, n)) for n in range(first, first + 5_000)]))
    machine.publish()
    benchmark.extra_info["children"] = 10

    def children() -> tuple[int, bytes, int, bool, int]:
        return machine.range_shared(b"dir/", b"dir0", delimiter=b"/", skip=4)

    _, page, count, more, _ = benchmark.pedantic(children, rounds=500, warmup_rounds=20)
    assert (count, more) == (10, False) and page.count(b"dir/child-") == 10
