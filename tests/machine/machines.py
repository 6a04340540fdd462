"""Machines for tests: one that answers with Python values, and one made from the dump of another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.faces.machine import MachineHandle
from tests.machine import commands as c


class Answer(NamedTuple):
    """One result, unpacked."""

    status: int
    revision: int
    body: Any
    is_duplicate: bool
    changed: int
    slices: int


class Machine:
    """A MachineHandle with a lease clock, whose answers are Python values."""

    def __init__(self, **limits: int) -> None:
        self.handle = MachineHandle(**limits)
        self.lease_ms = 0

    def apply(self, payload: bytes) -> Answer:
        applied = self.handle.apply(payload, lease_ms=self.lease_ms)
        status, revision, body = c.unpack(applied.body)
        assert (status, revision) == (applied.status, applied.revision)
        return Answer(status, revision, body, applied.is_duplicate, applied.changed, applied.slices)

    def txn(self, *operations: Any, **envelope: Any) -> Answer:
        return self.apply(c.keys(*operations, **envelope))

    def results(self, *operations: Any, **envelope: Any) -> list[Any]:
        """The results of a transaction that must succeed."""
        answer = self.txn(*operations, **envelope)
        assert answer.status == c.OK
        results: list[Any] = answer.body[1]
        return results

    def value(self, key: bytes) -> bytes | None:
        record = self.handle.get(key)[1]
        return record[1] if record else None

    def keys(self) -> list[bytes]:
        """The live keys, in order."""
        records, _ = self.results(c.read_range(b"", b""))[0]
        return [key for key, *_ in records]

    def state_hash(self) -> int:
        return self.handle.status().state_hash


def loaded(chunks: Iterable[bytes], *differences: Iterable[bytes], **limits: int) -> MachineHandle:
    """A machine that loaded these chunks, and the differences behind them, all of them and well."""
    machine = MachineHandle(**limits)
    for layer in (chunks, *differences):
        for chunk in layer:
            assert machine.load_chunk(chunk) == c.OK
    assert machine.load_done() == c.OK
    return machine
