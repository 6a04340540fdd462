"""What is held by a lease, and a resource that only its holder may write: locks, members, leads.

A client says when it got what it holds and when it saw it lost, and for each write that carries a fence whether the
store took it. `held` is said with a moment *before* held() was asked: if it was held afterwards, it was held then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import raftmeta
from jepsen.client import TIMEOUT_S, UNSURE, Client
from jepsen.clock import now_ns
from jepsen.spool import NOT_TOLD
from jepsen.workloads.base import TTL_S, Grant, Workload, encoded
from raftmeta.interfaces import GroupChange, HeldBase, LeaderChange
from raftmeta.operations import Fence

RETRY_S = 0.1
ALL_RIGHTS = ("read", "write", "watch", "lease")  # over the keys of a recipe; docs/formats.md has their prefixes
Listener = TypeVar("Listener")


class Guarded(Workload):
    """Writes to a resource under a fence. subject: of what is held, in the observations."""

    model = None
    subject = ""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.subject = f"{self.name}/{client.group}"
        self._listener = client.process

    def say(
        self,
        kind: str,
        *,
        token: int,
        revision: int = NOT_TOLD,
        value: str = "",
        time_ns: int | None = None,
        is_listener: bool = False,
    ) -> None:
        """is_listener: what a listener was told; it has one process number as long as it lives."""
        self.client.spool.observe(
            kind,
            self.subject,
            process=self._listener if is_listener else self.client.process,
            revision=revision,
            token=token,
            value=value or self.client.name,
            time_ns=time_ns,
        )

    async def write(self, fence: Fence) -> bool:
        """Write to the resource; False when the fence was refused."""

        async def act() -> int:
            value = encoded(self.client.new_value())
            return int(await self.client.store.put(f"{self.subject}/resource", value, fence=fence, timeout_s=TIMEOUT_S))

        try:
            revision = await self.client.attempt(act)
        except raftmeta.Fenced as error:
            self.say("fence_refused", token=fence.create_revision, revision=error.revision)
            return False
        if revision is not None:
            self.say("fence_accepted", token=fence.create_revision, revision=revision)
        return True

    def tell_held(self, held: HeldBase | raftmeta.Lease | raftmeta.aio.Lease, token: int) -> bool:
        """Say that it is held, if it is; whether it is."""
        before_ns = now_ns()
        if held.held():
            self.say("held", token=token, time_ns=before_ns)
            return True
        return False


class Lease(Guarded):
    """A key with a lease is a lock: who creates it writes under its create revision, until it is gone.

    It goes by expiry, by being given back, and by being removed under a lease that goes on.
    """

    name = "lease"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._lock = f"{self.subject}/lock"
        self._lease: raftmeta.aio.Lease | None = None
        self._token = 0

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        return ((("read", "write", "lease"), "lease/"),)

    async def step(self) -> None:
        if self._lease is None:
            await self._acquire()
            return
        if not self.tell_held(self._lease, self._token):
            self.say("lease_lost", token=self._token)
        choice = self.client.random.random()
        if choice < 0.9:
            if not await self.write(Fence(self._lock, self._token)):
                await self._give_back()
        elif choice < 0.95:
            await self._give_back()
        else:
            await self._break()

    async def _break(self) -> None:
        """Remove the lock under a lease that goes on: its fence must be refused from that revision on."""
        token = self._token
        self.say("lease_released", token=token)

        async def act() -> int:
            return int(await self.client.store.delete(self._lock, expected_revision=token, timeout_s=TIMEOUT_S))

        try:
            revision = await self.client.attempt(act)
        except raftmeta.Refused:
            revision = None  # expired before
        if revision is not None:
            self.say("fence_ended", token=token, revision=revision)
            await self.write(Fence(self._lock, token))
        await self._give_back()

    async def _acquire(self) -> None:
        lease = await self.client.attempt(lambda: self.client.store.lease(TTL_S, timeout_s=TIMEOUT_S))
        if lease is None:
            return
        self._lease = lease

        async def act() -> int:
            return int(await self.client.store.create(self._lock, b"", lease=lease, timeout_s=TIMEOUT_S))

        try:
            token = await self.client.attempt(act)
        except (raftmeta.KeyExists, raftmeta.LeaseExpired):
            token = None
        if token is None:
            await self._give_back()
            return
        self._token = token
        self.say("lease_granted", token=token, revision=token)

    async def _give_back(self) -> None:
        lease, self._lease, token, self._token = self._lease, None, self._token, 0
        if lease is None:
            return
        if token:
            self.say("lease_released", token=token)
        await self.client.attempt(lambda: lease.revoke(timeout_s=TIMEOUT_S))


class Election(Guarded):
    """KIP-30's leader election: the leader writes under its lead as a fence, and now and then resigns."""

    name = "election"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._service = client.store.election(self.subject, ttl_s=TTL_S)
        self._is_candidate = False
        self._lead: HeldBase | None = None

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        return (*super().grants(), (ALL_RIGHTS, "_raftmeta/elections/election%2F"))

    async def step(self) -> None:
        if not self._is_candidate:
            await self._nominate()
            return
        lead = self._lead
        if lead is None:
            return
        self.tell_held(lead, lead.epoch)
        if self.client.random.random() < 0.95:
            if not await self.write(lead.fence) and self._lead is lead:
                self._lead = None
        else:
            await self._resign(lead)

    async def _nominate(self) -> None:
        async def act() -> bool:
            return await self._service.nominate(self.client.name, on_elected=self._on_elected, on_lost=self._on_lost)

        self._is_candidate = True
        try:
            if await self.client.attempt(act) is None:
                await self._withdraw()
        except (raftmeta.IdConflict, raftmeta.LeaseExpired):
            # An own nomination whose outcome was not known, which goes by its lease; or the way there took too long.
            self._is_candidate = False

    async def _withdraw(self) -> None:
        self._is_candidate = False
        await self.client.attempt(lambda: self._service.withdraw(self.client.name))

    async def _resign(self, lead: HeldBase) -> None:
        self._lead = None
        self.say("resigned", token=lead.epoch)
        await self._withdraw()

    def _on_elected(self, lead: HeldBase) -> None:
        self._lead = lead
        self.say("elected", token=lead.epoch)

    def _on_lost(self, lead: HeldBase) -> None:
        self.say("lead_lost", token=lead.epoch)
        if self._lead is lead:
            self._lead = None

    async def follow(self) -> None:
        """Every change of the leader, as a listener is told it."""
        await listened(self._service.add_listener, self._on_change)

    def _on_change(self, change: LeaderChange) -> None:
        leader = change.leader
        told = json.dumps([None if leader is None else leader.id, change.coalesced])
        self.say(
            "leader",
            token=-1 if leader is None else leader.epoch,
            revision=change.revision,
            value=told,
            is_listener=True,
        )


