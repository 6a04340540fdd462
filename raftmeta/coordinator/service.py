"""The group service, as a member sees it: four requests that may wait, and the codes by which they are refused.

It decides nothing. `coordinator/store` makes a service of a node or a client. The words are those of Kafka's group
protocol, without its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from raftmeta.operations import Fence

__all__ = [
    "AioGroupService",
    "Code",
    "Generation",
    "GroupService",
    "JoinReply",
    "JoinRequest",
    "MemberMetadata",
    "SyncReply",
    "SyncRequest",
]


class Code(IntEnum):
    """Why a request was refused: `code` of raftmeta.GroupRefused. Names and numbers are Kafka's."""

    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


RETRIABLE = frozenset({Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
MEMBER_ERRORS = frozenset(
    {Code.REBALANCE_IN_PROGRESS, Code.MEMBER_ID_REQUIRED, Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION}
)


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
    """members: of the group, for its leader only. skip_assignment: the assignment in force is kept.

    fence: of the generation; None: the service has none.
    """

    generation: Generation
    leader_id: str
    members: Sequence[MemberMetadata] = ()
    skip_assignment: bool = False
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """assignments: of the leader only; None: wait for them."""

    generation: Generation
    instance_id: str | None
    assignments: Mapping[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class SyncReply:
    """fence: of the assignment; None: the service has none."""

    assignment: bytes
    fence: Fence | None = None


class GroupService(Protocol):
    """A group for callers that block. timeout_s: None waits as long as it takes.

    Each raises GroupRefused, whose `code` is a Code or another number of Kafka's. GroupTimeout: the request was done,
    and asking again goes on. A service may have `until_refused`, with the arguments of `heartbeat`. It waits, and
    raises the refusal of a heartbeat as soon as there is one: a coordinator hears of a rebalance or a loss at once.
    """

    def join(self, request: JoinRequest, *, timeout_s: float | None) -> JoinReply:
        """Answers when all members have joined, or the time for it is over."""

    def sync(self, request: SyncRequest, *, timeout_s: float | None) -> SyncReply:
        """Answers when the leader has sent the assignments."""

    def heartbeat(self, generation: Generation, instance_id: str | None, *, timeout_s: float | None) -> None:
        """Returns if the generation goes on."""

    def leave(self, member_id: str, instance_id: str | None, reason: str, *, timeout_s: float | None) -> None:
        """End the member."""

    def close(self) -> None:
        """Keep the member alive no longer. Asks nobody."""


class AioGroupService(Protocol):
    """The same for tasks. A request that is cancelled may have been done; asking again goes on.

    `until_refused` takes no time-out.
    """

    async def join(self, request: JoinRequest) -> JoinReply: ...

    async def sync(self, request: SyncRequest) -> SyncReply: ...

    async def heartbeat(self, generation: Generation, instance_id: str | None) -> None: ...

    async def leave(self, member_id: str, instance_id: str | None, reason: str) -> None: ...

    def close(self) -> None: ...
