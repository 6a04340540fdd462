"""The two ways in which the recipes are run: blocking and on asyncio.

Every recipe is written once, as coroutines over a Face. On asyncio they are awaited as they are. For callers that may
block the same coroutines run over a BlockingFace, where nothing ever suspends: what they await blocks the calling
thread and returns, so that one send() runs a coroutine to its end (run).

What goes on beside a call is a task on asyncio. On the blocking face it runs on threads that the whole store shares:
  - work that follows a watch (attend) runs on the threads that call back the store's watches, whenever there is news;
    between two news it is a suspended coroutine and costs no thread;
  - listeners are called on threads of their own, one while none of them blocks;
  - everything else (spawn) waits for one of a few threads.

A face decides how one waits; it never decides what a recipe does.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from raftmeta.common.flags import Flag
from raftmeta.common.shared_threads import SharedThreads
from raftmeta.errors import OutcomeTimeout, Withdrawn
from raftmeta.interfaces import Owner
from raftmeta.operations import CompareOperator, Fence, Key, KeyRecord, Operation, RangeResult
from raftmeta.recipes.store import AioLease, AioStore, AioVerbs, AioWatch, Store, StoreLease, StoreWatch, Written
from raftmeta.results import TxnReply, WatchBatch, WatchReset

if TYPE_CHECKING:
    import asyncio  # the half for asyncio imports it when it runs: callers that only block do not pay for it

__all__ = ["AioFace", "BlockingFace", "Face", "Signal", "Watching", "run"]

WORKERS_MAX = 4  # threads for what recipes go on with: it waits for the store, which answers many or nobody

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


async def _answered(read: Awaitable[T]) -> T:
    """What a read gives; a read that ran out of time has no outcome that anybody could be unsure of."""
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
        """What comes next; None: it was closed, or its time-out passed, and nothing comes any more."""

    async def close(self) -> None: ...


class Face(ABC):
    """What the recipes need beside the verbs of a store."""

    is_blocking: bool
    verbs: AioVerbs

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
    def spawn_calls(self, calls: Coroutine[Any, Any, None]) -> None:
        """Let the calls of one listener go on beside the caller; one that blocks delays no other listener."""

    @abstractmethod
    def attend(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """As spawn, for work that mostly waits for news of a watch that it follows (follow)."""

    @abstractmethod
    async def follow(
        self, key: Key | None = None, *, prefix: Key | None = None, start_revision: int, reset: bool = False
    ) -> Watching:
        """As watch, for work that is attended."""

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


class _Attended:
    """Work that runs in steps: each until nothing is new in the watch that it follows."""

    def __init__(self, work: Coroutine[Any, Any, None], name: str, workers: SharedThreads) -> None:
        self._work = work
        self._name = name
        self._workers = workers

    def step(self) -> None:
        """On the thread of whoever has news. Nothing else steps meanwhile: the work waits in one place."""
        try:
            following: _Following = self._work.send(None)
            while following.has_news(self):
                following = self._work.send(None)
        except StopIteration:
            return
        except Exception:
            _LOG.exception("recipe worker failed worker=%s", self._name)

    def step_soon(self) -> None:
        """On a thread that may wait for the store."""
        self._workers.post(self.step)


class _Following(Watching):
    """A watch whose next() suspends the work that awaits it, until the store calls back."""

    def __init__(self) -> None:
        self.watch: StoreWatch | None = None
        self._lock = threading.RLock()  # a signal handler may close it in between
        self._news: deque[WatchBatch | WatchReset] = deque()
        self._is_over = False
        self._error: BaseException | None = None
        self._waiting: _Attended | None = None

    async def next(self) -> WatchBatch | WatchReset | None:
        while not self._news:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return None
            await _Suspended(self)
        return self._news.popleft()

    def has_news(self, work: _Attended) -> bool:
        """False: work will be stepped when there are some."""
        with self._lock:
            if self._news or self._is_over:
                return True
            self._waiting = work
            return False

    def on_news(self, news: WatchBatch | WatchReset) -> None:
        """Called back by the store, one call at a time."""
        with self._lock:
            self._news.append(news)
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.step()

    def on_end(self, error: BaseException | None) -> None:
        """No more news. What follows waits for the store: not on the thread that calls back all watches."""
        waiting = self._end(error)
        if waiting is not None:
            waiting.step_soon()

    async def close(self) -> None:
        waiting = self._end(None)
        if self.watch is not None:
            self.watch.close()
        if waiting is not None:
            waiting.step()

    def _end(self, error: BaseException | None) -> _Attended | None:
        with self._lock:
            if not self._is_over:
                self._is_over, self._error = True, error
            waiting, self._waiting = self._waiting, None
        return waiting


class _Suspended:
    """Awaited: gives control back to _Attended.step."""

    def __init__(self, following: _Following) -> None:
        self._following = following

    def __await__(self) -> Generator[_Following, None, None]:
        yield self._following


class _BlockingVerbs:
    """Coroutines that never suspend: the store's call blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        return self._store.get(key, revision=revision, local=local, timeout_s=timeout_s)

    async def range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
        local: bool = False,
        timeout_s: float | None = 5.0,
    ) -> RangeResult:
        return self._store.range(
            start,
            end,
            prefix=prefix,
            limit=limit,
            revision=revision,
            keys_only=keys_only,
            count_only=count_only,
            local=local,
            timeout_s=timeout_s,
        )

    async def create(
        self, key: Key, value: bytes | str, *, fence: Fence | None = None, timeout_s: float | None = 5.0
    ) -> Written:
        return self._store.create(key, value, fence=fence, timeout_s=timeout_s)

    async def update(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        expected_revision: int = 0,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> Written:
        return self._store.update(key, value, expected_revision=expected_revision, fence=fence, timeout_s=timeout_s)

    async def delete(
        self,
        key: Key,
        *,
        expected_revision: int = 0,
        must_exist: bool = False,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> Written:
        return self._store.delete(
            key, expected_revision=expected_revision, must_exist=must_exist, fence=fence, timeout_s=timeout_s
        )

    async def add(self, key: Key, number: int = 1) -> Written:
        return self._store.add(key, number)

    async def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply:
        return self._store.txn(compares, then, otherwise, fence=fence, timeout_s=timeout_s)

    async def lease(
        self, ttl_s: float, *, on_lost: Callable[[Any], object] | None = None, timeout_s: float | None = 5.0
    ) -> AioLease:
        return _BlockingLease(self._store.lease(ttl_s, on_lost=on_lost, timeout_s=timeout_s))


class _StoreThreads:
    """What all parts of one store share."""

    def __init__(self) -> None:
        self.callers = SharedThreads("listener")
        self.workers = SharedThreads("recipe", threads_max=WORKERS_MAX)


class BlockingFace(Face):
    """Over a Store: every await blocks."""

    is_blocking = True

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._blocking = store
        self.verbs = _BlockingVerbs(store)
        # setdefault is one step also for two threads
        self._threads: _StoreThreads = vars(store).setdefault("_recipe_threads", _StoreThreads())

    def signal(self) -> Signal:
        return _BlockingSignal()

    def mutex(self) -> AbstractAsyncContextManager[Any]:
        return _BlockingMutex()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._threads.workers.post(lambda: _run_logged(work, name))

    def spawn_calls(self, calls: Coroutine[Any, Any, None]) -> None:
        self._threads.callers.post(lambda: _run_logged(calls, "listener"))

    def attend(self, work: Coroutine[Any, Any, None], name: str) -> None:
        _Attended(work, name, self._threads.workers).step_soon()

    def fetch(
        self,
        key: str,
        timeout_s: float | None,
        get: Callable[[], Coroutine[Any, Any, bytes | None]],
        *,
        local: bool = False,
    ) -> Future[bytes | None]:
        """The data of a key; get: reads it, for a store that has no `fetch` of its own."""
        fetch = getattr(self._store, "fetch", None)
        if fetch is not None and not local:
            return cast("Future[bytes | None]", fetch(key, timeout_s=timeout_s))
        future: Future[bytes | None] = Future()
        self._threads.workers.post(lambda: _run_into(get(), future))
        return future

    async def follow(
        self, key: Key | None = None, *, prefix: Key | None = None, start_revision: int, reset: bool = False
    ) -> Watching:
        following = _Following()
        following.watch = self._blocking.watch(
            key,
            prefix=prefix,
            start_revision=start_revision,
            reset=reset,
            callback=following.on_news,
            on_end=following.on_end,
        )
        return following

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

    def spawn_calls(self, calls: Coroutine[Any, Any, None]) -> None:
        self.spawn(calls, "listener")

    def attend(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.spawn(work, name)

    async def follow(
        self, key: Key | None = None, *, prefix: Key | None = None, start_revision: int, reset: bool = False
    ) -> Watching:
        return await self.watch(key, prefix=prefix, start_revision=start_revision, reset=reset)

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