class Group(Guarded):
    """KIP-30's group membership: clients join, read and leave; listeners are told every change."""

    name = "group"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._group = client.store.group(self.subject, ttl_s=TTL_S)
        self._member: HeldBase | None = None

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        return ((ALL_RIGHTS, "_raftmeta/groups/group%2F"),)

    async def step(self) -> None:
        member = self._member
        if member is None:
            await self._join()
        elif not member.held():
            self.say("member_lost", token=member.epoch)
            await self._leave()
        elif self.client.random.random() < 0.9:
            await self._read()
        else:
            self.say("member_left", token=member.epoch)
            await self._leave()

    async def _join(self) -> None:
        try:
            member = await self.client.attempt(lambda: self._group.join(self.client.name))
        except (raftmeta.IdConflict, raftmeta.LeaseExpired):
            return  # an own joining whose outcome was not known goes by its lease; or the way there took too long
        if member is not None:
            self._member = member
            self.say("member_joined", token=member.epoch, revision=member.epoch)

    async def _leave(self) -> None:
        self._member = None
        await self.client.attempt(lambda: self._group.leave(self.client.name))

    async def _read(self) -> None:
        """A member that certainly holds its place stands in a list that was asked for meanwhile."""
        member = self._member
        found = await self.client.attempt(self._group.members)
        if found is not None and member is not None and self.tell_held(member, member.epoch):
            told = found.get(self.client.name)
            self.say("member_read", token=member.epoch, value=str(-1 if told is None else told.epoch))

    async def follow(self) -> None:
        """Every change of the group, as a listener is told it."""
        await listened(self._group.add_listener, self._on_change)

    def _on_change(self, change: GroupChange) -> None:
        epochs = {id: member.epoch for id, member in sorted(change.members.items())}
        told, token = json.dumps(epochs), int(change.coalesced)
        self.say("member", token=token, revision=change.revision, value=told, is_listener=True)


async def listened(add_listener: Callable[[Listener], Awaitable[object]], listener: Listener) -> None:
    """Add a listener as soon as the store can be asked, and stay."""
    while True:
        try:
            await add_listener(listener)
            await asyncio.Event().wait()
        except UNSURE:
            await asyncio.sleep(RETRY_S)
