"""Standing in line: whoever comes first has its turn first, and a crashed one leaves the line with its lease.

One that wants a turn creates a leased key of its own below the prefix of the line; create revisions order the line, so
that nobody who came later can get in before. One has its turn when fewer than `limit` of those ahead block it. With
limit 1 a waiter watches only the one ahead of it: a release wakes one waiter, not all (etcd's recipes do the same).
Other waiters watch who leaves, and ask nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from raftmeta.errors import LeaseExpired, NodeClosed, NotExecuted, RaftmetaError, Withdrawn
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.held import Permit, give_up_lease
from raftmeta.recipes.keys import key_of, unpack_holder
from raftmeta.recipes.places import take_place
from raftmeta.recipes.waiting import wait_until

__all__ = ["stand_in_line"]

_LOOK_S = 1.0  # for a read that only tells whether the store is closed


async def stand_in_line(
    face: Face,
    prefix: str,
    *,
    data: bytes = b"",
    blocks: Callable[[bytes], bool] = lambda _: True,
    limit: int = 1,
    ttl_s: float,
    deadline: Deadline,
) -> Permit:
    """Wait for one's turn. blocks: whether one ahead with this data blocks; limit: how many must not.

    Raises Withdrawn: the deadline passed, nothing is held. LeaseExpired: the place in the line was lost.
    """
    permit = Permit(face, prefix + os.urandom(8).hex(), face.owner.name, data)
    await take_place(face, permit, ttl_s=ttl_s)
    try:
        await _wait_for_turn(face, permit, prefix, blocks, limit, deadline)
    except BaseException as error:
        was_lost = not permit.held()
        permit.lose()
        face.spawn(give_up_lease(permit.lease), "give-up")
        if was_lost and isinstance(error, NotExecuted) and not isinstance(error, NodeClosed):
            raise LeaseExpired(f"{permit.key} was lost while waiting") from error  # whatever the store said then
        if was_lost and isinstance(error, LeaseExpired):
            await _raise_if_closed(face, prefix)
        raise
    return permit


async def _raise_if_closed(face: Face, prefix: str) -> None:
    """A node that closes first tells that its leases are lost. Its waiters are to hear why."""
    try:
        await face.verbs.range(prefix=prefix, limit=1, timeout_s=_LOOK_S)
    except NodeClosed:
        raise
    except RaftmetaError:
        pass


async def _wait_for_turn(
    face: Face, permit: Permit, prefix: str, blocks: Callable[[bytes], bool], limit: int, deadline: Deadline
) -> None:
    while True:
        line = (await face.verbs.range(prefix=prefix)).records
        if all(record.create_revision != permit.epoch for record in line):
            raise LeaseExpired(f"{permit.key} was lost while waiting")
        ahead = [one for one in line if one.create_revision < permit.epoch and blocks(unpack_holder(one.value).data)]
        if len(ahead) < limit:
            return
        if not await _until_fewer(face, permit, prefix, ahead, limit, deadline):
            raise Withdrawn(f"{prefix} was not had in time; not waiting any more")


async def _until_fewer(
    face: Face, permit: Permit, prefix: str, ahead: list[KeyRecord], limit: int, deadline: Deadline
) -> bool:
    """Until it is worth looking at the line again."""
    if limit == 1:
        last = max(ahead, key=lambda record: record.create_revision)
        return await wait_until(face, lambda records: not records, key=key_of(last.key), deadline=deadline, hold=permit)
    keys = {record.key for record in ahead}
    return await wait_until(
        face, lambda records: len(keys & records.keys()) < limit, prefix=prefix, deadline=deadline, hold=permit
    )
