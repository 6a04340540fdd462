"""Durations of operations and times of answers: counts that tasks make apart and Spark adds up.

Latencies fall on a logarithmic scale of 32 steps per doubling, so that counts of tasks can be added and a percentile
is exact to 2.2 %; the longest is exact. Answers are counted in slots of 10 ms with the first and the last moment in
each, so that a time without answers is exact to the nanosecond when it is longer than a slot.

It decides how times are counted. Times never decide a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from raftmeta.check import History
from raftmeta.check.history import KINDS, NOT_TOLD
from raftmeta.spark.findings import finding_batches, findings_of

__all__ = ["STEPS_PER_DOUBLING", "Times"]

STEPS_PER_DOUBLING = 32
SLOT_NS = 10_000_000
WINDOW_NS = 10_000_000_000  # of the table of latencies
OK = KINDS.index("ok")

# Columns by which rows are counted, and of those that tell more, how rows of one count become one.
LATENCY = (["operation", "outcome", "window_ns", "step"], [("n", "sum"), ("longest_ns", "max")])
ANSWERS = (["slot_ns", "outcome"], [("n", "sum"), ("first_ns", "min"), ("last_ns", "max")])


class Times:
    """The times of the histories that one task reads; those of one file are added up before they are sent."""

    def __init__(self, fault_begins: Sequence[int]) -> None:
        self._fault_begins = np.asarray(fault_begins, np.int64)
        self._first_ok_ns: dict[int, int] = {}  # by fault
        self._totals: dict[str, int] = dict.fromkeys(("events", "ok", "fail", "info"), 0)
        self._bounds: list[int] = []
        self._latencies: list[pa.Table] = []
        self._answers: list[pa.Table] = []

    def add(self, history: History, invocations: bytes) -> None:
        """Count a history. invocations: of each row, the row of the invocation that it completes, or -1."""
        called_at = np.frombuffer(invocations, np.int32)
        done_at = np.flatnonzero(called_at >= 0)
        called_at = called_at[done_at]
        kinds = np.frombuffer(history.kind, np.int8)[done_at]
        times = np.frombuffer(history.time_ns, np.int64)
        self._add_totals(len(history), kinds, times)
        called, done = times[called_at], times[done_at]
        is_timed = (called != NOT_TOLD) & (done != NOT_TOLD)
        if not is_timed.all():
            called_at, kinds, called, done = called_at[is_timed], kinds[is_timed], called[is_timed], done[is_timed]
        if len(done):
            codes = np.frombuffer(history.operation, np.int32)[called_at]
            self._latencies.append(_latencies(history.names, codes, kinds, called, done))
            self._answers.append(_answers(kinds, done))
            self._add_first_answers(kinds, called, done)

    def findings(self, run: str, name: str) -> Iterator[pa.RecordBatch]:
        """The findings for all counts."""
        bounds = {"first_ns": min(self._bounds), "last_ns": max(self._bounds)} if self._bounds else {}
        yield from finding_batches(run, name, "totals", [{**self._totals, **bounds}])
        if self._latencies:
            yield findings_of(run, name, "latency", _joined(self._latencies, *LATENCY))
            yield findings_of(run, name, "answers", _joined(self._answers, *ANSWERS))
        rows = [{"fault": fault, "time_ns": time_ns} for fault, time_ns in sorted(self._first_ok_ns.items())]
        yield from finding_batches(run, name, "first_answer", rows)

    def _add_totals(self, events: int, kinds: Any, times: Any) -> None:
        self._totals["events"] += events
        for name, count in zip(KINDS, np.bincount(kinds, minlength=len(KINDS)).tolist(), strict=True):
            if name in self._totals:
                self._totals[name] += count
        told = times[times != NOT_TOLD]
        if len(told):
            self._bounds += [int(told.min()), int(told.max())]

    def _add_first_answers(self, kinds: Any, called: Any, done: Any) -> None:
        """Note for each fault when the first operation that was invoked after its beginning was done."""
        called, done = called[kinds == OK], done[kinds == OK]
        if not len(self._fault_begins) or not len(done):
            return
        order = np.argsort(called, kind="stable")
        earliest = np.minimum.accumulate(done[order][::-1])[::-1]  # of those invoked then or later
        places = np.searchsorted(called[order], self._fault_begins)
        for fault, place in enumerate(places.tolist()):
            if place < len(earliest):
                time_ns = int(earliest[place])
                self._first_ok_ns[fault] = min(time_ns, self._first_ok_ns.get(fault, time_ns))


def _latencies(names: list[str], codes: Any, kinds: Any, called: Any, done: Any) -> pa.Table:
    taken = np.maximum(done - called, 1)
    step = np.floor(np.log2(taken.astype(np.float64)) * STEPS_PER_DOUBLING).astype(np.int32)
    table = pa.table({"code": codes, "kind": kinds, "window": done // WINDOW_NS, "step": step, "taken": taken})
    grouped = table.group_by(["code", "kind", "window", "step"]).aggregate([([], "count_all"), ("taken", "max")])
    return pa.table(
        {
            "operation": _named(grouped["code"], names),
            "outcome": _named(grouped["kind"], KINDS),
            "window_ns": np.asarray(grouped["window"]) * WINDOW_NS,
            "step": grouped["step"],
            "n": grouped["count_all"],
            "longest_ns": grouped["taken_max"],
        }
    )


def _answers(kinds: Any, done: Any) -> pa.Table:
    table = pa.table({"kind": kinds, "slot": done // SLOT_NS, "done": done})
    grouped = table.group_by(["kind", "slot"]).aggregate([([], "count_all"), ("done", "min"), ("done", "max")])
    return pa.table(
        {
            "slot_ns": np.asarray(grouped["slot"]) * SLOT_NS,
            "outcome": _named(grouped["kind"], KINDS),
            "n": grouped["count_all"],
            "first_ns": grouped["done_min"],
            "last_ns": grouped["done_max"],
        }
    )


def _named(numbers: Any, names: Sequence[str]) -> pa.Array:
    return pa.array(names, pa.string()).take(numbers.combine_chunks())


def _joined(tables: list[pa.Table], by: list[str], rules: list[tuple[str, str]]) -> pa.Array:
    """The rows of all tables as structs; rows that count the same become one."""
    table = pa.concat_tables(tables)
    if len(tables) > 1:
        table = table.group_by(by).aggregate(rules)
        table = table.rename_columns({f"{name}_{rule}": name for name, rule in rules})
    names = [*by, *(name for name, _ in rules)]
    return pa.StructArray.from_arrays([table[name].combine_chunks() for name in names], names=names)
