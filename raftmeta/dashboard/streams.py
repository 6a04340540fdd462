"""Server-sent events for the page: of the cluster, of holders, and of keys.

A stream ends with its session, and when the server is being closed. The page opens it again by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse

from raftmeta.dashboard.holders import holders_shape
from raftmeta.dashboard.shapes import change_shape
from raftmeta.dashboard.visitors import Visitor
from raftmeta.errors import AuthenticationFailed, RaftmetaError
from raftmeta.results import WatchBatch

__all__ = ["Ending", "changes_of", "cluster_of", "holders_of", "stream"]

Ending = Callable[[], bool]

ALIVE_S = 1.0
HOLDERS_S = 2.0
EVENTS_MAX = 200  # of one message; a watcher of a busy prefix sees how many more there were


def _event(kind: str, told: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(told, separators=(',', ':'))}\n\n"


def stream(visitor: Visitor, events: AsyncIterator[str]) -> StreamingResponse:
    """The response of a stream. An error ends it and is told by its last event."""

    async def told() -> AsyncIterator[str]:
        async with visitor.streaming():
            try:
                async for event in events:
                    yield event
            except AuthenticationFailed as error:
                visitor.is_over = True
                yield _event("over", {"message": str(error)})
            except RaftmetaError as error:
                yield _event("problem", {"message": str(error)})
            if not visitor.is_current():
                yield _event("over", {"message": "the session has ended"})

    return StreamingResponse(told(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def cluster_of(visitor: Visitor, is_ending: Ending) -> AsyncIterator[str]:
    """All samples, then a picture and a sample for each look."""
    watcher = visitor.watcher
    yield _event("samples", {"samples": list(watcher.samples)[:-1]})
    while visitor.is_current() and not is_ending():
        sample = watcher.samples[-1] if watcher.samples else None
        yield _event("cluster", {"picture": watcher.picture(), "sample": sample})
        await watcher.news(ALIVE_S * 2)


async def holders_of(visitor: Visitor, is_ending: Ending) -> AsyncIterator[str]:
    """Groups, elections and leases, every HOLDERS_S."""
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    while visitor.is_current() and not is_ending():
        if loop.time() >= next_s:
            yield _event("holders", await holders_shape(visitor.watcher.client))
            next_s = loop.time() + HOLDERS_S
        await visitor.watcher.news(ALIVE_S)


async def changes_of(visitor: Visitor, prefix: bytes, is_ending: Ending) -> AsyncIterator[str]:
    """Every change of the keys below a prefix from now on. A page that is too slow is told how many it missed."""
    taking: asyncio.Future[Any] | None = None
    async with visitor.watcher.client.watch(prefix=prefix) as watch:
        batches = watch.batches()
        yield _event("watching", {})
        try:
            while visitor.is_current() and not is_ending():
                taking = taking or asyncio.ensure_future(anext(batches))
                done, _ = await asyncio.wait([taking], timeout=ALIVE_S)
                if not done:
                    yield ": alive\n\n"
                    continue
                batch, taking = taking.result(), None
                if isinstance(batch, WatchBatch) and batch.events:
                    shapes = [change_shape(event) for event in batch.events[:EVENTS_MAX]]
                    yield _event("changes", {"changes": shapes, "left_out": len(batch.events) - len(shapes)})
        except StopAsyncIteration:
            return  # the client is being closed
        finally:
            if taking is not None:
                taking.cancel()
                await asyncio.gather(taking, return_exceptions=True)
