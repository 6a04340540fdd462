"""Changes by REST: of a key, a prefix, a group or an election, after a revision; by long poll or as a stream.

Each change after that revision is told once, in order, or the request is refused as compacted (410). A stream
(`Accept: text/event-stream`) has an event `changes` for each revision, whose id is the revision, and an event `alive`
about once a second while a majority hears the node. It ends when that was not so for three seconds: then another node
knows more. A stream that breaks goes on with `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from raftmeta.errors import InvalidArgument, RaftmetaError
from raftmeta.recipes.keys import prefix_of
from raftmeta.rest.call import Call, json_response
from raftmeta.rest.fates import body_of
from raftmeta.rest.shapes import change_shape, whole_number
from raftmeta.results import WatchBatch

__all__ = ["get_changes"]

WAIT_S = 30.0
ALIVE_S = 1.0
FIRST_S = 0.1


def _range(call: Call) -> dict[str, str]:
    """The keys to watch. Raises InvalidArgument."""
    given = [name for name in ("key", "prefix", "group", "election") if name in call.query]
    if len(given) != 1:
        raise InvalidArgument("key, prefix, group, election: one of them says what to watch", field="key")
    (name,) = given
    text = call.query[name]
    if name in ("group", "election"):
        return {"prefix": prefix_of(f"{name}s", text, name)}
    return {name: text}


async def get_changes(call: Call) -> Response:
    """The changes after a revision, as soon as there are some, or a stream of all of them."""
    last = call.request.headers.get("Last-Event-ID") or call.query.get("after")
    after = whole_number(last, "after")
    watch = call.store.watch(**_range(call), start_revision=after + 1, progress=True)
    batches = _Batches(watch, after)
    if "text/event-stream" in call.request.headers.get("Accept", ""):
        first = await batches.next(FIRST_S)  # so that a refusal is an answer of its own
        head = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(call, batches, first), media_type="text/event-stream", headers=head)
    try:
        changes = await _polled(batches, call.seconds("wait_s", WAIT_S))
    finally:
        await batches.close()
    return json_response({"revision": batches.revision, "changes": changes})


class _Batches:
    """The revisions of a watch, whole. revision: up to which all is told."""

    def __init__(self, watch: Any, after: int) -> None:
        self.revision = after
        self._watch = watch
        self._parts: list[dict[str, Any]] = []
        self._news = watch.batches()
        self._taking: asyncio.Task[Any] | None = None

    async def next(self, timeout_s: float) -> list[dict[str, Any]]:
        """The changes of the next revision; none: it was a mark of progress, or timeout_s passed."""
        if self._taking is None:
            self._taking = asyncio.create_task(anext(self._news))
        done, _ = await asyncio.wait([self._taking], timeout=timeout_s)
        if not done:
            return []
        taken, self._taking = self._taking, None
        batch = taken.result()
        if not isinstance(batch, WatchBatch):
            return []
        self._parts += [change_shape(event) for event in batch.events]
        if not batch.is_whole:
            return await self.next(timeout_s)
        self.revision = max(self.revision, batch.revision)
        changes, self._parts = self._parts, []
        return changes

    async def close(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
        await self._watch.close()


async def _polled(batches: _Batches, wait_s: float) -> list[dict[str, Any]]:
    """The changes of the first revision that has some, and of those that are here already."""
    end_s = asyncio.get_running_loop().time() + wait_s
    changes: list[dict[str, Any]] = []
    while not changes:
        left_s = end_s - asyncio.get_running_loop().time()
        changes = await batches.next(max(0.0, left_s))
        if left_s <= 0:
            return changes
    while more := await batches.next(0.0):
        changes += more
    return changes


def _event(kind: str, told: dict[str, Any], *, id: int | None = None) -> bytes:
    mark = "" if id is None else f"id: {id}\n"
    return f"{mark}event: {kind}\ndata: {json.dumps(told, separators=(',', ':'))}\n\n".encode()


async def _events(call: Call, batches: _Batches, first: list[dict[str, Any]]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    try:
        async with call.principal.streaming():
            changes, alive_s = first, 0.0
            while call.principal.is_heard and not call.is_ending:
                if changes:
                    yield _event("changes", {"revision": batches.revision, "changes": changes}, id=batches.revision)
                if loop.time() - alive_s >= ALIVE_S:
                    alive_s = loop.time()
                    yield _event("alive", {"revision": batches.revision}, id=batches.revision)
                changes = await batches.next(ALIVE_S)
    except StopAsyncIteration:
        return  # the node is being closed
    except RaftmetaError as error:
        yield _event("error", body_of(error))
    finally:
        await batches.close()
