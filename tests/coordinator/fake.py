"""A group service in memory that follows Kafka's table of states, requests and answers; its only timer is `end_join`.

    state                 join                       sync                        heartbeat
    EMPTY, STABLE         opens PREPARING            STABLE: the assignment      STABLE: yes
    PREPARING             waits                      REBALANCE_IN_PROGRESS       REBALANCE_IN_PROGRESS
    COMPLETING            opens PREPARING anew       waits for the leader        yes

A join closes by itself when every member has joined again; `end_join` closes it without those that have not, as the
rebalance time-out does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from raftmeta.coordinator import (
    Code,
    Generation,
    JoinReply,
    JoinRequest,
    MemberMetadata,
    SyncReply,
    SyncRequest,
)
from raftmeta.errors import GroupRefused, group_refused


class GroupState(Enum):
    EMPTY = 0
    PREPARING = 1
    COMPLETING = 2
    STABLE = 3


def refusal(code: Code, member_id: str = "") -> GroupRefused:
    return group_refused(code, 0, member_id)


@dataclass
class FakeMember:
    id: str
    instance_id: str | None
    protocols: dict[str, bytes] = field(default_factory=dict)
    joining: asyncio.Future[JoinReply] | None = None
    syncing: asyncio.Future[SyncReply] | None = None
    assignment: bytes = b""


class FakeGroup:
    """One group. log: every request, in order. refusals: answers to the next requests of a kind, in order."""

    def __init__(self) -> None:
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, FakeMember] = {}
        self.log: list[tuple[str, object]] = []
        self.refusals: dict[str, list[Code]] = {"join": [], "sync": [], "heartbeat": [], "leave": []}
        self.is_silent = False  # to heartbeats
        self._ids = 0

    # --- requests -------------------------------------------------------------------------------------------------

    async def join(self, request: JoinRequest) -> JoinReply:
        self._note("join", request)
        member = self._joining_member(request)
        member.protocols = dict(request.protocols)
        if self.state is GroupState.STABLE and request.instance_id is not None and member.assignment:
            return self._reply(member)  # a static member that came back: nobody rebalances
        joining = member.joining = asyncio.get_running_loop().create_future()
        self._open_join()
        if all(one.joining for one in self.members.values()):
            self.end_join()
        return await joining

    def _joining_member(self, request: JoinRequest) -> FakeMember:
        if request.instance_id is not None:
            for member in self.members.values():
                if member.instance_id == request.instance_id and member.id != request.member_id:
                    if request.member_id:
                        raise refusal(Code.FENCED_INSTANCE_ID)
                    return self._take_over(member)
        if not request.member_id:
            made = self._new_id()
            if request.instance_id is None:
                raise refusal(Code.MEMBER_ID_REQUIRED, made)
            return self.members.setdefault(made, FakeMember(made, request.instance_id))
        if request.member_id not in self.members and not request.member_id.startswith("fake-"):
            raise refusal(Code.UNKNOWN_MEMBER_ID)
        return self.members.setdefault(request.member_id, FakeMember(request.member_id, request.instance_id))

    def _take_over(self, old: FakeMember) -> FakeMember:
        del self.members[old.id]
        new = FakeMember(self._new_id(), old.instance_id, assignment=old.assignment)
        self.members[new.id] = new
        if self.leader == old.id:
            self.leader = new.id
        return new

    async def sync(self, request: SyncRequest) -> SyncReply:
        self._note("sync", request)
        member = self._known(request.generation, request.instance_id)
        if self.state is GroupState.PREPARING:
            raise refusal(Code.REBALANCE_IN_PROGRESS)
        if self.state is GroupState.COMPLETING:
            if member.id != self.leader:
                syncing = member.syncing = asyncio.get_running_loop().create_future()
                return await syncing
            self.state = GroupState.STABLE
            for one in self.members.values():
                one.assignment = (request.assignments or {}).get(one.id, b"")
                if one.syncing is not None and not one.syncing.done():
                    one.syncing.set_result(SyncReply(one.assignment))
        return SyncReply(member.assignment)

    async def heartbeat(self, generation: Generation, instance_id: str | None) -> None:
        self._note("heartbeat", generation)
        if self.is_silent:
            raise refusal(Code.COORDINATOR_NOT_AVAILABLE)
        self._known(generation, instance_id)
        if self.state is GroupState.PREPARING:
            raise refusal(Code.REBALANCE_IN_PROGRESS)

    async def leave(self, member_id: str, instance_id: str | None, reason: str) -> None:
        self._note("leave", (member_id, reason))
        if member_id not in self.members:
            raise refusal(Code.UNKNOWN_MEMBER_ID)
        self.remove(member_id)

    def close(self) -> None:
        """A fake has no session to end."""

    # --- what tests do to it --------------------------------------------------------------------------------------

    def remove(self, member_id: str) -> None:
        """As the end of a session does."""
        del self.members[member_id]
        if self.members:
            self._open_join()
            if all(one.joining for one in self.members.values()):
                self.end_join()
        else:
            self.state = GroupState.EMPTY

    def end_join(self) -> None:
        self.members = {name: one for name, one in self.members.items() if one.joining}
        self.state = GroupState.COMPLETING
        self.generation += 1
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.protocol = self._chosen()
        for member in self.members.values():
            joining, member.joining = member.joining, None
            if joining is not None and not joining.done():
                joining.set_result(self._reply(member))

    def count(self, kind: str) -> int:
        return sum(name == kind for name, _ in self.log)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _note(self, kind: str, request: object) -> None:
        self.log.append((kind, request))
        if self.refusals[kind]:
            raise refusal(self.refusals[kind].pop(0))

    def _known(self, generation: Generation, instance_id: str | None) -> FakeMember:
        member = self.members.get(generation.member_id)
        if member is None:
            is_taken = instance_id and any(one.instance_id == instance_id for one in self.members.values())
            raise refusal(Code.FENCED_INSTANCE_ID if is_taken else Code.UNKNOWN_MEMBER_ID)
        if generation.number != self.generation:
            raise refusal(Code.ILLEGAL_GENERATION)
        return member

    def _open_join(self) -> None:
        self.state = GroupState.PREPARING
        for member in self.members.values():
            syncing, member.syncing = member.syncing, None
            if syncing is not None and not syncing.done():
                syncing.set_exception(refusal(Code.REBALANCE_IN_PROGRESS))

    def _chosen(self) -> str:
        """Of the protocols that all members know, the one that most members prefer."""
        known = set.intersection(*(set(member.protocols) for member in self.members.values()))
        votes = Counter(next(name for name in member.protocols if name in known) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    def _reply(self, member: FakeMember) -> JoinReply:
        generation = Generation(self.generation, member.id, self.protocol)
        is_leader = member.id == self.leader
        told = [MemberMetadata(one.id, one.instance_id, one.protocols[self.protocol]) for one in self.members.values()]
        skips = self.state is GroupState.STABLE
        return JoinReply(generation, self.leader, told if is_leader else (), is_leader and skips)

    def _new_id(self) -> str:
        self._ids += 1
        return f"fake-{self._ids}"
