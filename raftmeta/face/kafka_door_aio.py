"""The coroutines of a KafkaDoor, on the event loop of its node.

Each request is a task. Appends of one partition wait for each other, in the order in which clients sent them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from raftmeta.face.kafka_answers import Hooks, code_of, place_of
from raftmeta.face.own_logs import FETCH, PRODUCE, OwnLogsHandle, OwnRequest

__all__ = ["Host"]


class Host:
    """It carries the requests of one run of a node to the door's coroutines."""

    def __init__(self, hooks: Hooks, handle: OwnLogsHandle, event_loop: asyncio.AbstractEventLoop) -> None:
        self._hooks, self._handle, self._event_loop = hooks, handle, event_loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: dict[tuple[str, int], asyncio.Task[None]] = {}  # append of each partition

    def begin(self) -> None:
        """Listen to the door, on the thread of the event loop."""
        self._event_loop.add_reader(self._handle.fileno(), self._take)
        self._take()

    def _take(self) -> None:
        if self._handle.is_closing:
            self._event_loop.remove_reader(self._handle.fileno())
            return
        for request in self._handle.take():
            self._begin(request)

    def _begin(self, request: OwnRequest) -> None:
        place = request.topic, request.partition
        before = self._newest.get(place) if request.kind == PRODUCE else None
        task = self._event_loop.create_task(self._carry_out(request, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if request.kind == PRODUCE:
            self._newest[place] = task
            task.add_done_callback(lambda done: self._forget(place, done))

    def _forget(self, place: tuple[str, int], task: asyncio.Task[None]) -> None:
        if self._newest.get(place) is task:
            del self._newest[place]

    async def _carry_out(self, request: OwnRequest, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            await self._answer(request)
        except asyncio.CancelledError:
            request.refused(code_of(TimeoutError()))
            raise
        except Exception as error:
            request.refused(code_of(error))

    async def _answer(self, request: OwnRequest) -> None:
        hooks, topic, partition, number = self._hooks, request.topic, request.partition, request.number
        found: Any
        if request.kind == PRODUCE:
            request.appended(await hooks.on_produce(topic, partition, request.records, request.epoch))
        elif request.kind == FETCH:
            request.fetched(*await hooks.on_fetch(topic, partition, number, request.bytes_max))
        elif hooks.on_list_offsets is not None:
            found = await hooks.on_list_offsets(topic, partition, number)
            request.found(*(found or (-1, -1)))
        else:
            request.found(*place_of(number, *await hooks.on_fetch(topic, partition, 0, 0)))
