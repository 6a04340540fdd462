"""A group of a node or a client as a service for coordinators: `store.groups` and a lease for each member.

It decides that the lease is the member's session. The store keeps it alive by itself, natively on a node, so a host
that holds the GIL loses no member. A member whose lease is not certainly held counts as unknown, without asking.
"""

from __future__ import annotations

from typing import Any

from raftmeta.coordinator.service import (
    Code,
    Generation,
    JoinReply,
    JoinRequest,
    MemberMetadata,
    SyncReply,
    SyncRequest,
)
from raftmeta.errors import InvalidArgument, LeaseExpired, group_refused
from raftmeta.operations import Key
from raftmeta.results import GroupJoined, GroupSynced
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.blocking import Verbs
from raftmeta.verbs.groups import AioGroups, BlockingGroups
from raftmeta.verbs.lease import AioLease, Lease

__all__ = ["AioStoreGroup", "StoreGroup"]

LEAVE_S = 5.0


def _joined(told: GroupJoined) -> JoinReply:
    return JoinReply(
        Generation(told.generation, told.member_id, told.protocol),
        told.leader_id,
        tuple(MemberMetadata(one.member_id, one.instance or None, one.said) for one in told.members),
        told.skip_assignment,
        told.fence,
    )


def _synced(told: GroupSynced) -> SyncReply:
    return SyncReply(told.assignment, told.fence)


class _StoreGroup:
    """The part of both faces."""

    def __init__(self, group: Key, client: str, initial_delay_s: float, members_max: int) -> None:
        self.group = group
        self._joining = {"client": client, "initial_delay_s": initial_delay_s, "members_max": members_max}
        self._lease: Any = None

    def _joining_of(self, request: JoinRequest) -> dict[str, Any]:
        return {
            **self._joining,
            "lease": self._lease,
            "protocol_type": request.protocol_type,
            "member_id": request.member_id,
            "instance": request.instance_id or "",
            "rebalance_timeout_s": request.rebalance_timeout_s,
        }

    def _check_lease(self, member_id: str) -> bool:
        """Whether there is a lease to go on with. A member of a lease before it has gone with that."""
        if self._lease is not None and self._lease.held():
            return True
        self._lease = None
        if member_id:
            raise group_refused(Code.UNKNOWN_MEMBER_ID, 0)
        return False

    def _lost(self) -> Exception:
        self._lease = None
        return group_refused(Code.UNKNOWN_MEMBER_ID, 0)

    @staticmethod
    def _syncing_of(request: SyncRequest) -> tuple[int, str, dict[str, bytes] | None]:
        generation, given = request.generation, request.assignments
        return generation.number, generation.member_id, None if given is None else dict(given)

    def close(self) -> None:
        """Keep the lease alive no longer, unless it was given back: the member goes when its session is over."""
        self._lease = None


class AioStoreGroup(_StoreGroup):
    """A worker group of an asyncio node, client or view, for AioCoordinator. One object for each member.

    client: begins the member's id. initial_delay_s: how long an empty group waits for further members.
    members_max: the group refuses further ones. Raises InvalidArgument for another store.
    """

    def __init__(
        self, store: AioVerbs, group: Key, *, client: str = "", initial_delay_s: float = 3.0, members_max: int = 5_000
    ) -> None:
        super().__init__(group, client, initial_delay_s, members_max)
        if not isinstance(store, AioVerbs):
            raise InvalidArgument(
                f"store: must be for asyncio, such as raftmeta.aio.Client or node.aio(), not {type(store).__name__}",
                field="store",
            )
        self._store = store
        self._groups: AioGroups = store.groups
        self._lease: AioLease | None = None

    async def join(self, request: JoinRequest) -> JoinReply:
        if not self._check_lease(request.member_id):
            self._lease = await self._store.lease(request.session_timeout_s)
        try:
            return _joined(await self._groups.join(self.group, request.protocols, **self._joining_of(request)))
        except LeaseExpired:
            raise self._lost() from None

    async def sync(self, request: SyncRequest) -> SyncReply:
        number, member_id, assignments = self._syncing_of(request)
        instance = request.instance_id or ""
        return _synced(await self._groups.sync(self.group, number, member_id, assignments, instance=instance))

    async def heartbeat(self, generation: Generation, instance_id: str | None) -> None:
        self._check_lease(generation.member_id)
        await self._groups.heartbeat(
            self.group, generation.number, generation.member_id, instance=instance_id or "", timeout_s=None
        )

    async def until_refused(self, generation: Generation, instance_id: str | None) -> None:
        await self._groups.until_refused(
            self.group, generation.number, generation.member_id, instance=instance_id or "", timeout_s=None
        )

    async def leave(self, member_id: str, instance_id: str | None, reason: str) -> None:
        await self._groups.leave(self.group, [member_id], timeout_s=LEAVE_S)
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke(timeout_s=LEAVE_S)


class StoreGroup(_StoreGroup):
    """A worker group of a node, client or view, for Coordinator. See AioStoreGroup."""

    def __init__(
        self, store: Verbs, group: Key, *, client: str = "", initial_delay_s: float = 3.0, members_max: int = 5_000
    ) -> None:
        super().__init__(group, client, initial_delay_s, members_max)
        if not isinstance(store, Verbs):
            raise InvalidArgument(
                f"store: must be one that blocks, such as raftmeta.Node or raftmeta.Client, not {type(store).__name__}",
                field="store",
            )
        self._store = store
        self._groups: BlockingGroups = store.groups
        self._lease: Lease | None = None

    def join(self, request: JoinRequest, *, timeout_s: float | None) -> JoinReply:
        if not self._check_lease(request.member_id):
            self._lease = self._store.lease(request.session_timeout_s, timeout_s=timeout_s)
        try:
            return _joined(
                self._groups.join(self.group, request.protocols, timeout_s=timeout_s, **self._joining_of(request))
            )
        except LeaseExpired:
            raise self._lost() from None

    def sync(self, request: SyncRequest, *, timeout_s: float | None) -> SyncReply:
        number, member_id, assignments = self._syncing_of(request)
        instance = request.instance_id or ""
        return _synced(
            self._groups.sync(self.group, number, member_id, assignments, instance=instance, timeout_s=timeout_s)
        )

    def heartbeat(self, generation: Generation, instance_id: str | None, *, timeout_s: float | None) -> None:
        self._check_lease(generation.member_id)
        self._groups.heartbeat(
            self.group, generation.number, generation.member_id, instance=instance_id or "", timeout_s=timeout_s
        )

    def until_refused(self, generation: Generation, instance_id: str | None, *, timeout_s: float | None) -> None:
        self._groups.until_refused(
            self.group, generation.number, generation.member_id, instance=instance_id or "", timeout_s=timeout_s
        )

    def leave(self, member_id: str, instance_id: str | None, reason: str, *, timeout_s: float | None) -> None:
        self._groups.leave(self.group, [member_id], timeout_s=timeout_s)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.revoke(timeout_s=timeout_s)
