"""Watches: every change once, in order, none left out, over every break of a connection and change of the leader."""

from __future__ import annotations

import asyncio
import json

import raftmeta
from jepsen.client import TIMEOUT_S, UNSURE, Answer, Client
from jepsen.workloads.base import Grant, Workload, encoded

KEYS = 4
RETRY_S = 0.1
BACK_MAX = 100  # revisions in the past at which a new watch may begin


class Watch(Workload):
    """Puts and deletes on keys that all clients of the group watch, from now or from a revision in the past.

    A stream is one process number. It says watch_open with the last revision before it, watch_event for each change
    with the kind, key and value, and watch_progress for a revision up to which everything was delivered.
    """

    name = "watch"
    model = "kv"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._prefix = f"watch/{client.group}/"
        self._streams = 0

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        return ((("read", "write", "watch"), "watch/"),)

    async def step(self) -> None:
        key = f"{self.client.prefix()}{self.client.random.randrange(KEYS)}"
        await self.one_of(key, (0.65, self._put), (0.8, self._delete), (1.0, self._get))

    async def _put(self, key: str) -> None:
        value = self.client.new_value()

        async def act() -> Answer:
            return Answer(None, int(await self.client.store.put(key, encoded(value), timeout_s=TIMEOUT_S)))

        await self.client.ask("write", key, value, act)

    async def _delete(self, key: str) -> None:
        async def act() -> Answer:
            return Answer(None, int(await self.client.store.delete(key, timeout_s=TIMEOUT_S)))

        await self.client.ask("delete", key, None, act)

    async def _get(self, key: str) -> None:
        async def act() -> Answer:
            record = await self.client.store.get(key, timeout_s=TIMEOUT_S)
            return Answer(None if record is None else int(record.value))

        await self.client.ask("read", key, None, act)

    # --- the watch ----------------------------------------------------------------------------------------------------
    async def follow(self) -> None:
        """One stream after the other; a new one begins where the store says, when it cannot go on with the old one."""
        while True:
            try:
                await self._stream()
            except UNSURE:
                await asyncio.sleep(RETRY_S)  # not ready, removed from the cluster, or nobody answers in time

    async def _stream(self) -> None:
        begin = await self._first_revision()
        self._streams += 1
        process = self.client.new_value()
        self._say("watch_open", process, begin - 1)
        async with self.client.store.watch(
            prefix=self._prefix, start_revision=begin, progress=True, reset=True
        ) as watch:
            async for batch in watch.batches():
                if isinstance(batch, raftmeta.WatchReset):  # the history does not reach back so far
                    process = self.client.new_value()
                    self._say("watch_open", process, batch.revision)
                    continue
                for event in batch.events:
                    value = json.loads(event.value) if event.type == "put" else None
                    self._say("watch_event", process, event.revision, [event.type, event.key.decode(), value])
                if batch.is_whole:
                    self._say("watch_progress", process, batch.revision)

    async def _first_revision(self) -> int:
        """Somewhere in the last hundred revisions. Raises what UNSURE names."""
        reply = await self.client.store.txn((), [], timeout_s=TIMEOUT_S)
        return max(reply.revision - self.client.random.randrange(BACK_MAX), 0) + 1

    def _say(self, kind: str, process: int, revision: int, value: object = None) -> None:
        text = "" if value is None else json.dumps(value, separators=(",", ":"))
        self.client.spool.observe(kind, self._prefix, process=process, revision=revision, value=text)
