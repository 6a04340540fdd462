"""The two ways in which the recipes are run: blocking and on asyncio.

Every recipe is written once, as coroutines over a Face. On asyncio they are awaited as they are. For callers that may
block the same coroutines run over a BlockingFace, where nothing ever suspends: what they await blocks the calling
thread and returns, so that one send() runs a coroutine to its end (run). What goes on beside a call, following a watch
or telling a listener, is a task on asyncio and a daemon thread here.

A face decides how one waits; it never decides what a recipe does.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from raftmeta.flags import Flag
from raftmeta.interfaces import Owner
from raftmeta.operations import CompareOperator, Fence, Key, KeyRecord, Operation, RangeResult
from raftmeta.recipes.store import AioLease, AioStore, AioVerbs, AioWatch, Store, StoreLease, StoreWatch, Written
from raftmeta.results import TxnReply, WatchBatch, WatchReset

if TYPE_CHECKING:
    import asyncio  # the half for asyncio imports it when it runs: callers that only block do not pay for it

__all__ = ["AioFace", "BlockingFace", "Face", "Signal", "Watching", "run"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


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
        """What comes next; None: it was closed, or its time-out passed, and nothing comes any more."""

    async def close(self) -> None: ...


class Face(ABC):
    """What the recipes need beside the verbs of a store."""

    is_blocking: bool
    verbs: AioVerbs

    def __init__(self, store: object) -> None:
        self._store = store
        self._anonymous = _anonymous(store)

    @property
    def owner(self) -> Owner:
        """Who this store's holdings belong to; of a node, it is known once the node runs."""
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


# --- for callers that may block ---------------------------------------------------------------------------------------


class _BlockingSignal:
    def __init__(self) -> None:
        self._flag = Flag()
        self.set = self._flag.set
        self.clear = self._flag.clear
        self.is_set = self._flag.is_set

    async def wait(self, timeout_s: float | None = None) -> bool:
        return self._flag.wait(timeout_s)


class _BlockingMutex(AbstractAsyncContextManager[None]):
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_exc: object) -> None:
        self._lock.release()


class _BlockingLease:
    def __init__(self, lease: StoreLease) -> None:
        self._lease = lease
        self.id = lease.id
        self.held = lease.held
        self.remaining_s = lease.remaining_s

    async def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        self._lease.revoke(timeout_s=timeout_s)


class _BlockingWatching:
    def __init__(self, watch: StoreWatch) -> None:
        self._watch = watch
        self._batches = watch.batches()

    async def next(self) -> WatchBatch | WatchReset | None:
        return next(self._batches, None)

    async def close(self) -> None:
        self._watch.close()


class _BlockingVerbs:
    """Coroutines that never suspend: the store's call blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, key: Key, *, revision: int = 0) -> KeyRecord | None:
        return self._store.get(key, revision=revision)

    async def range(
        self,
        *,
        prefix: Key | None = None,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
    ) -> RangeResult:
        return self._store.range(
            prefix=prefix, limit=limit, revision=revision, keys_only=keys_only, count_only=count_only
        )

    async def create(self, key: Key, value: bytes | str, *, fence: Fence | None = None) -> Written:
        return self._store.create(key, value, fence=fence)

    async def update(
        self, key: Key, value: bytes | str | None, *, expected_revision: int = 0, fence: Fence | None = None
    ) -> Written:
        return self._store.update(key, value, expected_revision=expected_revision, fence=fence)

    async def delete(
        self, key: Key, *, expected_revision: int = 0, must_exist: bool = False, fence: Fence | None = None
    ) -> Written:
        return self._store.delete(key, expected_revision=expected_revision, must_exist=must_exist, fence=fence)

    async def add(self, key: Key, number: int = 1) -> Written:
        return self._store.add(key, number)

    async def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: Fence | None = None,
    ) -> TxnReply:
        return self._store.txn(compares, then, otherwise, fence=fence)

    async def lease(self, ttl_s: float, *, on_lost: Callable[[Any], object] | None = None) -> AioLease:
        return _BlockingLease(self._store.lease(ttl_s, on_lost=on_lost))


class BlockingFace(Face):
    """Over a Store: every await blocks."""

    is_blocking = True

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._blocking = store
        self.verbs = _BlockingVerbs(store)

    def signal(self) -> Signal:
        return _BlockingSignal()

    def mutex(self) -> AbstractAsyncContextManager[Any]:
        return _BlockingMutex()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        threading.Thread(target=_run_logged, args=(work, name), name=f"raftmeta-{name}", daemon=True).start()

    def future(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work on a thread of its own; the future has its outcome."""
        future: Future[T] = Future()
        threading.Thread(target=_run_into, args=(work, future), name="raftmeta-fetch", daemon=True).start()
        return future

    async def call(self, listener: Callable[[Any], object], told: object) -> None:
        listener(told)

    async def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> Watching:
        watch = self._blocking.watch(
            key, prefix=prefix, start_revision=start_revision, reset=reset, timeout_s=timeout_s
        )
        return _BlockingWatching(watch)


def _run_logged(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        run(work)
    except Exception:
        _LOG.exception("recipe worker failed worker=%s", name)


def _run_into(work: Coroutine[Any, Any, T], future: Future[T]) -> None:
    try:
        future.set_result(run(work))
    except BaseException as error:
        future.set_exception(error)


# --- on asyncio -------------------------------------------------------------------------------------------------------


class _AioSignal:
    def __init__(self) -> None:
        import asyncio

        self._event = asyncio.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    async def wait(self, timeout_s: float | None = None) -> bool:
        if self._event.is_set():  # also with a time-out of 0, which wait_for never waits for
            return True
        import asyncio

        try:
            return await asyncio.wait_for(self._event.wait(), timeout_s)
        except TimeoutError:
            return False


class _AioWatching:
    def __init__(self, watch: AioWatch) -> None:
        self._watch = watch
        self._batches = watch.batches()

    async def next(self) -> WatchBatch | WatchReset | None:
        return await anext(self._batches, None)

    async def close(self) -> None:
        await self._watch.close()


class AioFace(Face):
    """Over an AioStore: what is spawned is a task of the running event loop."""

    is_blocking = False

    def __init__(self, store: AioStore) -> None:
        super().__init__(store)
        self._aio = store
        self.verbs = store
        self._tasks: set[asyncio.Task[None]] = set()

    def signal(self) -> Signal:
        return _AioSignal()

    def mutex(self) -> AbstractAsyncContextManager[Any]:
        import asyncio

        return asyncio.Lock()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        import asyncio

        task = asyncio.get_running_loop().create_task(work, name=f"raftmeta-{name}")
        self._tasks.add(task)  # the event loop itself holds tasks weakly
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("recipe worker failed worker=%s", task.get_name(), exc_info=error)

    async def call(self, listener: Callable[[Any], object], told: object) -> None:
        outcome = listener(told)
        if inspect.isawaitable(outcome):
            await outcome

    async def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> Watching:
        watch = self._aio.watch(key, prefix=prefix, start_revision=start_revision, reset=reset, timeout_s=timeout_s)
        await watch.__aenter__()
        return _AioWatching(watch)
