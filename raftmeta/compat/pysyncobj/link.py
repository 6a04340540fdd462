"""The side of a cluster that an object sees: of a member (member.py), or of one that only reads (reader.py).

A link puts states and batches into `inbox`, in the order of the log, and sets `news`. The thread that ticks the object
takes them out: replicated methods run nowhere else.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple, Protocol

from raftmeta.compat.pysyncobj.files import Batch, Position
from raftmeta.compat.pysyncobj.outbox import Outbox

__all__ = ["Arrived", "Inbox", "Item", "Link", "Live", "Loaded", "View"]


class Loaded(NamedTuple):
    """The state becomes this one. dump: None for the state of a new object."""

    position: Position
    dump: bytes | None
    members: list[str]


class Arrived(NamedTuple):
    """The next batch of the log."""

    revision: int
    batch: Batch


class Live(NamedTuple):
    """All that was in the log when the object connected stands before this."""


Item = Loaded | Arrived | Live


class View(NamedTuple):
    """The cluster as of now. role: "leader", "candidate" or another word. leader: "" when not known."""

    role: str
    term: int
    leader: str
    connected: frozenset[str]


class Inbox:
    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.news = threading.Event()

    def put(self, item: Item) -> None:
        self.items.append(item)
        self.news.set()


class Link(Protocol):
    """A member or a reader."""

    inbox: Inbox
    outbox: Outbox

    def bind(self) -> None: ...
    def begin(self, position: Position) -> None: ...
    def look(self) -> View: ...
    def tended(self) -> None: ...
    def want(self, members: set[str]) -> None: ...
    def disconnect(self, peer: str) -> None: ...
    def hand_over(self, to: str | None) -> None: ...
    def close(self) -> None: ...
