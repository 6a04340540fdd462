"""The observations of clients, as columns: who invoked what when, and what came back.

Each operation is two events: `invoke`, and later `ok`, `fail` (certainly not executed) or `info` (nobody knows; it may
still happen). Events have a total order of their own, `seq`, given by one recorder as they happen: times tie, and a
completion that is sorted behind the next invocation of its process would be another history. An operation that never
completes counts as `info`.

Keys, arguments and results are JSON values, kept as canonical text (no blanks, sorted names), so that two values are
equal when their bytes are. The columns are laid out like Arrow's, so that a table from Parquet is checked without being
copied and without a Python object per event.

This file decides what a history looks like in memory. It never judges one: raftmeta/check/load.pxd says what makes
sense.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Event", "Fault", "History", "Nothing", "Quarantined", "Recorder", "TextColumn", "canonical"]

KINDS = ("invoke", "ok", "fail", "info")
KIND_UNKNOWN = 127  # of a column of 8-bit numbers; the loader puts such an event into quarantine
NOT_TOLD = -1  # a revision or a time
NAMED_PROCESSES = -(2**63)  # from here on: numbers of processes that have names, and that nobody else would have

_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)


class _Nothing:
    """The value of a field that was not given, where None is JSON's null."""

    def __repr__(self) -> str:
        return "Nothing"

    def __reduce__(self) -> str:
        return "Nothing"  # there is one of it, also when it is copied or sent to another process


Nothing = _Nothing()


def canonical(value: Any) -> bytes:
    """The one text of a JSON value; b"" for Nothing.

    Raises TypeError or ValueError for what JSON cannot say.
    """
    if value is Nothing:
        return b""
    return _ENCODER.encode(value).encode()


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a history.

    seq: its place in the total order. process: who; one operation at a time each. kind: invoke, ok, fail or info.
    operation: its name, as the model knows it; None on a completion stands for the one under way. key: of the object it
    works on. revision: at which the store executed it, if told. time_ns: for people; decides nothing.
    """

    seq: int
    process: int | str
    kind: str
    operation: str | None = None
    key: Any = Nothing
    arguments: Any = Nothing
    result: Any = Nothing
    revision: int | None = None
    time_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was done to the cluster, from start_ns to end_ns of the events' clock."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An event that makes no sense. raw: what stood there.

    row: its position in the file or history; -1 for a call that may stand there more than once.
    """

    row: int
    reason: str
    raw: str


class TextColumn:
    """Texts one behind the other: the text of row n is data[offsets[n] : offsets[n + 1]]; empty stands for Nothing."""

    __slots__ = ("data", "offsets")

    def __init__(self, offsets: Any = None, data: Any = None) -> None:
        self.offsets = array("q", [0]) if offsets is None else offsets
        self.data = bytearray() if data is None else data

    def append(self, text: bytes) -> None:
        self.data += text
        self.offsets.append(len(self.data))

    def __getitem__(self, row: int) -> bytes:
        return bytes(self.data[self.offsets[row] : self.offsets[row + 1]])

    def value(self, row: int) -> Any:
        """The JSON value, or Nothing."""
        text = self[row]
        return json.loads(text) if text else Nothing

    def buffers(self) -> tuple[Any, Any]:
        return self.offsets, self.data


