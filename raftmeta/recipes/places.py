"""Taking a place, giving it back, and telling its user what became of it.

take_place decides who gets a key:
  1. nobody has it: the caller;
  2. an earlier life of the same owner has it: the caller, at once. The key is deleted and created in one transaction,
     so that the earlier life, should it still run, is fenced by the very act that replaces it;
  3. anybody else has it, this life of the owner included: IdConflict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

from raftmeta.errors import Fatal, IdConflict, NotExecuted, OutcomeUnknown
from raftmeta.interfaces import checked_callback
from raftmeta.operations import Create, Delete, Get, KeyRecord, ModRevision, Operation, Version
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.held import Hold, give_up_lease
from raftmeta.recipes.keys import pack_holder, unpack_holder
from raftmeta.recipes.listeners import Failures, Strand

__all__ = ["TUNE_GIVE_BACK_S", "give_back_quietly", "take_place", "telling"]

TUNE_GIVE_BACK_S = 1.0  # of close(): well below Config.close_timeout_s

_LOG = logging.getLogger(__name__)


async def take_place(
    face: Face, hold: Hold, *, ttl_s: float, replaces: int = 0, deadline: Deadline | None = None
) -> None:
    """Create the key of `hold` under a new lease, by the rules above; on any error nothing is left behind.

    deadline: when to give up, None: in 5 seconds. replaces: the epoch of a hold of this life that is known to be lost
    and may still stand in the store.
    Raises IdConflict.
    """
    deadline = Deadline(DEFAULT_TIMEOUT_S) if deadline is None else deadline
    lease = await face.verbs.lease(ttl_s, on_lost=lambda _: hold.lose(), timeout_s=deadline.left_s())
    value = pack_holder(face.owner, hold.data, key=hold.key, id=hold.id)
    create = Create(hold.key, value, lease=lease.id)
    try:
        epoch = await _take_key(face, hold, create, replaces, deadline)
    except BaseException:
        # Not awaited: the caller may have been cancelled. Should it fail, nobody keeps the lease alive any more.
        face.spawn(give_up_lease(lease), "give-up")
        raise
    hold.begin(lease, epoch)


async def _take_key(face: Face, hold: Hold, create: Create, replaces: int, deadline: Deadline) -> int:
    compare: Any = Version(hold.key) == 0
    then: list[Operation] = [create]
    while True:
        reply = await face.verbs.txn([compare], then, [Get(hold.key)], timeout_s=deadline.left_s())
        if reply.succeeded:
            return reply.revision
        record = cast("KeyRecord | None", reply.results[0])
        if record is None:
            compare, then = Version(hold.key) == 0, [create]
            continue
        owner = unpack_holder(record.value).owner
        # A life that had the place and lost it to another life of its owner was succeeded. It takes nothing back, or
        # the two would take it from each other for as long as both live.
        is_ours = record.create_revision == replaces if replaces else face.owner.succeeds(owner)
        if not is_ours:
            raise IdConflict(
                f"{hold.id!r} is held by {owner.name!r} until that one leaves or its lease ends ({hold.key})",
                revision=reply.revision,
            )
        compare, then = ModRevision(hold.key) == record.mod_revision, [Delete(hold.key), create]


async def give_back_quietly(*holds: Hold, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
    """For close(), which must end soon: what is not given back in time goes with its lease, no longer kept alive."""
    deadline = Deadline(timeout_s)
    for hold in holds:
        try:
            await hold.give_back(timeout_s=deadline.left_s())
        except (NotExecuted, OutcomeUnknown, Fatal) as error:
            _LOG.info("left to expire key=%s reason=%s", hold.key, error)


def telling(face: Face, failures: Failures, callback: Any, field: str) -> Callable[[Hold], None]:
    """A function that lets the user's callback be called with a hold; None: one that does nothing."""
    if callback is None:
        return lambda _: None
    strand: Strand[Any] = Strand(face, checked_callback(callback, field), failures)
    return lambda hold: strand.tell(hold.shown)
