"""Replicated classes for tests of raftmeta/sim/users/world: two that are right, and one for each mistake."""

from __future__ import annotations

import random
import time
import uuid
from typing import Any

import raftmeta
from raftmeta.user_machines.values import pack, unpack


@raftmeta.replicated
class Right:
    """Accounts; everything that is different from node to node is left alone."""

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}
        self.tags: set[str] = set()
        self.opened = 0

    @raftmeta.command
    def pay(self, to: str, amount: int) -> int:
        if amount < 0:
            raise raftmeta.Rejected("amounts are not negative")
        self.accounts[to] = self.accounts.get(to, 0) + amount
        return self.accounts[to]

    @raftmeta.command
    def draw(self) -> float:
        """Chance and time that are the same everywhere."""
        entry = raftmeta.current_entry()
        return entry.random().random() + entry.wall_s

    @raftmeta.command
    def tag(self, words: list[str], note: str | None = None) -> list[str]:
        self.tags.update(words)
        return sorted(self.tags)

    @raftmeta.command
    def close(self, name: str) -> int:
        return self.accounts.pop(name)  # KeyError: the command fails on every node, and changes nothing

    def balance(self, name: str) -> int:
        return self.accounts.get(name, 0)

    @raftmeta.invariant
    def nobody_owes(self) -> bool:
        return all(amount >= 0 for amount in self.accounts.values())


@raftmeta.replicated
class Own:
    """Its own dump, load and calls."""

    def __init__(self) -> None:
        self.items: list[int] = []

    @raftmeta.command
    def push(self, item):  # type: ignore[no-untyped-def]
        self.items.append(item)
        return len(self.items)

    def dump(self) -> bytes:
        return pack(self.items)

    @classmethod
    def load(cls, data: bytes) -> Own:
        loaded = cls()
        loaded.items = unpack(data)
        return loaded

    @classmethod
    def simulated_call(cls, stream: random.Random) -> tuple[str, tuple[int]]:
        return "push", (stream.randrange(10),)


@raftmeta.replicated
class AsksTheTime:
    def __init__(self) -> None:
        self.at = 0.0

    @raftmeta.command
    def stamp(self) -> None:
        self.at = time.time()


@raftmeta.replicated
class OrdersBySet:
    def __init__(self) -> None:
        self.names: set[str] = set()

    @raftmeta.command
    def add(self, name: str) -> str:
        self.names.add(name)
        return ",".join(self.names)


@raftmeta.replicated
class DrawsLots:
    def __init__(self) -> None:
        self.lot = 0

    @raftmeta.command
    def draw(self) -> None:
        self.lot = random.randrange(1000)


@raftmeta.replicated
class MakesIds:
    @raftmeta.command
    def make(self) -> str:
        return uuid.uuid4().hex


_SHARED: list[str] = []


@raftmeta.replicated
class SharesADefault:
    def __init__(self, items: list[str] = _SHARED) -> None:
        self.items = items

    @raftmeta.command
    def add(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)


@raftmeta.replicated
class ForgetsAField:
    def __init__(self) -> None:
        self.items: list[int] = []
        self.pushed = 0

    @raftmeta.command
    def push(self, item: int) -> int:
        self.items.append(item)
        self.pushed += 1
        return self.pushed

    def dump(self) -> bytes:
        return pack(self.items)

    @classmethod
    def load(cls, data: bytes) -> ForgetsAField:
        loaded = cls()
        loaded.items = unpack(data)
        return loaded


@raftmeta.replicated
class ReadsThatWrite:
    def __init__(self) -> None:
        self.asked = 0

    @raftmeta.command
    def nothing(self) -> None:
        pass

    def count(self) -> int:
        self.asked += 1
        return self.asked


@raftmeta.replicated
class BreaksItsInvariant:
    def __init__(self) -> None:
        self.stock = 3

    @raftmeta.command
    def take(self) -> int:
        self.stock -= 1
        return self.stock

    @raftmeta.invariant
    def stock_is_there(self) -> None:
        assert self.stock >= 0, f"stock is {self.stock}"


@raftmeta.replicated
class CannotBeDumped:
    def __init__(self) -> None:
        self.waiting: Any = None

    @raftmeta.command
    def wait(self) -> None:
        self.waiting = iter(())


@raftmeta.replicated
class TakesAnything:
    @raftmeta.command
    def take(self, handle: memoryview) -> None:
        pass
