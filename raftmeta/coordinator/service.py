"""The group service, as a member sees it: four requests that may wait, and the codes by which they are refused.

It decides nothing. A node, a client, or a fake of the tests implements GroupService. The words are those of Kafka's
group protocol, without its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

__all__ = [
    "Code",
    "Generation",
    "GroupRefused",
    "GroupService",
    "JoinReply",
    "JoinRequest",
    "MemberMetadata",
    "SyncReply",
    "SyncRequest",
]


class Code(Enum):
    """Why a request was refused; the names are those of Kafka's error codes."""

    COORDINATOR_LOAD_IN_PROGRESS = "the group is not loaded yet"
    COORDINATOR_NOT_AVAILABLE = "nobody coordinates the group now"
    NOT_COORDINATOR = "another node coordinates the group"
    REBALANCE_IN_PROGRESS = "the group waits for its members to join"
    MEMBER_ID_REQUIRED = "join again with the id that was given"
    UNKNOWN_MEMBER_ID = "the group has no member of this id"
    ILLEGAL_GENERATION = "the generation is over"
    FENCED_INSTANCE_ID = "another process took the instance over"
    INCONSISTENT_GROUP_PROTOCOL = "no protocol is known to all members"
    INVALID_SESSION_TIMEOUT = "the session time-out is out of range"
    INVALID_GROUP_ID = "the group has an impossible name"
    GROUP_AUTHORIZATION_FAILED = "no right to the group"
    GROUP_MAX_SIZE_REACHED = "the group is full"
    UNSUPPORTED_VERSION = "the service does not know the request"


RETRIABLE = frozenset({Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
MEMBER_ERRORS = frozenset(
    {Code.REBALANCE_IN_PROGRESS, Code.MEMBER_ID_REQUIRED, Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION}
)


class GroupRefused(Exception):
    """The group service said no; nothing changed. member_id: with MEMBER_ID_REQUIRED, the id to join with."""

    def __init__(self, code: Code, member_id: str = "") -> None:
        super().__init__(f"{code.name}: {code.value}")
        self.code = code
        self.member_id = member_id


@dataclass(frozen=True, slots=True)
class Generation:
    """A member's place in a group. number: -1 before the first one. protocol: chosen by the group."""

    number: int = -1
    member_id: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member as its leader sees it. metadata: bytes of the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout_s: float
    rebalance_timeout_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JoinReply:
    """members: of the group, for its leader only. skip_assignment: the leader keeps the assignment that is in force."""

    generation: Generation
    leader_id: str
    members: Sequence[MemberMetadata] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    generation: Generation
    instance_id: str | None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyncReply:
    assignment: bytes


class GroupService(Protocol):
    """Each raises GroupRefused; NotExecuted and OutcomeUnknown of the carrier count as COORDINATOR_NOT_AVAILABLE."""

    async def join(self, request: JoinRequest) -> JoinReply:
        """Answers when all members have joined, or the time for it is over."""

    async def sync(self, request: SyncRequest) -> SyncReply:
        """Answers when the leader has sent the assignments."""

    async def heartbeat(self, generation: Generation, instance_id: str | None) -> None: ...

    async def leave(self, member_id: str, instance_id: str | None, reason: str) -> None: ...
