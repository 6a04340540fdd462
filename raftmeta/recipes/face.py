"""The two ways in which the recipes are run: blocking and on asyncio.

Every recipe is written once, as coroutines over a Face. On asyncio they are awaited as they are. For callers that may
block the same coroutines run over a BlockingFace, where nothing ever suspends: what they await blocks the calling
thread and returns, so that one send() runs a coroutine to its end (run).

A face decides how one waits, and where work goes on beside a call: recipes/face_blocking on threads, recipes/face_aio
as tasks. It never decides what a recipe does.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from raftmeta.errors import OutcomeTimeout, Withdrawn
from raftmeta.interfaces import AioHeld, HeldBase, Owner
from raftmeta.operations import Key, KeyRecord, RangeResult
from raftmeta.recipes.store import Verbs
from raftmeta.results import WatchBatch, WatchReset

__all__ = ["Face", "Signal", "Watching", "run"]

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a BlockingFace to its end, on this thread."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a recipe on the blocking face awaited something that suspends")


def _anonymous(store: object) -> Owner:
    return Owner(f"{type(store).__name__}-{os.urandom(8).hex()}", 0, 0)


async def _answered(read: Awaitable[T]) -> T:
    """Await a read. A read that ran out of time has no outcome that anybody could be unsure of."""
    try:
        return await read
    except (Withdrawn, OutcomeTimeout):
        raise Withdrawn("no quorum answered this read in time; local=True reads what is known here") from None


class Signal(Protocol):
    """A flag to wait for; on asyncio it belongs to the event loop."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set; False: timeout_s seconds passed."""


class Watching(Protocol):
    """An open watch."""

    async def next(self) -> WatchBatch | WatchReset | None:
        """The next item; None: it was closed, or its time-out passed, and nothing comes any more."""

    async def close(self) -> None: ...


class Face(ABC):
    """The services that recipes need beside the verbs of a store."""

    is_blocking: bool
    verbs: Verbs

    async def read_range(
        self, prefix: str, *, keys_only: bool = False, local: bool = False, timeout_s: float | None = 5.0
    ) -> RangeResult:
        """All below prefix. Raises Withdrawn: nobody answered in time. local: what the node has, without asking."""
        return await _answered(self.verbs.range(prefix=prefix, keys_only=keys_only, local=local, timeout_s=timeout_s))

    async def read(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> KeyRecord | None:
        """As read_range, one key."""
        return await _answered(self.verbs.get(key, local=local, timeout_s=timeout_s))

    def __init__(self, store: object) -> None:
        self._store = store
        self.has_state = bool(getattr(store, "has_state", False))  # in this process: local reads never go back
        # A store without capabilities checks fences.
        self.has_fences = bool(getattr(getattr(store, "capabilities", None), "fencing", True))
        self._anonymous = _anonymous(store)

    @property
    def owner(self) -> Owner:
        """The owner of all that is held on this store; the owner of a node is known once the node runs."""
        named = getattr(self._store, "owner", None)
        return named if isinstance(named, Owner) else self._anonymous

    @abstractmethod
    def signal(self) -> Signal: ...

    @abstractmethod
    def mutex(self) -> AbstractAsyncContextManager[Any]:
        """For what only one caller may do at a time, also while it waits for the store."""

    @abstractmethod
    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let work go on beside the caller; what it raises is logged."""

    @abstractmethod
    def spawn_calls(self, calls: Coroutine[Any, Any, None]) -> None:
        """Let the calls of one listener go on beside the caller; one that blocks delays no other listener."""

    @abstractmethod
    def attend(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """As spawn, for work that mostly waits for news of a watch that it follows (follow)."""

    @abstractmethod
    async def follow(self, key: Key | None = None, **where: Any) -> Watching:
        """As watch, for work that is attended."""

    @abstractmethod
    def show(self, held: AioHeld) -> HeldBase:
        """Something that is held, as a user of this face gets it."""

    @abstractmethod
    def is_ending(self, error: BaseException) -> bool:
        """Whether this error ends what was spawned: it is not a listener's own."""

    @abstractmethod
    async def call(self, listener: Callable[[Any], object], told: object) -> None:
        """Call a listener of the user."""

    @abstractmethod
    async def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> Watching: ...
