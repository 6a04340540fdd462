"""KIP-30 Group Membership on a store: one leased key for each member.

Who is a member is decided by the store alone: whoever has the key. Reads are linearizable; listeners follow a mirror of
the group's keys. A place is lost to its holder when its lease lapses on its own clock, or when the mirror shows that
somebody else has the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from raftmeta.errors import IdConflict
from raftmeta.interfaces import (
    AioGroupMembership,
    AioHeld,
    Data,
    GroupChange,
    GroupListener,
    GroupMember,
    Members,
    checked_callback,
    listener_call,
)
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.held import TUNE_GIVE_BACK_S, Hold, give_back_quietly, take_place
from raftmeta.recipes.keys import name_in, part_of, prefix_of, tells_name, to_bytes, unpack_holder
from raftmeta.recipes.listeners import Listeners, Strand
from raftmeta.recipes.mirror import Mirror
from raftmeta.recipes.part import Followed
from raftmeta.recipes.versions import Versions

__all__ = ["Group"]


class Group(Followed, AioGroupMembership):
    """One group, as coroutines. ttl_s: how many seconds a silent member stays."""

    def __init__(self, group: str, *, ttl_s: float) -> None:
        super().__init__(f"group {group!r}", prefix_of("groups", group, "group"))
        self._group = group
        self._ttl_s = ttl_s
        self._members: Versions[str, GroupMember] = Versions({})  # as of the mirror
        self._ids: dict[bytes, str] = {}  # of these members, by key: a key that is deleted has no value to tell it
        self._holds: dict[str, Hold] = {}  # by id, of this instance; a lost one stays until it joins anew or leaves

    @property
    def group(self) -> str:
        return self._group

    def _set_up(self, face: Face) -> None:
        super()._set_up(face)
        self._listeners: Listeners[GroupChange] = Listeners(face, self.failures, GroupChange)

    # --- being a member -----------------------------------------------------------------------------------------------
    async def join(
        self,
        id: str,
        data: Data = b"",
        *,
        on_lost: Callable[[Any], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> AioHeld:
        deadline = Deadline(timeout_s)
        if on_lost is not None:
            checked_callback(on_lost, "on_lost")
        hold = Hold(self.face, self._prefix + part_of(id, "id"), id, to_bytes(data))
        former = self._reserve(id, hold)
        try:
            mirror = await self._follow(timeout_s=timeout_s)
            replaces = 0 if former is None else former.epoch
            await take_place(self.face, hold, ttl_s=self._ttl_s, replaces=replaces, deadline=deadline)
        except BaseException:
            self._forget(id, hold, former)
            raise
        if self._is_closed:  # meanwhile; close() has seen this hold, or we see that it was called
            await give_back_quietly(hold)
            self.face  # noqa: B018  # raises NodeClosed
        if on_lost is not None:
            strand: Strand[Any] = Strand(self.face, on_lost, self.failures)
            hold.on_lost(lambda lost: strand.tell(lost.shown))
        hold.check_record(mirror.revision, mirror.records.get(hold.key.encode()))
        return cast(AioHeld, hold.shown)

    def _reserve(self, id: str, hold: Hold) -> Hold | None:
        """Make sure that an id joins once at a time; returns the hold that was lost under this id."""
        with self._lock:
            former = self._holds.get(id)
            if former is not None and not former.is_over:
                raise IdConflict(f"{id!r} is a member of {self._title} in this process already")
            self._holds[id] = hold
        return former

    def _forget(self, id: str, hold: Hold, former: Hold | None) -> None:
        with self._lock:
            if self._holds.get(id) is hold:
                del self._holds[id]
                if former is not None:
                    self._holds[id] = former

    async def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        self.face  # noqa: B018  # raises where it is closed
        with self._lock:
            hold = self._holds.get(id)
            if hold is None or not hold.epoch:  # nobody, or one that is still joining
                return
            del self._holds[id]
        await hold.give_back(timeout_s=timeout_s)

    async def release(self, holds: Iterable[Hold], *, timeout_s: float) -> None:
        """Leave with these, as far as they are members still; what is not given back in time goes with its lease."""
        with self._lock:
            mine = [hold for hold in holds if self._holds.get(hold.id) is hold]
            for hold in mine:
                del self._holds[hold.id]
        await give_back_quietly(*[hold for hold in mine if hold.epoch], timeout_s=timeout_s)

    # --- observing ----------------------------------------------------------------------------------------------------
    async def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        found = await self._known(keys_only=True, local=local, timeout_s=timeout_s)
        if not all(tells_name(record.key, self._prefix) for record in found.records):
            return frozenset(await self.members(local=local, timeout_s=timeout_s))  # some names are only in the values
        return frozenset(name_in(record.key, self._prefix) for record in found.records)

    async def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        return {id: member.data for id, member in (await self.members(local=local, timeout_s=timeout_s)).items()}

    async def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        found = await self._known(keys_only=False, local=local, timeout_s=timeout_s)
        return Members(self._members_of(found.records), found.revision)

    def _members_of(self, records: Iterable[KeyRecord]) -> dict[str, GroupMember]:
        return {member.id: member for member in map(self._member_of, records)}

    def _member_of(self, record: KeyRecord) -> GroupMember:
        holder = unpack_holder(record.value)
        return GroupMember(holder.id or name_in(record.key, self._prefix), holder.data, record.create_revision)

    async def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None:
        listener_call(GroupChange, listener)  # refuse it before anything is read
        await self._follow(timeout_s=timeout_s)
        self._listeners.add(listener)

    async def remove_listener(self, listener: GroupListener) -> None:
        self._listeners.remove(listener)

    def _on_open(self, mirror: Mirror) -> None:
        self._members = Versions(self._members_of(mirror.records.values()))
        self._ids = {record.key: self._member_of(record).id for record in mirror.records.values()}

    def _on_change(self, mirror: Mirror) -> None:
        """Costs what changed, not how many members there are."""
        changed: dict[str, GroupMember | None] = {}
        for key, record in mirror.changes.items():
            member = None if record is None else self._member_of(record)
            if member is not None:
                self._ids[key] = member.id
            id = self._ids[key] if member is not None else self._ids.pop(key, name_in(key, self._prefix))
            changed[id] = member
            with self._lock:
                hold = self._holds.get(id)
            if hold is not None:
                hold.check_record(mirror.revision, record)
        if mirror.coalesced:  # a hold may have come and gone in the gap
            with self._lock:
                holds = list(self._holds.values())
            for hold in holds:
                hold.check_record(mirror.revision, mirror.records.get(hold.key.encode()))
        self._members = self._members.changed(changed)
        if len(self._listeners):
            self._listeners.tell(GroupChange(self._group, self._members, mirror.revision, mirror.coalesced))

    # --- the end ------------------------------------------------------------------------------------------------------
    async def close(self, *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """timeout_s: seconds for giving back; what is not given back by then goes with its lease."""
        if not self._end():
            return
        self._listeners.close()
        with self._lock:
            holds, self._holds = list(self._holds.values()), {}
        await give_back_quietly(*[hold for hold in holds if hold.epoch], timeout_s=timeout_s)
        await self._unfollow()