@dataclass(slots=True)
class History:
    """Events in the order of `seq`, as columns. Make one by History.of, a Recorder, or raftmeta.check.read_history."""

    seq: Any = field(default_factory=lambda: array("q"))
    process: Any = field(default_factory=lambda: array("q"))
    kind: Any = field(default_factory=lambda: array("b"))
    operation: Any = field(default_factory=lambda: array("i"))
    revision: Any = field(default_factory=lambda: array("q"))
    time_ns: Any = field(default_factory=lambda: array("q"))
    key: TextColumn = field(default_factory=TextColumn)
    arguments: TextColumn = field(default_factory=TextColumn)
    result: TextColumn = field(default_factory=TextColumn)
    names: list[str] = field(default_factory=list)  # of operations, by the codes in the column
    process_names: dict[int, str] = field(default_factory=dict)  # of processes that are no numbers
    faults: list[Fault] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)  # what could not even be made an event

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """The history of these events, in whatever order they come.

        Raises TypeError or ValueError for a value that JSON cannot say.
        """
        history = cls()
        ordered = sorted(events, key=lambda event: event.seq)
        codes: dict[str, int] = {}
        processes: dict[str, int] = {}
        for event in ordered:
            history._append(event, codes, processes)
        history.names = list(codes)
        history.process_names = {number: name for name, number in processes.items()}
        return history

    def _append(self, event: Event, codes: dict[str, int], processes: dict[str, int]) -> None:
        process = event.process
        if isinstance(process, str):
            process = processes.setdefault(process, NAMED_PROCESSES + len(processes))
        self.seq.append(event.seq)
        self.process.append(process)
        self.kind.append(KINDS.index(event.kind) if event.kind in KINDS else KIND_UNKNOWN)
        self.operation.append(-1 if event.operation is None else codes.setdefault(event.operation, len(codes)))
        self.revision.append(NOT_TOLD if event.revision is None else event.revision)
        self.time_ns.append(NOT_TOLD if event.time_ns is None else event.time_ns)
        self.key.append(canonical(event.key))
        self.arguments.append(canonical(event.arguments))
        self.result.append(canonical(event.result))

    def __len__(self) -> int:
        return len(self.seq)

    def event(self, row: int) -> Event:
        """The event at a position of this history."""
        code, kind = self.operation[row], self.kind[row]
        process = self.process[row]
        return Event(
            seq=self.seq[row],
            process=self.process_names.get(process, process),
            kind=KINDS[kind] if 0 <= kind < len(KINDS) else "?",
            operation=self.names[code] if 0 <= code < len(self.names) else None,
            key=self.key.value(row),
            arguments=self.arguments.value(row),
            result=self.result.value(row),
            revision=None if self.revision[row] == NOT_TOLD else self.revision[row],
            time_ns=None if self.time_ns[row] == NOT_TOLD else self.time_ns[row],
        )

    def __iter__(self) -> Iterator[Event]:
        return (self.event(row) for row in range(len(self)))

    def numbers(self) -> tuple[Any, ...]:
        """The columns of numbers, as the native loader takes them."""
        return self.seq, self.process, self.kind, self.operation, self.revision

    def texts(self) -> tuple[tuple[Any, Any], ...]:
        """The columns of texts, as the native loader takes them."""
        return self.key.buffers(), self.arguments.buffers(), self.result.buffers()


class Recorder:
    """Writes down what clients do while they do it; any thread may call it.

    Call invoke() before the request is sent and the others after its answer has come: `seq` is the order of these
    calls, and real time is what linearizability is about.
    """

    def __init__(self, clock_ns: Any = None) -> None:
        """clock_ns: a function that returns nanoseconds, for time_ns; none: no times."""
        self._lock = threading.Lock()
        self._clock_ns = clock_ns
        self._events: list[Event] = []

    def invoke(self, process: int | str, operation: str, key: Any = Nothing, arguments: Any = Nothing) -> None:
        """The process is about to ask for an operation."""
        self._add(process, "invoke", operation, key, arguments, Nothing, None)

    def ok(self, process: int | str, result: Any = Nothing, revision: int | None = None) -> None:
        """Its operation is done, with this result, at this revision of the store."""
        self._add(process, "ok", None, Nothing, Nothing, result, revision)

    def fail(self, process: int | str) -> None:
        """Its operation was certainly not executed, and never will be."""
        self._add(process, "fail", None, Nothing, Nothing, Nothing, None)

    def info(self, process: int | str) -> None:
        """Nobody knows what became of its operation."""
        self._add(process, "info", None, Nothing, Nothing, Nothing, None)

    def history(self) -> History:
        """All that was recorded so far."""
        with self._lock:
            events: Sequence[Event] = list(self._events)
        return History.of(events)

    def _add(
        self,
        process: int | str,
        kind: str,
        operation: str | None,
        key: Any,
        arguments: Any,
        result: Any,
        revision: int | None,
    ) -> None:
        with self._lock:
            time_ns = None if self._clock_ns is None else self._clock_ns()
            seq = len(self._events)
            self._events.append(Event(seq, process, kind, operation, key, arguments, result, revision, time_ns))
