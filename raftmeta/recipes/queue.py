"""A queue whose items are worked on once each, in order, also when a worker dies in the middle.

    queues/<name>/number            counts the items that were put
    queues/<name>/items/<number>    an item, until it is done
    queues/<name>/claims/<number>   who works on it, attached to the worker's lease
    queues/<name>/line/...          workers that wait, in line (recipes/line)

To take an item is to create its claim; to be done with it is to delete claim and item, fenced by the claim, together
with whatever the work has to write. A worker that dies loses its lease, and with it its claims: the items return to
their place. One that was only slow is refused (Fenced) when it says that it is done, and its writes with it.

A worker that finds nothing stands in line, and only the first in line waits for items: a new item wakes one worker.
Whoever comes later may not take an item while somebody stands in line.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, cast

from raftmeta.errors import NodeClosed, Withdrawn
from raftmeta.interfaces import Data, FenceLike, HeldBase
from raftmeta.operations import (
    Add,
    CompareOperator,
    Create,
    CreateRevision,
    Delete,
    Key,
    KeyRecord,
    Operation,
    RangeEmpty,
    Version,
)
from raftmeta.recipes.face import Face, run
from raftmeta.recipes.held import BlockingHold, Hold, give_up_lease
from raftmeta.recipes.keys import key_of, name_in, pack_holder, prefix_of, to_bytes
from raftmeta.recipes.line import DEFAULT_TTL_S, face_of, stand_in_line
from raftmeta.recipes.storage import fence_of
from raftmeta.recipes.store import AioStore
from raftmeta.recipes.waiting import Deadline, wait_until

__all__ = ["BlockingTaken", "Queue", "Taken"]


class Taken(Hold):
    """An item that this worker has. As a context: done at its end, given back when an exception leaves it."""

    def __init__(self, queue: Queue, claim_key: Key, item_key: Key, id: str, data: bytes) -> None:
        # Bytes only below a foreign item whose key is no text; every use of the key takes both.
        super().__init__(queue.face, cast(str, claim_key), id, data)
        self._queue = queue
        self._item_key = item_key
        self._is_settled = False

    def _blocking(self) -> HeldBase:
        return BlockingTaken(self)

    async def done(self, then: Sequence[Operation] = ()) -> None:
        """Remove the item, and do `then` in the same transaction: all of it once, or nothing.

        Raises Fenced: the claim was lost, somebody else has the item or is done with it; nothing was changed.
        OutcomeUnknown: its ticket goes on with the same transaction; a second done() would be Fenced by the first.
        """
        ends = [Delete(self.key), Delete(self._item_key)]
        await self._queue.face.verbs.txn(then=[*ends, *then], fence=self.fence)
        self._is_settled = True
        self._queue.forget(self)

    async def give_back(self, *, timeout_s: float | None = 5.0) -> None:
        """Let somebody else have it, at its old place. Idempotent."""
        if self._is_settled:
            return
        self._is_settled = True
        try:
            await self._queue.face.verbs.txn([CreateRevision(self.key) == self.epoch], [Delete(self.key)])
        finally:
            # Not before: a claim of this worker that it does not know of would be found, and given to its next take.
            self._queue.forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self.give_back()
        elif not self._is_settled:
            await self.done()  # also when it was lost: then it must not end as if it were done


class BlockingTaken(BlockingHold):
    """As Taken."""

    def done(self, then: Sequence[Operation] = ()) -> None:
        """Remove the item, and do `then` in the same transaction. Raises Fenced, as Taken.done."""
        run(cast(Taken, self._hold).done(then))

    def give_back(self) -> None:
        """Let somebody else have it, at its old place. Idempotent."""
        run(self._hold.give_back())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(cast(Taken, self._hold).__aexit__(kind, error, trace))


class Queue:
    """One queue, as one worker or producer sees it. ttl_s: how many seconds a silent worker keeps its items."""

    def __init__(self, store: AioStore | Face, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self.face = face_of(store)
        prefix = prefix_of("queues", name)
        self._number = prefix + "number"
        self._items = prefix + "items/"
        self._claims = prefix + "claims/"
        self._line = prefix + "line/"
        self._prefix = prefix
        self._ttl_s = ttl_s
        self._lease: Any = None
        self._taken: dict[Key, Taken] = {}  # by the key of the claim
        self._claiming = self.face.mutex()
        self._is_closed = False

    # --- the producer -------------------------------------------------------------------------------------------------
    async def put(self, data: Data, *, fence: FenceLike | None = None) -> int:
        """Put an item behind all others and return its number; numbers grow."""
        operations: list[Operation] = [Add(self._number), Create(self._items, to_bytes(data), number_from=0)]
        reply = await self.face.verbs.txn(then=operations, fence=fence_of(fence))
        return cast(int, reply.results[0])

    async def count(self) -> int:
        """How many items are not done."""
        return (await self.face.verbs.range(prefix=self._items, count_only=True)).count

    # --- the worker ---------------------------------------------------------------------------------------------------
    async def take(self, *, timeout_s: float | None = None) -> Taken:
        """Wait for the first item that nobody works on.

        Raises Withdrawn (also a TimeoutError): none within timeout_s seconds. LeaseExpired: this process was cut off.
        """
        deadline = Deadline(timeout_s)
        taken = await self._claim([RangeEmpty.prefix(self._line)])
        if taken is None:
            place = await stand_in_line(self.face, self._line, ttl_s=self._ttl_s, deadline=deadline)
            try:
                taken = await self._wait_for_item(place, deadline)
            finally:
                self.face.spawn(give_up_lease(place.lease), "line")
        return cast(Taken, taken.shown)

    async def _wait_for_item(self, place: Hold, deadline: Deadline) -> Taken:
        """At the head of the line."""
        while True:
            taken = await self._claim([])
            if taken is not None:
                return taken
            if not await wait_until(self.face, self._has_free_item, prefix=self._prefix, deadline=deadline, hold=place):
                raise Withdrawn(f"{self._items}: no item in time")

    def _has_free_item(self, records: dict[bytes, KeyRecord]) -> bool:
        items, claims = self._items.encode(), self._claims.encode()
        return any(key.startswith(items) and claims + key[len(items) :] not in records for key in records)

    # --- claims -------------------------------------------------------------------------------------------------------
    async def _claim(self, compares: list[CompareOperator]) -> Taken | None:
        """Claim the first free item if the compares hold; None: there is none, or they do not."""
        async with self._claiming:
            lease = await self._worker_lease()
            while True:
                claims = (await self.face.verbs.range(prefix=self._claims)).records
                found = await self._found_again(claims, lease.id)
                if found is not None:
                    return found
                free = await self._first_free(claims)
                if free is None:
                    return None
                taken = self._taken_of(free)
                claim = Create(taken.key, pack_holder(self.face.owner, b""), lease=lease.id)
                is_free = [Version(free.key) != 0, Version(taken.key) == 0]
                reply = await self.face.verbs.txn([*compares, *is_free], [claim])
                if reply.succeeded:
                    return self._begin(taken, reply.revision)
                if compares and (await self.face.verbs.range(prefix=self._line, limit=1, keys_only=True)).records:
                    return None

    async def _first_free(self, claims: list[KeyRecord]) -> KeyRecord | None:
        # Among so many items there is one without a claim, if there is one at all.
        items = (await self.face.verbs.range(prefix=self._items, limit=len(claims) + 1)).records
        numbers = {claim.key[len(self._claims) :] for claim in claims}
        return next((item for item in items if item.key[len(self._items) :] not in numbers), None)

    async def _found_again(self, claims: list[KeyRecord], lease: int) -> Taken | None:
        """The item of a claim that this worker made and does not know of: the outcome of that call was unknown."""
        for claim in claims:
            if claim.lease == lease and key_of(claim.key) not in self._taken:
                item = await self.face.verbs.get(self._items.encode() + claim.key[len(self._claims) :])
                if item is not None:
                    return self._begin(self._taken_of(item), claim.create_revision)
        return None

    def _taken_of(self, item: KeyRecord) -> Taken:
        claim = key_of(self._claims.encode() + item.key[len(self._items) :])
        return Taken(self, claim, key_of(item.key), name_in(item.key, self._items), item.value)

    def _begin(self, taken: Taken, epoch: int) -> Taken:
        taken.begin(self._lease, epoch)
        self._taken[taken.key] = taken
        return taken

    async def _worker_lease(self) -> Any:
        """One lease for all claims of this worker; a new one when the last was lost."""
        if self._is_closed:
            raise NodeClosed(f"the queue {self._prefix} is closed")
        if self._lease is None or not self._lease.held():
            self._lose_all()
            self._lease = await self.face.verbs.lease(self._ttl_s, on_lost=lambda _: self._lose_all())
        return self._lease

    def _lose_all(self) -> None:
        for taken in list(self._taken.values()):
            taken.lose()
        self._taken.clear()

    def forget(self, taken: Taken) -> None:
        """It is done, or given back."""
        self._taken.pop(taken.key, None)
        taken.settle()

    async def close(self) -> None:
        """Give back every item that is not done. Idempotent."""
        async with self._claiming:
            was_closed, self._is_closed = self._is_closed, True
            if not was_closed and self._lease is not None:
                await give_up_lease(self._lease)
                self._lose_all()
