"""Rates of the checker on one core: python -m pytest benchmarks/test_bench_check.py.

Ten histories of a thousand operations on one key are drawn and repeated under other names, so that a million operations
on a thousand keys take no time to make. Engines are measured on loaded histories; the whole way is measured from an
Arrow table to the verdict. Times are those of the processor, since one thread does all the work and waits for nothing.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raftmeta.check import History, check
from raftmeta.check.check_handle import CheckHandle
from raftmeta.check.files import from_arrow, to_arrow
from raftmeta.check.history import TextColumn
from tests.check.store import Workload, history_of

WITNESS, WGL, JUST_IN_TIME = 1, 2, 4
MEANINGS = {"read": 1, "write": 2, "cas": 3}
DRAWN = 10

pytestmark = pytest.mark.benchmark(timer=time.process_time)


def million(processes: int, *, copies: int = 1000, has_revisions: bool = False) -> History:
    """So many thousands of operations, each on a key and by processes of its own, one after the other."""
    drawn = [history_of(Workload(1000, processes, has_revisions=has_revisions).run(seed)) for seed in range(DRAWN)]
    many = History(names=list(MEANINGS))
    for copy in range(copies):
        history = drawn[copy % DRAWN]
        many.seq.extend(range(len(many), len(many) + len(history)))
        many.process.extend(process + copy * processes for process in history.process)
        codes = {code: many.names.index(name) for code, name in enumerate(history.names)} | {-1: -1}
        many.operation.extend(codes[code] for code in history.operation)
        for name in ("kind", "revision", "time_ns"):
            getattr(many, name).extend(getattr(history, name))
        append_texts(many.arguments, history.arguments)
        append_texts(many.result, history.result)
        append_texts(many.key, keys_of_copy(history.key, f"k{copy:05}"))
    return many


def keys_of_copy(column: TextColumn, name: str) -> TextColumn:
    """Every key that is given becomes this one."""
    made = TextColumn()
    for row in range(len(column.offsets) - 1):
        made.append(f'"{name}"'.encode() if column.offsets[row] < column.offsets[row + 1] else b"")
    return made


def append_texts(column: TextColumn, more: TextColumn) -> None:
    start = len(column.data)
    column.data += more.data
    column.offsets.extend(start + offset for offset in more.offsets[1:])


def loaded(history: History, engines: int) -> CheckHandle:
    return CheckHandle(
        history.numbers(),
        history.texts(),
        bytes(MEANINGS[name] for name in history.names),
        is_table=False,
        steps_max=1 << 40,
        bytes_max=1 << 31,
        engines=engines,
    )


def decided(handle: CheckHandle) -> CheckHandle:
    while handle.run(60.0) != 1:
        pass
    return handle


def measure(benchmark: BenchmarkFixture, history: History, engines: int) -> CheckHandle:
    """Rounds of run() alone, each on a handle of its own that was loaded before; all components must be ok."""

    def setup() -> tuple[tuple[CheckHandle], dict[str, Any]]:
        return (loaded(history, engines),), {}

    handle: CheckHandle = benchmark.pedantic(decided, setup=setup, rounds=3)
    assert handle.not_ok() == []
    benchmark.extra_info["operations"] = handle.operations
    benchmark.extra_info["steps_per_operation"] = handle.steps() / handle.operations
    return handle


def test_witness_pass(benchmark: BenchmarkFixture) -> None:
    """A million operations that tell their revisions: target 5 M/s."""
    history = million(5, has_revisions=True)
    assert measure(benchmark, history, WITNESS).engines() == (0, 1000, 0, 0)


@pytest.mark.parametrize("processes", [2, 5, 10])
def test_wgl(benchmark: BenchmarkFixture, processes: int) -> None:
    """Operations without revisions, so many at once on each key: target 1 M/s up to 5."""
    measure(benchmark, million(processes, copies=1000 if processes <= 5 else 100), WGL)


@pytest.mark.parametrize("processes", [2, 5])
def test_just_in_time(benchmark: BenchmarkFixture, processes: int) -> None:
    """200,000 operations without revisions."""
    measure(benchmark, million(processes, copies=200), JUST_IN_TIME)


def test_one_long_key(benchmark: BenchmarkFixture) -> None:
    """100,000 operations on one key, ten at once, five values, no revisions."""
    measure(benchmark, history_of(Workload(100_000, 10, has_revisions=False).run(1)), WGL)


@pytest.mark.parametrize("has_revisions", [True, False])
def test_the_whole_way(benchmark: BenchmarkFixture, has_revisions: bool) -> None:
    """A million operations from an Arrow table to the verdict: load, group, decide."""
    table = to_arrow(million(5, has_revisions=has_revisions))
    checked = benchmark.pedantic(lambda: check(from_arrow(table), model="kv"), rounds=3)
    assert checked.verdict == "ok"
    benchmark.extra_info["operations"] = checked.operations
