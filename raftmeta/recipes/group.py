"""KIP-30 Group Membership on a store: one leased key for each member.

The store alone decides who is a member: the one that has the key. Reads are linearizable; listeners follow a mirror of
the group's keys. A place is lost to its holder when its lease lapses on its own clock, or when the mirror shows that
somebody else has the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from raftmeta.errors import IdConflict
from raftmeta.interfaces import AioGroupMembership, AioHeld, Data, GroupChange, GroupListener, GroupMember, Members
from raftmeta.operations import KeyRecord
from raftmeta.recipes.recipe import (
    Deadline,
    Followed,
    Hold,
    Mirror,
    Versions,
    name_in,
    prefix_of,
    tells_name,
)

__all__ = ["Group"]


class Group(Followed[GroupChange, GroupListener], AioGroupMembership):
    """One group, as coroutines. ttl_s: how many seconds a silent member stays."""

    _mine: dict[str, Hold]  # a lost one stays until it joins anew or leaves

    def __init__(self, group: str, *, ttl_s: float) -> None:
        super().__init__(f"group {group!r}", prefix_of("groups", group, "group"), ttl_s, GroupChange)
        self._group = group
        self._members: Versions[str, GroupMember] = Versions({})  # as of the mirror
        self._ids: dict[bytes, str] = {}  # of these members, by key: a key that is deleted has no value to tell it

    @property
    def group(self) -> str:
        return self._group

    # --- being a member -----------------------------------------------------------------------------------------------
    async def join(
        self,
        id: str,
        data: Data = b"",
        *,
        on_lost: Callable[[Any], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> AioHeld:
        deadline, tell_lost, hold = Deadline(timeout_s), self._telling(on_lost, "on_lost"), self._place(id, data, "id")
        former = self._reserve(id, hold)
        try:
            await self._take(hold, deadline, replaces=0 if former is None else former.epoch)
        except BaseException:
            self._forget(id, hold, former)
            raise
        if not await self._keeps(hold):
            self.face  # noqa: B018  # raises NodeClosed
        hold.on_lost(tell_lost)
        return cast(AioHeld, hold.shown)

    def _reserve(self, id: str, hold: Hold) -> Hold | None:
        """Make sure that an id joins once at a time; returns the hold that was lost under this id."""
        with self._lock:
            former = self._mine.get(id)
            if former is not None and not former.is_over:
                raise IdConflict(f"{id!r} is a member of {self._title} in this process already")
            self._mine[id] = hold
        return former

    def _forget(self, id: str, hold: Hold, former: Hold | None) -> None:
        with self._lock:
            if self._mine.get(id) is hold:
                self._mine.pop(id, None)
                if former is not None:
                    self._mine[id] = former

    async def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        self.face  # noqa: B018  # raises where it is closed
        with self._lock:
            hold = self._mine.get(id)
            if hold is None or not hold.epoch:  # nobody, or one that is still joining
                return
            self._mine.pop(id, None)  # a signal handler that closed in between has taken it, and given it back
        await hold.give_back(timeout_s=timeout_s)

    def _ended(self, mine: list[Hold]) -> list[Hold]:
        return [hold for hold in mine if hold.epoch]

    def ids_of(self, held: Iterable[object]) -> list[str]:
        """The ids of these members, as their users have them, as far as they have not joined anew or left."""
        with self._lock:
            shown = {id(hold.shown): name for name, hold in self._mine.items()}
        return [shown[id(one)] for one in held if id(one) in shown]

    # --- observing ----------------------------------------------------------------------------------------------------
    async def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        found = await self._known(keys_only=True, local=local, timeout_s=timeout_s)
        if not all(tells_name(record.key, self._prefix) for record in found.records):
            return frozenset(await self.members(local=local, timeout_s=timeout_s))  # some names are only in the values
        return frozenset(name_in(record.key, self._prefix) for record in found.records)

    async def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        return {id: member.data for id, member in (await self.members(local=local, timeout_s=timeout_s)).items()}

    async def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        found = await self._known(local=local, timeout_s=timeout_s)
        return Members(self._members_of(found.records), found.revision)

    def _members_of(self, records: Iterable[KeyRecord]) -> dict[str, GroupMember]:
        return {member.id: member for member in map(self._member_of, records)}

    def _member_of(self, record: KeyRecord) -> GroupMember:
        holder = self._holder_of(record)
        return GroupMember(holder.id, holder.data, record.create_revision)

    def _on_open(self, mirror: Mirror) -> None:
        self._members = Versions(self._members_of(mirror.records.values()))
        self._ids = {record.key: self._member_of(record).id for record in mirror.records.values()}

    def _on_change(self, mirror: Mirror) -> None:
        """Costs what changed, not how many members there are."""
        changed: dict[str, GroupMember | None] = {}
        for key, record in mirror.changes.items():
            if record is None:
                changed[self._ids.pop(key, name_in(key, self._prefix))] = None
            else:
                member = self._member_of(record)
                changed[member.id], self._ids[key] = member, member.id
        self._members = self._members.changed(changed)
        if len(self._listeners):
            self._listeners.tell(GroupChange(self._group, self._members, mirror.revision, mirror.coalesced))
