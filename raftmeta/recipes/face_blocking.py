"""The face of callers that may block: every await of a recipe blocks the calling thread, and nothing ever suspends.

Work that goes on beside a call runs on threads that the whole store shares:
  - work that follows a watch (attend) runs on the threads that call back the store's watches, whenever there is news;
    between two news it is a suspended coroutine and costs no thread;
  - listeners are called on threads of their own, one while none of them blocks;
  - everything else (spawn) waits for one of a few threads.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar, cast

from raftmeta.common.flags import Flag
from raftmeta.common.shared_threads import SharedThreads
from raftmeta.interfaces import AioHeld, HeldBase
from raftmeta.operations import Key
from raftmeta.recipes.face import Face, Signal, Watching, run
from raftmeta.recipes.store import AioLease, Store, StoreLease, StoreWatch, Verbs
from raftmeta.recipes.twin import twin_of
from raftmeta.results import WatchBatch, WatchReset

__all__ = ["BlockingFace"]

WORKERS_MAX = 4  # threads for what recipes go on with: it waits for the store, which answers many or nobody

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


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
        """No more news. The rest of the work waits for the store, so not on the thread that calls back all watches."""
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
    """The verbs of a store as coroutines that never suspend: the store's call blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def verb(*arguments: Any, **options: Any) -> Any:
            return getattr(self._store, name)(*arguments, **options)

        setattr(self, name, verb)  # from now on found without asking here
        return verb

    async def lease(self, ttl_s: float, **options: Any) -> AioLease:
        return _BlockingLease(self._store.lease(ttl_s, **options))


class _StoreThreads:
    """The threads that all parts of one store share."""

    def __init__(self) -> None:
        self.callers = SharedThreads("listener")
        self.workers = SharedThreads("recipe", threads_max=WORKERS_MAX)


class BlockingFace(Face):
    """Over a Store: every await blocks."""

    is_blocking = True

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._blocking = store
        self.verbs = cast(Verbs, _BlockingVerbs(store))
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
        get: Callable[..., Coroutine[Any, Any, bytes | None]],
        *,
        local: bool,
        timeout_s: float | None,
    ) -> Future[bytes | None]:
        """The data of a key. get: reads it, where the store has no `fetch` of its own for that."""
        future: Future[bytes | None] = Future()
        own = getattr(self._store, "fetch", None)
        if local and self.has_state:
            future.set_result(run(get(key, local=True)))
        elif local or own is None:
            self._threads.workers.post(partial(_run_into, future, partial(get, key, local=local, timeout_s=timeout_s)))
        else:
            return cast("Future[bytes | None]", own(key, timeout_s=timeout_s))
        return future

    async def follow(self, key: Key | None = None, **where: Any) -> Watching:
        following = _Following()
        following.watch = self._blocking.watch(key, callback=following.on_news, on_end=following.on_end, **where)
        return following

    def show(self, held: AioHeld) -> HeldBase:
        shown: HeldBase = twin_of(held)
        return shown

    def is_ending(self, error: BaseException) -> bool:
        return False

    async def call(self, listener: Callable[[Any], object], told: object) -> None:
        listener(told)

    async def watch(self, key: Key | None = None, **where: Any) -> Watching:
        return _BlockingWatching(self._blocking.watch(key, **where))


def _run_logged(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        run(work)
    except Exception:
        _LOG.exception("recipe worker failed worker=%s", name)


def _run_into(future: Future[T], make: Callable[[], Coroutine[Any, Any, T]]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(run(make()))  # a store that was closed meanwhile refuses to make it
    except BaseException as error:
        future.set_exception(error)
