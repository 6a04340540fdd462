"""A queue whose items are worked on once each, in order, also when a worker dies in the middle.

    queues/<name>/number            counts the items that were put
    queues/<name>/items/<number>    an item, until it is done
    queues/<name>/claims/<number>   who works on it, attached to the worker's lease
    queues/<name>/line/...          workers that wait, in line (recipes/line)

To take an item is to claim it; to be done with it is to delete claim and item in one transaction (recipes/claims).

A worker that finds nothing stands in line, and only the first in line waits for items: a new item wakes one worker.
A worker that comes later may not take an item while somebody stands in line.
"""

from __future__ import annotations

from typing import cast

from raftmeta.errors import Withdrawn
from raftmeta.interfaces import Data, FenceLike
from raftmeta.operations import Add, Create, KeyRecord, Operation, RangeEmpty
from raftmeta.recipes.claims import Claims, Taken
from raftmeta.recipes.recipe import (
    DEFAULT_TTL_S,
    Deadline,
    Face,
    Hold,
    face_of,
    fence_of,
    give_up_lease,
    prefix_of,
    stand_in_line,
    to_bytes,
    wait_until,
)
from raftmeta.recipes.store import AioStore

__all__ = ["Queue"]


class Queue:
    """One queue, as one worker or producer sees it. ttl_s: how many seconds a silent worker keeps its items."""

    def __init__(self, store: AioStore | Face, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._face = face_of(store)
        self._prefix = prefix_of("queues", name)
        self._number = self._prefix + "number"
        self._worker = Claims(self._face, self._prefix, ttl_s)
        self._items, self._line, self._ttl_s = self._worker.items, self._worker.line, ttl_s

    # --- the producer -------------------------------------------------------------------------------------------------
    async def put(self, data: Data, *, fence: FenceLike | None = None) -> int:
        """Put an item behind all others and return its number; numbers grow."""
        operations: list[Operation] = [Add(self._number), Create(self._items, to_bytes(data), number_from=0)]
        reply = await self._face.verbs.txn(then=operations, fence=fence_of(fence))
        return cast(int, reply.results[0])

    async def count(self) -> int:
        """How many items are not done."""
        return (await self._face.verbs.range(prefix=self._items, count_only=True)).count

    # --- the worker ---------------------------------------------------------------------------------------------------
    async def take(self, *, timeout_s: float | None = None) -> Taken:
        """Wait for the first item that nobody works on: `async with await queue.take() as item: work(item.data)`.

        Raises Withdrawn (also a TimeoutError): none within timeout_s seconds. LeaseExpired: this process was cut off.
        """
        deadline = Deadline(timeout_s)
        taken = await self._worker.claim([RangeEmpty.prefix(self._line)])
        if taken is None:
            place = await stand_in_line(self._face, self._line, ttl_s=self._ttl_s, deadline=deadline)
            try:
                taken = await self._wait_for_item(place, deadline)
            finally:
                self._face.spawn(give_up_lease(place.lease), "line")
        return cast(Taken, taken.shown)

    async def _wait_for_item(self, place: Hold, deadline: Deadline) -> Taken:
        """At the head of the line."""
        while True:
            taken = await self._worker.claim([])
            if taken is not None:
                return taken
            if not await wait_until(
                self._face, self._has_free_item, prefix=self._prefix, deadline=deadline, hold=place
            ):
                raise Withdrawn(f"{self._items}: no item in time")

    def _has_free_item(self, records: dict[bytes, KeyRecord]) -> bool:
        items, claims = self._items.encode(), self._worker.claims.encode()
        return any(key.startswith(items) and claims + key[len(items) :] not in records for key in records)

    async def close(self) -> None:
        """Give back every item that is not done. Idempotent."""
        await self._worker.close()
