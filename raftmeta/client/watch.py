"""A watch of a client: every change once, in order of revision, over however many connections.

It decides where to go on. After a lost connection, a full queue, or a consumer that fell behind, it opens
a native watch from the revision after the last one that it has whole; of a revision of which it has some fragments it
passes over so many, since every node cuts a revision alike (docs/formats.md "Items of a watch"). It must never
skip a revision silently, or keep more than TUNE_READY_BYTES for a consumer that does not take them.

"From now on" is made exact before the first native watch: the revision is asked for, linearizable, and named.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator
from typing import Self

from raftmeta.bindings.requests import RANGE, VALUES, answer_value
from raftmeta.client.channel import NEVER, Channel, Events
from raftmeta.common import numbers
from raftmeta.errors import (
    Compacted,
    Lagged,
    NodeRemoved,
    Overloaded,
    QuotaExceeded,
    RaftmetaError,
    ReadyTimeout,
    Withdrawn,
)
from raftmeta.operations import KeyRecord
from raftmeta.results import WatchBatch, WatchEvent, WatchReset
from raftmeta.verbs.asked import WatchAsked
from raftmeta.verbs.watch import AioWatch

TUNE_READY_BYTES = 16 << 20
RETRY_S = 0.05
OPEN_TIMEOUT_S = 5.0


class AioClientWatch(Events, AioWatch):
    """A watch of the asyncio client."""

    def __init__(self, channel: Channel, asked: WatchAsked) -> None:
        self.timeout_s = asked.timeout_s
        self.ready: collections.deque[WatchBatch | WatchReset | RaftmetaError] = collections.deque()
        self._channel = channel
        self._start, self._end = asked.start, asked.end
        self._filter = asked.filter
        self._resume = asked.revision  # 0: from now on
        self._raises_lagged = asked.raises_lagged
        self._resets = asked.resets
        self._fragments = 0  # of revision _resume that were delivered
        self._passed = 0  # of those, passed over since the native watch was opened
        self._ready_bytes = 0
        self._watch = 0  # id of the native watch, 0: none is open
        self._must_reset = False
        self._was_open = False
        self._pause_s = 0.0
        self._news = asyncio.Event()
        self.is_closed = False

    # --- opening ----------------------------------------------------------------------------------------------------

    async def open(self, deadline_s: float) -> None:
        """Open the native watch unless it is. Raises ReadyTimeout, or what the node refuses."""
        if self._watch or self.is_closed:
            return
        channel = self._channel
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
            self._pause_s = 0.0
        if self._resume == 0:
            self._resume = await self._newest(deadline_s) + 1
        if self._must_reset:
            await self._reset(deadline_s)
        await channel.connected(deadline_s)
        if not self._watch and not self.is_closed and channel.is_connected:
            self._passed = 0
            self._watch = channel.open_watch(self._start, self._end, self._resume, self._filter, self)

    async def _newest(self, deadline_s: float) -> int:
        # Of the keys that it watches, which it may read if it may watch them.
        frame = self._channel.encoder.range(self._start, self._end, 0, 1, False, True, False)
        revision: int = (await self._channel.submit(frame, RANGE, deadline_s))[3]
        return revision

    async def _reset(self, deadline_s: float) -> None:
        """History does not reach back to _resume: give everything that matches, as of one revision."""
        records: list[KeyRecord] = []
        start, revision, more = self._start, 0, True
        while more:
            frame = self._channel.encoder.range(start, self._end, revision, 0, False, False, False)
            _, more, part, newest = await self._channel.submit(frame, RANGE, deadline_s)
            revision = revision or newest  # the rest is read as of the same revision
            records += part
            start = part[-1].key + b"\0" if part else start
        self._must_reset = False
        self._resume, self._fragments = revision + 1, 0
        self._give(WatchReset(revision, records))

    # --- what the channel tells ---------------------------------------------------------------------------------------

    def on_items(self, body: bytes) -> None:
        for kind, revision, wall_ms, events, more in answer_value(VALUES, 0, 0, body):
            if self._watch:
                self._take_item(kind, revision, wall_ms, events, more)
        self._was_open = True
        self._ready_bytes += len(body)
        if self._ready_bytes > TUNE_READY_BYTES and self._watch:
            self._let_go()  # opened again from _resume when the consumer has taken what is there

    def on_refused(self, error: RaftmetaError) -> None:
        self._watch = 0
        if isinstance(error, Overloaded) and (self._was_open or not isinstance(error, QuotaExceeded)):
            # A node may still count the watch of a connection that broke.
            self._pause_s = max(RETRY_S, getattr(error, "retry_after_s", None) or 0.0)
            self._news.set()
        else:
            self._give(error)

    def on_lost(self) -> None:
        self._watch = 0
        self._news.set()

    def _let_go(self) -> None:
        if self._watch:
            self._channel.close_watch(self._watch)
        self._watch = 0
        self._news.set()

    def _give(self, found: WatchBatch | WatchReset | RaftmetaError) -> None:
        self.ready.append(found)
        self._news.set()

    def _take_item(self, kind: int, revision: int, wall_ms: int, events: list[list[object]], more: bool) -> None:
        if kind in (numbers.WATCH_EVENTS, numbers.WATCH_PROGRESS_MARK):
            if revision == self._resume and self._passed < self._fragments:
                self._passed += 1
                return
            batch = [
                WatchEvent("delete" if type == numbers.WATCH_DELETE else "put", record, before, revision)  # type: ignore[arg-type]
                for type, record, before in events or ()
            ]
            if more:
                self._fragments = self._fragments + 1 if revision == self._resume else 1
                self._passed = self._fragments
                self._resume = revision
            else:
                self._fragments = self._passed = 0
                self._resume = revision + 1
            self._give(WatchBatch(revision, wall_ms / 1000, batch, not more))
            return
        if kind == numbers.WATCH_REMOVED:
            return  # the node ends the connection, and the watch goes on elsewhere
        self._let_go()
        if kind == numbers.WATCH_LAGGED and self._raises_lagged:
            self._give(Lagged(f"the watcher was too slow; go on from revision {revision}", revision=revision))
        elif kind == numbers.WATCH_COMPACTED and not self._resets:
            self._give(Compacted(f"history begins after revision {revision}", revision=revision))
        elif kind == numbers.WATCH_COMPACTED:
            self._must_reset = True

    # --- the consumer -------------------------------------------------------------------------------------------------

    def take_ready(self) -> WatchBatch | WatchReset | None:
        """The next item that is here already; None: nothing. Raises the error that ended the watch."""
        if not self.ready:
            self._ready_bytes = 0
            return None
        found = self.ready.popleft()
        if isinstance(found, RaftmetaError):
            self.is_closed = True
            raise found
        return found

    async def next(self, timeout_s: float | None) -> WatchBatch | WatchReset | None:
        """The next batch or reset; None: closed, or timeout_s passed."""
        deadline_s = self._channel.deadline(timeout_s)
        while True:
            found = self.take_ready()
            if found is not None:
                return found
            if self.is_closed:
                return None
            self._channel.check_open()
            self._news.clear()
            if not self._watch:
                try:
                    await self.open(deadline_s)
                except (ReadyTimeout, Withdrawn):
                    return None  # no node answered for timeout_s
                except NodeRemoved as error:
                    self.is_closed = True
                    raise NodeRemoved(str(error), revision=self._resume) from None
                continue
            left_s = None if deadline_s == NEVER else deadline_s - self._channel.loop.time()
            if left_s is not None and left_s <= 0:
                return None
            try:
                async with asyncio.timeout(left_s):
                    await self._news.wait()
            except TimeoutError:
                return None

    async def batches(self) -> AsyncIterator[WatchBatch | WatchReset]:
        while (found := await self.next(self.timeout_s)) is not None:
            yield found

    def close_now(self) -> None:
        """As close, without waiting for anything."""
        self.is_closed = True
        self._let_go()

    async def close(self) -> None:
        self.ready.clear()
        self.close_now()

    async def __aenter__(self) -> Self:
        await self.open(self._channel.deadline(OPEN_TIMEOUT_S))
        return self
