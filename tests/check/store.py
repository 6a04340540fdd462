"""A store that is linearizable by construction, and clients that use it at once: histories to check and to spoil."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from raftmeta.check import Event, History, Nothing


@dataclass
class Store:
    """Keys with values, and a revision that counts what changed them: reads have that of the change before."""

    values: dict[str, Any] = field(default_factory=dict)
    revision: int = 0

    def execute(self, operation: str, key: Any, arguments: Any) -> Any:
        """The result; `revision` is that of the operation afterwards."""
        if operation == "read":
            return self.values.get(key)
        if operation == "cas":
            old, new = arguments
            has_matched = self.values.get(key) == old
            if has_matched:
                self.values[key] = new
                self.revision += 1
            return has_matched
        self.revision += 1
        if operation == "txn":
            return [[name, one, self._access(name, one, value)] for name, one, value in arguments]
        self.values[key] = None if operation == "delete" else arguments
        return Nothing

    def _access(self, name: str, key: str, value: Any) -> Any:
        if name == "w":
            self.values[key] = value
            return value
        return self.values.get(key)


@dataclass
class Client:
    """A process with an operation under way."""

    invocation: Event
    result: Any = Nothing
    revision: int | None = None
    has_taken_effect: bool = False


@dataclass
class Workload:
    """What clients do, drawn from a seed; every operation is executed between its two events, or crashes."""

    operations: int = 1000
    processes: int = 5
    keys: int = 1
    values: int = 5
    crash_share: float = 0.0
    has_revisions: bool = True
    draw: Callable[[random.Random, Workload, int], tuple[str, Any, Any]] | None = None

    def run(self, seed: int) -> list[Event]:
        """The events, of a history that is linearizable."""
        random_ = random.Random(seed)
        store, events, clients = Store(), [], dict[int, Client]()
        invoked = 0
        while invoked < self.operations or clients:
            process = random_.randrange(self.processes)
            client = clients.get(process)
            if client is None:
                if invoked < self.operations:
                    operation, key, arguments = (self.draw or draw_register)(random_, self, invoked)
                    event = Event(len(events), process, "invoke", operation, key, arguments, time_ns=len(events) * 1000)
                    clients[process] = Client(event)
                    events.append(event)
                    invoked += 1
            elif random_.random() < self.crash_share:
                events.append(Event(len(events), process, "info", time_ns=len(events) * 1000))
                del clients[process]
            elif not client.has_taken_effect:
                asked = client.invocation
                client.result = store.execute(str(asked.operation), asked.key, asked.arguments)
                client.revision = store.revision if self.has_revisions else None
                client.has_taken_effect = True
            else:
                events.append(
                    Event(
                        len(events),
                        process,
                        "ok",
                        result=client.result,
                        revision=client.revision,
                        time_ns=len(events) * 1000,
                    )
                )
                del clients[process]
        return events


def draw_register(random_: random.Random, workload: Workload, number: int) -> tuple[str, Any, Any]:
    """Reads, writes and compare-and-sets of few values: the hardest to tell apart."""
    key = f"k{random_.randrange(workload.keys)}"
    operation = random_.choice(("read", "read", "write", "cas"))
    drawn = [random_.randrange(workload.values), random_.randrange(workload.values)]
    return operation, key, Nothing if operation == "read" else drawn[0] if operation == "write" else drawn


def draw_transactions(random_: random.Random, workload: Workload, number: int) -> tuple[str, Any, Any]:
    """Transactions on two keys, each write of a value of its own."""
    one, other = random_.sample(range(max(2, workload.keys)), 2)
    return "txn", Nothing, [["r", f"k{one}", None], ["w", f"k{other}", number]]


def history_of(events: Sequence[Event]) -> History:
    """The history of these events in this order, whatever their seq was."""
    return History.of(replace(event, seq=position) for position, event in enumerate(events))


def sequential(*calls: tuple[Any, ...], key: Any = "k") -> History:
    """(operation, arguments, result) one after the other."""
    events = []
    for operation, arguments, result in calls:
        events.append(Event(len(events), 0, "invoke", operation, key, arguments))
        events.append(Event(len(events), 0, "ok", result=result))
    return History.of(events)


def overlapping(*lines: str) -> History:
    """Each line is a process over time: `w1` begins a write of 1, `r` a read, `c12` a compare-and-set of 1 to 2.

    `.` is time that passes. What is under way completes at the next word: `ok`, `2` (a read returns 2), `-` (null),
    `t` and `f`, `fail` or `info`. All lines are read in step, column by column, of words that are separated by blanks.
    """
    events: list[Event] = []
    table = [line.split() for line in lines]
    for column in range(max(map(len, table))):
        for process, words in enumerate(table):
            word = words[column] if column < len(words) else "."
            if word != ".":
                events.append(_event(len(events), process, word))
    return History.of(events)


def _event(seq: int, process: int, word: str) -> Event:
    if word == "r":
        return Event(seq, process, "invoke", "read", "x")
    if word[0] == "w":
        return Event(seq, process, "invoke", "write", "x", int(word[1:]))
    if word[0] == "c":
        return Event(seq, process, "invoke", "cas", "x", [int(word[1]), int(word[2])])
    if word in ("fail", "info"):
        return Event(seq, process, word)
    result = {"ok": Nothing, "-": None, "t": True, "f": False}
    return Event(seq, process, "ok", result=result[word] if word in result else int(word))
