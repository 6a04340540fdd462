"""The face of callers on asyncio: recipes are awaited as they are, and what goes on beside a call is a task.

It loads asyncio: a program that only blocks does without this module.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from raftmeta.common.waiting import happened
from raftmeta.interfaces import AioHeld, HeldBase
from raftmeta.operations import Key
from raftmeta.recipes.face import Face, Signal, Watching
from raftmeta.recipes.store import AioStore, AioWatch
from raftmeta.results import WatchBatch, WatchReset

__all__ = ["AioFace"]

_LOG = logging.getLogger(__name__)


class _AioSignal:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    async def wait(self, timeout_s: float | None = None) -> bool:
        return await happened(self._event, timeout_s)


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
        return asyncio.Lock()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"raftmeta-{name}")
        self._tasks.add(task)  # the event loop itself holds tasks weakly
        task.add_done_callback(self._ended)

    def spawn_calls(self, calls: Coroutine[Any, Any, None]) -> None:
        self.spawn(calls, "listener")

    def attend(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.spawn(work, name)

    async def follow(self, key: Key | None = None, **where: Any) -> Watching:
        return await self.watch(key, **where)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("recipe worker failed worker=%s", task.get_name(), exc_info=error)

    def show(self, held: AioHeld) -> HeldBase:
        return held

    def is_ending(self, error: BaseException) -> bool:
        return isinstance(error, asyncio.CancelledError | GeneratorExit)

    async def call(self, listener: Callable[[Any], object], told: object) -> None:
        outcome = listener(told)
        if inspect.isawaitable(outcome):
            await outcome

    async def watch(self, key: Key | None = None, **where: Any) -> Watching:
        watch = self._aio.watch(key, **where)
        await watch.__aenter__()
        return _AioWatching(watch)
