"""The answers of a node as plain values: members, status, events and the changes that watches tell. The records of keys
and the results of transactions are in raftmeta/operations.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from raftmeta.operations import Fence, KeyRecord, RangeResult, TxnResult, Znode, ZnodeCreated, ZnodeStat

__all__ = [
    "Grant",
    "GroupCounts",
    "GroupInfo",
    "GroupJoined",
    "GroupListed",
    "GroupMember",
    "GroupSynced",
    "MemberStatus",
    "NodeEvent",
    "NodeStatus",
    "ObserverStatus",
    "Problem",
    "RightsStatus",
    "Role",
    "TxnReply",
    "User",
    "WatchBatch",
    "WatchEvent",
    "WatchReset",
    "ZnodeFound",
    "ZnodesReply",
]


@dataclass(frozen=True, slots=True)
class TxnReply:
    """The answer to a transaction. revision: of its changes, or the revision it saw when it changed nothing."""

    succeeded: bool
    results: list[int | KeyRecord | RangeResult | TxnResult | None]
    revision: int
    index: int


@dataclass(frozen=True, slots=True)
class ZnodesReply:
    """The answer to a request for znodes: one result for each operation, by its kind (raftmeta/operations.py).

    revision: of its changes, which is their zxid. A request of checks alone changes nothing: then it is that of the
    state that was checked.
    """

    results: list[ZnodeCreated | ZnodeStat | None]
    revision: int
    index: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a worker group. said: what it says under the protocol of the group. assignment: its last one."""

    member_id: str
    instance: str
    client: str
    said: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupJoined:
    """A member at the beginning of a generation.

    members: all of them, for the leader; else empty. skip_assignment: the leader took the place of another holder of
    its instance, and is to assign nothing. fence: of the generation; writes under it end with it.
    """

    member_id: str
    generation: int
    leader_id: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
    skip_assignment: bool
    fence: Fence

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader_id


@dataclass(frozen=True, slots=True)
class GroupSynced:
    """The assignment of a member. fence: of this assignment; it ends with the next one, and with the member."""

    assignment: bytes
    fence: Fence


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A worker group as of one revision. state: Empty, Preparing, Completing or Stable."""

    state: str
    generation: int
    protocol_type: str
    protocol: str
    leader_id: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Worker groups in numbers. states: how many groups are in each state. members: of all groups, pending ones too.

    generations: the sum of the generations of all groups. It grows by one with each rebalance, and falls when a group
    is deleted.
    """

    states: dict[str, int]
    members: int
    generations: int


@dataclass(frozen=True, slots=True)
class GroupListed:
    """A worker group in a list."""

    group: str
    state: str
    generation: int
    protocol_type: str


@dataclass(frozen=True, slots=True)
class ZnodeFound:
    """A znode as of one revision. data: None is null. children: their names in order, None: they were not asked for."""

    data: bytes | None
    znode: Znode
    revision: int
    children: tuple[str, ...] | None = None

    @property
    def stat(self) -> ZnodeStat:
        return self.znode.stat


@dataclass(frozen=True, slots=True)
class RightsStatus:
    """Whether rights are on. user: the name that this client proved, "" for none and for a node."""

    is_enabled: bool
    user: str


@dataclass(frozen=True, slots=True)
class User:
    """A user of the cluster. tokens: the ids of its tokens. Its password is never shown.

    has_password: False for a user who proves itself by a certificate only. is_one_time: the user must choose another
        password before it may do anything else.
    """

    name: str
    roles: tuple[str, ...]
    has_password: bool
    is_one_time: bool
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights over [start, end); end b"": to the last key."""

    rights: tuple[str, ...]
    start: bytes
    end: bytes


@dataclass(frozen=True, slots=True)
class Role:
    """A role and what it grants."""

    name: str
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member or named peer. id: incarnation, 0 when this node has not heard from the member.

    role: "voter", "learner" (the leader promotes it when it has caught up and that helps), "standby" (a learner that
        the leader does not promote), or "" when the membership does not name it.
    is_connected: our connection to it is up; always true for this node itself.
    bytes_in, bytes_out: of frames from it and to it since this node started, as of the last 10 ms.
    """

    name: str
    id: int
    address: str
    role: str
    is_self: bool
    is_connected: bool
    bytes_in: int = 0
    bytes_out: int = 0


