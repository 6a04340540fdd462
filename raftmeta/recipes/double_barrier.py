"""DoubleBarrier: a number of participants begin together and end together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import cast

from raftmeta.errors import Fatal, InvalidArgument, NotExecuted, OutcomeUnknown, Withdrawn
from raftmeta.operations import (
    Create,
    CreateRevision,
    Delete,
    KeyRecord,
    Operation,
    Put,
    Range,
    RangeEmpty,
    RangeResult,
    Txn,
    TxnResult,
    Version,
)
from raftmeta.recipes.recipe import (
    DEFAULT_TTL_S,
    Deadline,
    Face,
    Hold,
    Records,
    face_of,
    give_up_lease,
    pack_holder,
    prefix_of,
    wait_until,
)
from raftmeta.recipes.store import AioLease, AioStore

__all__ = ["DoubleBarrier"]


class DoubleBarrier:
    """`count` participants: enter returns when all have entered, leave when all have left or are gone.

    A participant that dies leaves with its lease, after ttl_s seconds. One that gives up is out before `enter` raises,
    and then does not count. Once all have left it may be used again; one who enters early for the next time waits until
    then.
    """

    def __init__(self, store: AioStore | Face, name: str, count: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        if not isinstance(count, int) or count < 1:
            raise InvalidArgument(f"count: must be an integer from 1 on, not {count!r}", field="count")
        self._face = face_of(store)
        self._count = count
        self._ttl_s = ttl_s
        self._prefix = prefix_of("double-barriers", name)
        self._open = self._prefix + "open"  # there from the moment when all have entered until all have left
        self._inside = self._prefix + "inside/"
        self._hold: Hold | None = None

    async def enter(self, *, timeout_s: float | None = None) -> None:
        """Wait until all have entered. Raises Withdrawn: not within timeout_s seconds, and this one has not entered."""
        if self._hold is not None:
            raise InvalidArgument("enter: this participant is inside already", field="enter")
        deadline = Deadline(timeout_s)
        hold = Hold(self._face, self._inside + os.urandom(8).hex(), self._face.owner.name, b"")
        lease = await self._face.verbs.lease(self._ttl_s, on_lost=lambda _: hold.lose())
        try:
            await self._go_in(hold, lease, deadline)
        except Withdrawn:
            if not await self._has_opened_after_all(hold):
                hold.lose()
                self._face.spawn(give_up_lease(lease), "give-up")
                raise
        except BaseException:
            hold.lose()
            self._face.spawn(give_up_lease(lease), "give-up")
            raise
        self._hold = hold

    async def _go_in(self, hold: Hold, lease: AioLease, deadline: Deadline) -> None:
        create = Create(hold.key, pack_holder(self._face.owner, b""), lease=lease.id)
        go_in: list[Operation] = [create, Range.prefix(self._inside)]
        # Nobody is inside: whoever was there last may have died, and left the barrier open.
        first: list[Operation] = [Delete(self._open), *go_in]
        while True:
            reply = await self._face.verbs.txn(
                [RangeEmpty.prefix(self._inside)], first, [Txn([Version(self._open) == 0], go_in)]
            )
            then = reply if reply.succeeded else cast(TxnResult, reply.results[0])
            if then.succeeded:
                break
            await self._in_time(self._is_over, deadline, None)
        hold.begin(lease, reply.revision)
        await self._open_if_all(cast(RangeResult, then.results[-1]).records)
        await self._in_time(lambda records: self._open.encode() in records, deadline, hold)

    async def _open_if_all(self, inside: Sequence[KeyRecord]) -> None:
        """Open the barrier, unless one of those inside gave up meanwhile and too few are left.

        1. A is inside. B goes in, and sees A and itself: enough.
        2. A gives up.
        3. B opens, and is inside alone.
        So the one transaction that opens says who is inside, and that which takes A out says that nothing is open.
        """
        while len(inside) >= self._count:
            are_there = [CreateRevision(record.key) == record.create_revision for record in inside]
            reply = await self._face.verbs.txn(are_there, [Put(self._open, b"")], [Range.prefix(self._inside)])
            if reply.succeeded:
                return
            inside = cast(RangeResult, reply.results[0]).records

    async def _has_opened_after_all(self, hold: Hold) -> bool:
        """Take this one out, unless all came in the meantime. A store that does not answer leaves that to the lease."""
        if hold.epoch == 0:
            return False  # it was not inside
        try:
            reply = await self._face.verbs.txn([Version(self._open) == 0], [Delete(hold.key)], [Range.prefix(hold.key)])
        except (NotExecuted, OutcomeUnknown, Fatal):
            return False
        return not reply.succeeded and cast(RangeResult, reply.results[0]).count > 0

    def _is_over(self, records: Records) -> bool:
        """Whether the barrier may be used anew: all have left."""
        inside, is_open = self._inside.encode(), self._open.encode() in records
        return not is_open or not any(key.startswith(inside) for key in records)

    async def _in_time(self, is_ready: Callable[[Records], bool], deadline: Deadline, hold: Hold | None) -> None:
        if not await wait_until(self._face, is_ready, prefix=self._prefix, deadline=deadline, hold=hold):
            raise Withdrawn(f"{self._prefix}: not all came in time")

    async def leave(self, *, timeout_s: float | None = None) -> bool:
        """Wait until all have left; False: timeout_s seconds passed, and this one has left."""
        hold, self._hold = self._hold, None
        if hold is None:
            raise InvalidArgument("leave: this participant is not inside", field="leave")
        await hold.give_back()
        if not await wait_until(self._face, self._is_over, prefix=self._prefix, deadline=Deadline(timeout_s)):
            return False
        await self._face.verbs.txn([RangeEmpty.prefix(self._inside)], [Delete(self._open)])
        return True
