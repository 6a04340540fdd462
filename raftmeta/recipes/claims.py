"""The claims of a worker of a queue: one on each item that it works on, all attached to one lease of this worker.

To take an item is to create its claim; to be done with it is to delete claim and item, fenced by the claim, together
with whatever the work has to write. A worker that dies loses its lease, and with it its claims: the items return to
their place. One that was only slow is refused (Fenced) when it says that it is done, and its writes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, cast

from raftmeta.errors import NodeClosed
from raftmeta.operations import CompareOperator, Create, CreateRevision, Delete, Key, KeyRecord, Operation, Version
from raftmeta.recipes.recipe import Face, Hold, give_up_lease, key_of, name_in, pack_holder

__all__ = ["Claims", "Taken"]


class Taken(Hold):
    """An item that this worker has. As a context: done at its end, given back when an exception leaves it."""

    def __init__(self, claims: Claims, claim_key: Key, item_key: Key, id: str, data: bytes) -> None:
        # Bytes only below a foreign item whose key is no text; every use of the key takes both.
        super().__init__(claims.face, cast(str, claim_key), id, data)
        self._claims = claims
        self._item_key = item_key
        self._is_settled = False

    async def done(self, then: Sequence[Operation] = ()) -> None:
        """Remove the item, and do `then` in the same transaction: all of it once, or nothing.

        Raises Fenced: the claim was lost, somebody else has the item or is done with it; nothing was changed.
        OutcomeUnknown: its ticket goes on with the same transaction; a second done() would be Fenced by the first.
        """
        ends = [Delete(self.key), Delete(self._item_key)]
        await self.face.verbs.txn(then=[*ends, *then], fence=self.fence)
        self._is_settled = True
        self._claims.forget(self)

    async def give_back(self, *, timeout_s: float | None = 5.0) -> None:
        """Let somebody else have it, at its old place. Idempotent."""
        if self._is_settled:
            return
        self._is_settled = True
        try:
            await self.face.verbs.txn([CreateRevision(self.key) == self.epoch], [Delete(self.key)])
        finally:
            # Not before: a claim of this worker that it does not know of would be found, and given to its next take.
            self._claims.forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self.give_back()
        elif not self._is_settled:
            await self.done()  # also when it was lost: then it must not end as if it were done


class Claims:
    """The claims of one worker on the items of one queue. ttl_s: how many seconds a silent worker keeps them."""

    def __init__(self, face: Face, prefix: str, ttl_s: float) -> None:
        self.face = face
        self.prefix = prefix
        self.items = prefix + "items/"
        self.claims = prefix + "claims/"
        self.line = prefix + "line/"
        self._ttl_s = ttl_s
        self._lease: Any = None
        self._taken: dict[Key, Taken] = {}  # by the key of the claim
        self._claiming = face.mutex()
        self._is_closed = False

    async def claim(self, compares: list[CompareOperator]) -> Taken | None:
        """Claim the first free item if the compares hold; None: there is none, or they do not."""
        async with self._claiming:
            lease = await self._worker_lease()
            while True:
                claims = (await self.face.verbs.range(prefix=self.claims)).records
                if (found := await self._found_again(claims, lease.id)) is not None:
                    return found
                if (free := await self._first_free(claims)) is None:
                    return None
                taken = self._taken_of(free)
                claim = Create(taken.key, pack_holder(self.face.owner, b""), lease=lease.id)
                is_free = [Version(free.key) != 0, Version(taken.key) == 0]
                reply = await self.face.verbs.txn([*compares, *is_free], [claim])
                if reply.succeeded:
                    return self._begin(taken, reply.revision)
                if compares and (await self.face.verbs.range(prefix=self.line, limit=1, keys_only=True)).records:
                    return None

    async def _first_free(self, claims: list[KeyRecord]) -> KeyRecord | None:
        # Among so many items there is one without a claim, if there is one at all.
        items = (await self.face.verbs.range(prefix=self.items, limit=len(claims) + 1)).records
        numbers = {claim.key[len(self.claims) :] for claim in claims}
        return next((item for item in items if item.key[len(self.items) :] not in numbers), None)

    async def _found_again(self, claims: list[KeyRecord], lease: int) -> Taken | None:
        """The item of a claim that this worker made and does not know of: the outcome of that call was unknown."""
        for claim in claims:
            if claim.lease == lease and key_of(claim.key) not in self._taken:
                item = await self.face.verbs.get(self.items.encode() + claim.key[len(self.claims) :])
                if item is not None:
                    return self._begin(self._taken_of(item), claim.create_revision)
        return None

    def _taken_of(self, item: KeyRecord) -> Taken:
        claim = key_of(self.claims.encode() + item.key[len(self.items) :])
        return Taken(self, claim, key_of(item.key), name_in(item.key, self.items), item.value)

    def _begin(self, taken: Taken, epoch: int) -> Taken:
        if self._is_closed:  # since it was claimed, with a lease that close() gave up
            raise NodeClosed(f"the queue {self.prefix} is closed")
        taken.begin(self._lease, epoch)
        self._taken[taken.key] = taken
        return taken

    async def _worker_lease(self) -> Any:
        """One lease for all claims of this worker; a new one when the last was lost."""
        if not self._is_closed and (self._lease is None or not self._lease.held()):
            self._lose_all()
            self._lease = await self.face.verbs.lease(self._ttl_s, on_lost=lambda _: self._lose_all())
        if self._is_closed:
            await self.close()  # of a lease that came meanwhile
            raise NodeClosed(f"the queue {self.prefix} is closed")
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
        """Give back every item that is not done. Idempotent; waits for no claim: it may be below a signal handler."""
        lease, self._lease, self._is_closed = self._lease, None, True
        if lease is not None:
            await give_up_lease(lease)
            self._lose_all()