class Problem(NamedTuple):
    """A state that a node cannot leave by itself, or not while it lasts. kind is for programs, text for people.

    docs/operations.md "A node that is not ready" lists the kinds and what to do about each.
    """

    kind: str
    text: str


class ObserverStatus(NamedTuple):
    """An observer that follows the log through a node. name: "" when the connection to it is gone. id: its incarnation.

    last: index where its log ended when it asked last; lag: entries that were committed here and that it had not then.
    feeder: who feeds it, this node or another observer; "" when that is not known.
    """

    name: str
    id: int
    last: int
    lag: int
    feeder: str = ""

    @staticmethod
    def merged(statuses: Iterable[NodeStatus]) -> tuple[ObserverStatus, ...]:
        """The observers that several nodes tell of, by name, each once.

        The word of an observer's feeder is newer than a report to others; of two reports the smaller lag is the newer.
        """
        found: dict[int, tuple[bool, ObserverStatus]] = {}
        for status in statuses:
            for one in status.observers:
                is_report = one.feeder != status.name
                known = found.get(one.id)
                if known is None or (is_report, one.lag) < (known[0], known[1].lag):
                    found[one.id] = (is_report, one)
        return tuple(sorted(one for _, one in found.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node as it saw itself at the end of a recent turn.

    state: "starting" (not yet part of a founded cluster), "joining" (waits for add_member), "running", "observing" (an
        observer), "removed" (no member any more), or "stopped".
    feeder: of an observer, the node that feeds it; "" when nobody does. observers: those that follow the log through
        this node, at most 512. Those that it feeds are as they are now, others as their feeders reported last.
    leader: name, "" when not known. cluster_id: 32 hex digits, "" before the founding.
    problems: reasons why this node is not ready, or soon will not be. Empty when there are none, and in the status that
        a client asks for.
    lost_disks: voters whose folders are blank, so that another incarnation answers under their name. A leader takes
    them back one at a time, as long as a majority of voters has its disk.
    feature_level: the level that all members can apply. version: of raftmeta on this node.
    The indexes are those of the log; revision and compacted bound the history that reads and watches can name.
    """

    name: str
    id: int
    boot: int
    cluster: str
    cluster_id: str
    state: str
    is_ready: bool
    role: str
    term: int
    leader: str
    committed: int
    applied: int
    persisted: int
    last: int
    revision: int
    compacted: int
    keys: int
    state_hash: str
    feature_level: int
    version: str
    lost_disks: tuple[str, ...]
    members: tuple[MemberStatus, ...]
    problems: tuple[Problem, ...] = ()
    feeder: str = ""
    observers: tuple[ObserverStatus, ...] = ()

    @property
    def is_leader(self) -> bool:
        return self.role == "leader"


class NodeEvent(NamedTuple):
    """A decision or an observation of a node: fixed words and numbers, for logs and tests.

    number: counts the events of this node; a gap means that the reader was too slow.
    """

    number: int
    time_s: float
    name: str
    facts: Mapping[str, int | str]

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{word}={value}" for word, value in self.facts.items())])


class WatchEvent(NamedTuple):
    """One change of one key. type: "put" or "delete"; previous only if asked for.

    record: after the change. After a delete only its key and mod_revision count; the value is empty.
    """

    type: str
    record: KeyRecord
    previous: KeyRecord | None
    revision: int

    @property
    def key(self) -> bytes:
        return self.record.key

    @property
    def value(self) -> bytes:
        return self.record.value


class WatchBatch(NamedTuple):
    """Changes of one revision. is_whole: no more of this revision follow (large ones come in parts).

    Without events it is a progress mark: everything up to revision was delivered.
    """

    revision: int
    time_s: float
    events: list[WatchEvent]
    is_whole: bool


class WatchReset(NamedTuple):
    """History since the revision to resume from is gone. The reset has everything that matches, as of revision."""

    revision: int
    records: list[KeyRecord]
