"""Replicated classes that tests use, and the waiting for copies."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import raftmeta
from tests.processes.waiting import wait_until

# While it is closed, Counter.block keeps its copies busy.
GATE = threading.Event()


@raftmeta.replicated
class Board:
    """Who stands where; a place has room for one."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.moves = 0

    @raftmeta.command
    def move(self, who: str, where: int) -> int:
        """Stand at a place that is free; return the number of the move."""
        if where in self.places.values():
            raise raftmeta.Rejected(f"{where} is taken", {"by": self.whose(where)})
        self.moves += 1
        self.places[who] = where
        return self.moves

    @raftmeta.command
    def tear(self, who: str) -> None:
        """Change half of the board, then fail."""
        self.moves += 100
        self.places.pop(who)
        raise ValueError(f"torn at {who}")

    def whose(self, where: int) -> str:
        return next(who for who, place in self.places.items() if place == where)

    def standing(self) -> dict[str, int]:
        return self.places

    def count(self) -> int:
        return self.moves


@raftmeta.replicated
class Stack:
    """PySyncObj's ReplList, as far as its wedge goes."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    @raftmeta.command
    def push(self, item: Any) -> int:
        self.items.append(item)
        return len(self.items)

    @raftmeta.command
    def pop(self) -> Any:
        return self.items.pop()

    def all(self) -> list[Any]:
        return self.items


@raftmeta.replicated
class Counter:
    """Counts, with an id for every time it did: a command that ran twice would be seen."""

    def __init__(self) -> None:
        self.value = 0
        self.seen: set[str] = set()
        self.twice: list[str] = []

    @raftmeta.command
    def add(self, name: str, amount: int = 1, *, padding: bytes = b"") -> int:
        if name in self.seen:
            self.twice.append(name)
        self.seen.add(name)
        self.value += amount
        return self.value

    @raftmeta.command
    def block(self) -> None:
        """What a command must not do: wait for the test."""
        GATE.wait(30)

    def total(self) -> int:
        return self.value

    def repeated(self) -> list[str]:
        return self.twice


@raftmeta.replicated
class Pickled:
    """A class with a state of its own form."""

    def __init__(self) -> None:
        self.points = [complex(0, 0)]

    @raftmeta.command
    def go(self, east: float, north: float) -> str:
        self.points.append(self.points[-1] + complex(east, north))
        return repr(self.points[-1])

    def path(self) -> list[complex]:
        return self.points

    def dump(self) -> bytes:
        return pickle.dumps(self.points)

    @classmethod
    def load(cls, data: bytes) -> Pickled:
        made = cls()
        made.points = pickle.loads(data)
        return made


def until(condition: Callable[[], Any], *, what: str) -> Any:
    """The first true answer of a condition; fails after ten seconds."""
    return wait_until(condition, timeout_s=30, what=what)


def copies_agree(machines: Iterable[raftmeta.UserMachine]) -> bool:
    """Every copy has run the same commands."""
    return len({machine.metrics()["pointer"] for machine in machines}) == 1


@raftmeta.replicated
class Leaver:
    """Commands that go wrong on every node alike."""

    def __init__(self) -> None:
        self.deepest = 0

    @raftmeta.command
    def walk(self, text: str) -> int:
        """The deepest nesting of "(" so far, by a parser that recurses."""

        def depth(at: int) -> int:
            return depth(at + 1) + 1 if at < len(text) and text[at] == "(" else 0

        self.deepest = max(self.deepest, depth(0))
        return self.deepest

    @raftmeta.command
    def leave(self) -> None:
        sys.exit("the command ends the process")
