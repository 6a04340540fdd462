"""A model of Cassandra, in memory: partitions, lightweight transactions, times to live, and faults on demand.

It knows the statements of raftmeta/backends/cassandra.py and no others. As Cassandra does, it counts whole seconds, so
that a row ends up to one second before its time to live is over.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cassandra import ConsistencyLevel

from raftmeta.backends.cassandra import READS, TABLES, WRITES, Cassandra

KINDS = {
    text.format(table=table.name, partition=table.partition, row=table.row): (kind, table.name)
    for table in TABLES
    for kind, text in {**READS, **WRITES}.items()
}


class Statement:
    """A prepared statement; bound, it has values."""

    def __init__(self, text: str, values: Sequence[Any] = ()) -> None:
        self.text, self.values = text, values
        self.kind, self.table = KINDS[text]
        self.consistency_level = self.serial_consistency_level = self.fetch_size = None

    def bind(self, values: Sequence[Any]) -> Statement:
        return Statement(self.text, values)


class Batch(list[Statement]):
    """As cassandra.query.BatchStatement."""

    def __init__(self, serial_consistency_level: Any) -> None:
        super().__init__()
        self.serial_consistency_level = serial_consistency_level

    def add(self, statement: Statement, values: Sequence[Any]) -> None:
        self.append(statement.bind(values))


@dataclass(slots=True)
class Partition:
    epoch: int | None = None
    last: Any = None
    rows: dict[str, SimpleNamespace] = field(default_factory=dict)


Fault = Callable[[Callable[[], bool]], bool]


class Model:
    """The servers. faults: each is given the next conditional write, to do or not, and raises what its client hears."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, str], Partition] = {}
        self.prepared: list[str] = []
        self.asked: list[tuple[str, Any]] = []  # kind and consistency
        self.times_to_live: list[int] = []
        self.faults: list[Fault] = []
        self.read_faults: list[Exception] = []
        self.refuses_renewals: Exception | None = None
        self.lock = threading.RLock()

    def partition(self, table: str, name: str) -> Partition:
        found = self.partitions.setdefault((table, name), Partition())
        found.rows = {row: one for row, one in found.rows.items() if one.until > time.time()}
        return found

    # --- reads --------------------------------------------------------------------------------------------------------
    def read(self, statement: Statement, values: Sequence[Any]) -> list[Any]:
        with self.lock:
            self.asked.append((statement.kind, statement.consistency_level))
            if self.read_faults:
                raise self.read_faults[0]
            name, *limits = values
            if (statement.table, name) not in self.partitions:
                return []
            found = self.partition(statement.table, name)
            static = {"epoch": found.epoch, "last": found.last}
            if statement.kind == "state":
                return [SimpleNamespace(**static)]
            chosen: Callable[[str], bool] = {
                "one": lambda row: row == limits[0],
                "some": lambda row: row in limits[0],
                "span": lambda row: limits[0] <= row < limits[1],
                "whole": lambda row: True,
            }[statement.kind]
            rows = [SimpleNamespace(**vars(found.rows[row]), **static) for row in sorted(found.rows) if chosen(row)]
            if statement.kind == "whole" and not rows:
                nothing = dict.fromkeys(("row", "value", "created", "modified", "lease", "writer"))
                return [SimpleNamespace(**nothing, **static)]
            return rows

    # --- conditional writes -------------------------------------------------------------------------------------------
    def write(self, steps: Sequence[Statement], level: Any) -> bool:
        with self.lock:
            kind = steps[0].kind if len(steps) == 1 else "batch"
            self.asked.append((kind, level))
            if kind == "renew" and self.refuses_renewals is not None:
                raise self.refuses_renewals
            if self.faults and kind == "batch":
                return self.faults.pop(0)(lambda: self.apply(steps))
            return self.apply(steps)

    def apply(self, steps: Sequence[Statement]) -> bool:
        """All of them, if every condition holds."""
        with self.lock:
            done = [self._step(one) for one in steps]
            if not all(holds for holds, _ in done):
                return False
            for _, change in done:
                change()
            return True

    def _step(self, statement: Statement) -> tuple[bool, Callable[[], object]]:
        kind, values = statement.kind, statement.values
        name = values[2] if kind == "step" else values[6] if kind in ("put", "renew") else values[0]
        found = self.partition(statement.table, name)
        if kind == "step":
            return found.epoch == values[3], lambda: self._set(found, epoch=values[0], last=values[1])
        row = values[7] if kind in ("put", "renew") else values[1]
        former = found.rows.get(row)
        if kind == "remove":
            return True, lambda: found.rows.pop(row, None)
        if kind == "hold":
            return former is not None and former.modified == values[2], lambda: None
        holds = kind == "put" or (former is not None and former.lease == values[8])
        return holds, lambda: self._put(found, row, values)

    @staticmethod
    def _set(found: Partition, *, epoch: int, last: Any) -> None:
        found.epoch, found.last = epoch, last

    def _put(self, found: Partition, row: str, values: Sequence[Any]) -> None:
        ttl, value, created, modified, lease, writer = values[:6]
        self.times_to_live.append(ttl)
        until = math.floor(time.time()) + ttl if ttl else math.inf
        found.rows[row] = SimpleNamespace(
            row=row, value=value, created=created, modified=modified, lease=lease, writer=writer, until=until
        )


class Session:
    """As a session of cassandra-driver."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def prepare(self, text: str) -> Statement:
        self._model.prepared.append(text)
        return Statement(text)

    def execute(self, statement: Statement | Batch, timeout: float) -> Any:
        assert timeout > 0, "cassandra-driver waits without an end for 0"
        steps = statement if isinstance(statement, Batch) else [statement]
        return SimpleNamespace(was_applied=self._model.write(steps, statement.serial_consistency_level))

    def execute_async(self, statement: Statement, values: Sequence[Any], timeout: float) -> Any:
        assert timeout > 0
        return SimpleNamespace(result=lambda: self._model.read(statement, values))


def system_of(model: Model) -> Cassandra:
    """A client of the model."""
    return Cassandra(SimpleNamespace(shutdown=lambda: None), Session(model))


SERIAL = ConsistencyLevel.SERIAL
