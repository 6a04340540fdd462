"""Every error of raftmeta, arranged by the most important question after a failure: what happened to the operation?

    RaftmetaError
    ├── NotExecuted                 certainly not applied: safe to try again
    │   ├── NoLeader                no leader is known, or it stepped down before it took the operation
    │   ├── NotReady                this node has not caught up, or has no session yet; says who is missing
    │   │   ├── ReadyTimeout        ... within the time given                                   (TimeoutError)
    │   │   └── NodeRemoved         it is no member any more; a watch goes on at `revision` elsewhere
    │   ├── Overloaded              too much is under way already
    │   │   └── QuotaExceeded       ... or used by this principal: `quota` says of what, `retry_after_s` when again
    │   ├── NoSpace                 no quorum has room on its disks, or a required audit trail has none
    │   ├── Withdrawn               timed out before it was proposed                            (TimeoutError)
    │   ├── NodeClosed              this node was closed, or never started
    │   ├── PermissionDenied        the principal has no right to it: `right`, `start` and `end` say which
    │   ├── AuthenticationFailed    nobody proved who asks, or what was proved does not count any more
    │   ├── MachineStopped          this node's copy of the user machine cannot go on; `reason` says why
    │   ├── Unsupported             the back end, or an older node, does not do that (interfaces.Capabilities)
    │   └── ForkedProcess           this process is a fork of the one that runs the node
    ├── Refused                     applied, and the answer is no; `revision` is that of the refusal
    │   ├── KeyExists    KeyMissing    CompareFailed    Fenced
    │   ├── IdConflict   LeaseExpired
    │   ├── Compacted               the revision asked for is older than the history kept
    │   ├── FutureRevision          ... newer than anything this node has applied
    │   ├── CommandRefused          over a limit, not a counter, ...: the message says which
    │   ├── ZnodeRefused            an operation on znodes: `position` says which, `code` why, by ZooKeeper's numbers
    │   ├── GroupRefused            a request for a worker group: `code` says why, by Kafka's numbers
    │   ├── Rejected                a command of a user machine said no; `details` as it gave them
    │   ├── CommandFailed           ... raised something else: nothing of it stays; `kind` names the exception
    │   └── ChangeRefused           a change of membership: would leave no quorum, names no member, ...
    ├── OutcomeUnknown              may be applied or not; `ticket.result(timeout_s)` goes on with the same operation
    │   └── OutcomeTimeout          ... within the time given                                   (TimeoutError)
    │       └── GroupTimeout        a member has joined, and the phase of its group has not ended
    ├── Lagged                      a watcher was too slow; `revision` is where to go on
    ├── Fatal                       this node has stopped and keeps its files
    │   └── DiskFailed    StorageCorrupt    InvariantBroken    OutOfMemory    StateDiverged    HistoryLost
    ├── ConfigError                 `field` names what is wrong                                 (ValueError)
    │   ├── AddressInUse    FolderInUse    ForeignFolder    NewerFormat    SnapshotDamaged
    │   └── EncryptionKeyMissing
    └── InvalidArgument             `field` names the argument                                  (ValueError)

It decides how a native status becomes an exception; it never decides whether to try again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raftmeta.common import invariants, statuses

__all__ = [
    "AddressInUse",
    "AuthenticationFailed",
    "ChangeRefused",
    "CommandFailed",
    "CommandRefused",
    "Compacted",
    "CompareFailed",
    "ConfigError",
    "DiskFailed",
    "EncryptionKeyMissing",
    "Fatal",
    "Fenced",
    "FolderInUse",
    "ForeignFolder",
    "ForkedProcess",
    "FutureRevision",
    "GroupRefused",
    "GroupTimeout",
    "HistoryLost",
    "IdConflict",
    "InvalidArgument",
    "InvariantBroken",
    "KeyExists",
    "KeyMissing",
    "Lagged",
    "LeaseExpired",
    "MachineStopped",
    "NewerFormat",
    "NoLeader",
    "NoSpace",
    "NodeClosed",
    "NodeRemoved",
    "NotExecuted",
    "NotReady",
    "OutOfMemory",
    "OutcomeTimeout",
    "OutcomeUnknown",
    "Overloaded",
    "PermissionDenied",
    "QuotaExceeded",
    "RaftmetaError",
    "ReadyTimeout",
    "Refused",
    "Rejected",
    "SnapshotDamaged",
    "StateDiverged",
    "StorageCorrupt",
    "Unsupported",
    "Withdrawn",
    "ZnodeRefused",
]


class RaftmetaError(Exception):
    """Base of every error that raftmeta raises.

    items_done: after put_many, so many of its first items are certainly set; the error is about the items that follow.
    """

    items_done: int = 0


# --- certainly not applied ------------------------------------------------------------------------------------------


class NotExecuted(RaftmetaError):
    """The operation was certainly not applied; trying again is safe."""


class NoLeader(NotExecuted):
    """No leader took the operation."""


class NotReady(NotExecuted):
    """This node cannot serve yet.

    unreachable: names of the peers without a connection. lost_disks: names of voters whose folders are blank; when
    the other voters are no majority, only a backup brings the cluster back. problems: (kind, text) of each reason, as
    in NodeStatus.problems; the message has the texts.
    """

    def __init__(
        self,
        message: str,
        *,
        unreachable: Sequence[str] = (),
        lost_disks: Sequence[str] = (),
        problems: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        self.unreachable = tuple(unreachable)
        self.lost_disks = tuple(lost_disks)


class ReadyTimeout(NotReady, TimeoutError):
    """The node was not ready within the time given."""


class NodeRemoved(NotReady):
    """The node is no member of the cluster any more; its members serve on.

    revision: where an ended watch goes on at a member; the watch missed nothing before it. Otherwise 0.
    """

    def __init__(self, message: str, *, revision: int = 0) -> None:
        super().__init__(message)
        self.revision = revision


class Overloaded(NotExecuted):
    """Too many operations are under way; the node refused this one at once."""


class QuotaExceeded(Overloaded):
    """The principal uses as much of the node as one principal may (Config.principal_...); others may go on.

    quota: "requests", "write bytes", "bytes under way", "connections", "watches", "leases", "sessions" or "results of a
    session"; empty: it was not told. principal: whose; empty: of all clients of this address that prove no name.
    retry_after_s: when to try again, in seconds; None: when something was given back.
    """

    def __init__(
        self, message: str, *, quota: str = "", principal: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.quota = quota
        self.principal = principal
        self.retry_after_s = retry_after_s


class NoSpace(NotExecuted):
    """No quorum of members has room for growth; deletes, keep-alives and fences still pass.

    Or the node that a client asked must record the request (Audit.required) and cannot: another node may do it.
    """


class Withdrawn(NotExecuted, TimeoutError):
    """The time-out passed before the operation was proposed; the node took it back."""


class NodeClosed(NotExecuted):
    """The node is closed or was never started."""


class ForkedProcess(NotExecuted):
    """The node runs in the parent process; a forked child cannot use it."""


class Unsupported(NotExecuted):
    """This back end does not promise what was asked for. capability: its name in interfaces.Capabilities."""

    def __init__(self, message: str, *, capability: str = "") -> None:
        super().__init__(message)
        self.capability = capability


class PermissionDenied(NotExecuted):
    """The principal has no right to the operation; the whole of it was refused before any of it was looked at.

    principal: the name that asked. right: the one that is missing ("read", "write", ...). start, end: the keys
    [start, end) that it is missing for; end None: the key `start` alone; both empty: all keys.
    """

    def __init__(
        self, message: str, *, principal: str = "", right: str = "", start: bytes = b"", end: bytes | None = b""
    ) -> None:
        super().__init__(message)
        self.principal = principal
        self.right = right
        self.start = start
        self.end = end


class AuthenticationFailed(NotExecuted):
    """No user proved a password here, the name or password is wrong, or the password was changed since the proof."""


class MachineStopped(NotExecuted):
    """This node's copy of the user machine cannot go on; copies on other nodes may. reason: why the copy stopped."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


# --- applied, and the answer is no ----------------------------------------------------------------------------------


class Refused(RaftmetaError):
    """The operation was decided and changed nothing. revision: of the state that refused it."""

    def __init__(self, message: str, *, revision: int = 0) -> None:
        super().__init__(message)
        self.revision = revision


class KeyExists(Refused):
    """create() found the key."""


class KeyMissing(Refused):
    """update() or delete() did not find the key."""


class CompareFailed(Refused):
    """The key's revision is not the expected one."""


class Fenced(Refused):
    """The given fence is no longer held."""


class IdConflict(Refused):
    """Another member or candidate has the chosen id."""


class LeaseExpired(Refused):
    """The lease expired, was revoked or was never granted."""


class Compacted(Refused):
    """The history below `revision` is no longer kept."""


class FutureRevision(Refused):
    """This node has not reached the requested revision yet."""


class CommandRefused(Refused):
    """The command is over a limit or makes no sense for the content of the keys."""


class ZnodeRefused(Refused):
    """An operation of a request for znodes was refused, and so nothing of the request was done.

    position: of the operation in the request. code: why, as ZooKeeper's KeeperException.Code numbers it: -8
    BADARGUMENTS, -101 NONODE, -102 NOAUTH, -103 BADVERSION, -108 NOCHILDRENFOREPHEMERALS, -110 NODEEXISTS,
    -111 NOTEMPTY, -112 SESSIONEXPIRED (the lease of the request is gone), -114 INVALIDACL.
    """

    def __init__(self, message: str, *, position: int = 0, code: int = 0, revision: int = 0) -> None:
        super().__init__(message, revision=revision)
        self.position = position
        self.code = code


class GroupRefused(Refused):
    """A request for a worker group was refused and changed nothing.

    code: why, as Kafka's protocol numbers it: 22 ILLEGAL_GENERATION, 23 INCONSISTENT_GROUP_PROTOCOL, 24
    INVALID_GROUP_ID, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS, 68 NON_EMPTY_GROUP, 69 GROUP_ID_NOT_FOUND, 79
    MEMBER_ID_REQUIRED (join again with member_id), 81 GROUP_MAX_SIZE_REACHED, 82 FENCED_INSTANCE_ID.
    member_id: of code 79, else empty.
    """

    def __init__(self, message: str, *, code: int = 0, member_id: str = "", revision: int = 0) -> None:
        super().__init__(message, revision=revision)
        self.code = code
        self.member_id = member_id


class Rejected(Refused):
    """A command of a user machine says no. Raise it before any change, because earlier changes stay.

    details: any plain value (raftmeta/user_machines/values.py), for the caller.
    """

    def __init__(self, message: str = "", details: Any = None, *, revision: int = 0) -> None:
        super().__init__(message, revision=revision)
        self.details = details


class CommandFailed(Refused):
    """A command of a user machine raised an exception, on every node alike, and changed nothing. kind: its type."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ChangeRefused(Refused):
    """The membership must not change in this way: it would leave no quorum, or names no member."""


# --- fate not known -------------------------------------------------------------------------------------------------


class OutcomeUnknown(RaftmetaError):
    """The operation may or may not be applied.

    ticket: ticket.result(timeout_s) goes on with the same operation, which is applied at most once. None when there is
    nothing more to learn (the node was closed or its session ended).
    """

    def __init__(self, message: str, *, ticket: Any = None) -> None:
        super().__init__(message)
        self.ticket = ticket


class OutcomeTimeout(OutcomeUnknown, TimeoutError):
    """The time-out passed after the operation was proposed."""


class GroupTimeout(OutcomeTimeout):
    """The time-out passed while a member of a worker group waited for the end of a phase.

    The request itself was done. member_id: ask again with it to go on waiting; that is no second member.
    """

    def __init__(self, message: str, *, member_id: str) -> None:
        super().__init__(message)
        self.member_id = member_id


# --- watches --------------------------------------------------------------------------------------------------------


class Lagged(RaftmetaError):
    """A watcher was too slow for its queue. revision: where to go on; the watcher missed nothing before it."""

    def __init__(self, message: str, *, revision: int) -> None:
        super().__init__(message)
        self.revision = revision


# --- the node itself ------------------------------------------------------------------------------------------------


class Fatal(RaftmetaError):
    """The node has stopped, answers nothing more and keeps its files."""


class DiskFailed(Fatal):
    """A call of the disk failed; the message says which and why. The node never tries a write or sync again, because
    the page cache can no longer be trusted."""


class StorageCorrupt(Fatal):
    """The bytes in the folder differ from those that were written."""


class InvariantBroken(Fatal):
    """Something happened that the program believes impossible.

    belief: its name (raftmeta/common/invariants says which header explains it), or "" where none has a name.
    facts: the two numbers that contradict each other.
    """

    def __init__(self, message: str = "", *, belief: str = "", facts: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.belief = belief
        self.facts = facts


class OutOfMemory(Fatal):
    """Memory ran out in the native engine."""


class StateDiverged(Fatal):
    """The same entries led this node to another state than a majority."""


class HistoryLost(Fatal):
    """A folder is older than what its node acknowledged: this node's own folder, or that of another voter.

    The missing entries may be lost. docs/operations.md "A folder that was put back" says what to do.
    """


class ConfigError(RaftmetaError, ValueError):
    """A setting is wrong; nothing was written. field: its name."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class AddressInUse(ConfigError):
    """Another socket listens on the address. address: "host:port"; field: the setting that names it."""

    def __init__(self, message: str, *, address: str, field: str = "listen") -> None:
        super().__init__(message, field=field)
        self.address = address


class FolderInUse(ConfigError):
    """Another process runs a node in the folder. pid: of this process; 0 when the node could not read it."""

    def __init__(self, message: str, *, pid: int) -> None:
        super().__init__(message, field="data_dir")
        self.pid = pid


class ForeignFolder(ConfigError):
    """The folder belongs to another node or cluster."""


class NewerFormat(ConfigError):
    """A newer version of raftmeta wrote the folder."""


class SnapshotDamaged(ConfigError):
    """The bytes of a snapshot file differ from those that were written, or the file was never finished."""


class EncryptionKeyMissing(ConfigError):
    """A file is encrypted with a key that was not given; nothing was touched. key_id: of the key, "": not known."""

    def __init__(self, message: str, *, key_id: str = "") -> None:
        super().__init__(message, field="encryption")
        self.key_id = key_id


class InvalidArgument(RaftmetaError, ValueError):
    """An argument is wrong; nothing was sent. field: its name."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


# --- from a native status (raftmeta/status.pxd) to an error ---------------------------------------------------------

_REFUSED: dict[int, tuple[type[Refused], str]] = {
    statuses.KEY_EXISTS: (KeyExists, "the key exists"),
    statuses.KEY_MISSING: (KeyMissing, "the key does not exist"),
    statuses.COMPARE_FAILED: (CompareFailed, "the key has another revision than expected"),
    statuses.FENCED: (Fenced, "the fence is no longer held"),
    statuses.ID_CONFLICT: (IdConflict, "the id is taken"),
    statuses.LEASE_EXPIRED: (LeaseExpired, "the lease has expired or was never granted"),
    statuses.COMPACTED: (Compacted, "the history at that revision is no longer kept"),
    statuses.FUTURE_REVISION: (FutureRevision, "the revision does not exist yet"),
    statuses.TOO_MANY_CHANGES: (CommandRefused, "the command would change too many keys"),
    statuses.VALUE_TOO_LARGE: (CommandRefused, "a value is larger than the cluster allows"),
    statuses.KEY_INVALID: (CommandRefused, "a key is empty or longer than 480 bytes"),
    statuses.COMMAND_INVALID: (CommandRefused, "the command is not valid at the feature level of this cluster"),
    statuses.NUMBER_OVERFLOW: (CommandRefused, "the counter would leave the signed 64-bit range"),
    statuses.NOT_A_NUMBER: (CommandRefused, "the value is not a counter"),
    statuses.TOO_MANY_MACHINES: (CommandRefused, "the cluster has as many user machines as it may have"),
    statuses.NAME_UNKNOWN: (CommandRefused, "there is no such user or role"),
    statuses.RIGHTS_LIMIT: (CommandRefused, "there are as many users, roles or grants as there may be"),
    statuses.ZNODE_WRITE: (CommandRefused, "the key is a znode: change it by a request for znodes"),
    statuses.ZNODE_REFUSED: (ZnodeRefused, "an operation on znodes was refused"),
    statuses.GROUP_WRITE: (CommandRefused, "the key is of a worker group: change it by a request for groups"),
    statuses.RECORDS_WRITE: (CommandRefused, "the key is of a record log: only a Kafka door changes it"),
    statuses.GROUP_REFUSED: (GroupRefused, "a request for a worker group was refused"),
    statuses.NO_QUORUM: (ChangeRefused, "too few voters of the membership asked for answer"),
}

_NOT_EXECUTED: dict[int, tuple[type[NotExecuted], str]] = {
    statuses.SESSION_UNKNOWN: (NotReady, "the session of this node ended before the operation was applied"),
    statuses.NO_LEADER: (NoLeader, "no leader took the operation"),
    statuses.NOT_READY: (NotReady, "the node is not ready"),
    statuses.OVERLOADED: (Overloaded, "too many operations are under way"),
    statuses.NO_SPACE: (
        NoSpace,
        "no quorum of members has room on its disks, or the node asked cannot write the audit trail that it must",
    ),
    statuses.NODE_CLOSED: (NodeClosed, "the node is closed"),
    statuses.ALREADY: (NotReady, "the same is under way already"),
    statuses.REMOVED: (NodeRemoved, "the node was removed from the cluster: go on with one of its members"),
    statuses.STALE: (NotReady, "the membership has changed since"),
    statuses.WITHDRAWN: (Withdrawn, "timed out before it was proposed; certainly not applied"),
    statuses.PERMISSION_DENIED: (PermissionDenied, "the principal has no right to the operation"),
    statuses.AUTHENTICATION_FAILED: (
        AuthenticationFailed,
        "no user has proved a password here, or name and password do not fit",
    ),
    statuses.OUT_OF_ORDER: (NotReady, "the command before it was not applied yet"),
    statuses.QUOTA_EXCEEDED: (QuotaExceeded, "the principal uses as much of the node as it may"),
    statuses.BAD_VERSION: (Unsupported, "the node runs an older version of raftmeta, which does not know this request"),
}

_OUTCOME_UNKNOWN: dict[int, str] = {
    statuses.RESULT_EVICTED: "applied earlier, but its result is no longer kept",
    statuses.OUTCOME_UNKNOWN: "the node stopped or lost its session while the operation was under way",
}

# Refused before it had any effect: the caller named something that is not there or cannot be.
_INVALID: dict[int, str] = {
    statuses.BAD_FIELD: "the node refused an argument",
    statuses.NOT_FOUND: "what was named does not exist",
}

_FATAL: dict[int, tuple[type[Fatal], str]] = {
    statuses.CORRUPT: (StorageCorrupt, "the folder holds bytes that are not what was written"),
    statuses.NO_MEMORY: (OutOfMemory, "out of memory in the native engine"),
    statuses.DISK_FAILED: (DiskFailed, "the disk failed"),
    statuses.INVARIANT_BROKEN: (InvariantBroken, "an invariant is broken"),
    statuses.UNKNOWN_ENTRY: (Fatal, "an entry of the log is not known to this version"),
    statuses.STATE_DIVERGED: (
        StateDiverged,
        "the state of this node is not the one that a majority has after the same entries; keep a copy of its folder "
        "for inspection, then remove it: the node comes back by itself with the state of the others",
    ),
    statuses.HISTORY_LOST: (HistoryLost, "a folder of this cluster is older than what its node acknowledged"),
}


def error_from_status(status: int, *, revision: int = 0, detail: str = "") -> RaftmetaError:
    """The error that tells the fate of an operation that ended with a native status other than OK."""
    extra = f": {detail}" if detail else ""
    if status in _REFUSED:
        refused, message = _REFUSED[status]
        return refused(f"{message}{extra} (revision {revision})", revision=revision)
    if status in _NOT_EXECUTED:
        not_executed, message = _NOT_EXECUTED[status]
        return not_executed(message + extra)
    if status in _OUTCOME_UNKNOWN:
        return OutcomeUnknown(_OUTCOME_UNKNOWN[status] + extra)
    if status in _INVALID:
        return InvalidArgument(_INVALID[status] + extra)
    fatal, message = _FATAL.get(status, (Fatal, f"the native engine answered status {status}"))
    return fatal(message + extra)


_ZNODE_REFUSALS = {
    -8: "BADARGUMENTS: a path or an argument that no znode can have",
    -101: "NONODE: there is no such znode",
    -102: "NOAUTH: the list of rights does not allow it",
    -103: "BADVERSION: the znode has another version",
    -108: "NOCHILDRENFOREPHEMERALS: the parent is ephemeral",
    -110: "NODEEXISTS: the znode exists, or a plain key stands in its place",
    -111: "NOTEMPTY: the znode has children",
    -112: "SESSIONEXPIRED: the lease of the request is gone, or it has none and makes an ephemeral",
    -114: "INVALIDACL: the list of rights is empty, or has an entry that means nobody",
}


_GROUP_REFUSALS = {
    22: "ILLEGAL_GENERATION: the group is at another generation; join again",
    23: "INCONSISTENT_GROUP_PROTOCOL: no protocol, or none that all members have, or another type",
    24: "INVALID_GROUP_ID: another key stands in the place of the group",
    25: "UNKNOWN_MEMBER_ID: the group has no such member; join again without an id",
    27: "REBALANCE_IN_PROGRESS: members join for the next generation; join again",
    68: "NON_EMPTY_GROUP: the group has members",
    69: "GROUP_ID_NOT_FOUND: there is no such group",
    79: "MEMBER_ID_REQUIRED: join again with the id that was given",
    81: "GROUP_MAX_SIZE_REACHED: the group has as many members as it may",
    82: "FENCED_INSTANCE_ID: another member holds this instance",
}


def group_refused(code: int, revision: int, member_id: str = "") -> GroupRefused:
    """The error of a request for a worker group. code: Kafka's."""
    why = _GROUP_REFUSALS.get(code, f"code {code}")
    message = f"the group refused the request, and nothing changed: {why}"
    return GroupRefused(message, code=code, member_id=member_id, revision=revision)


def znode_refused(position: int, code: int, revision: int) -> ZnodeRefused:
    """The error of a request for znodes. position, code: of the operation that was refused."""
    why = _ZNODE_REFUSALS.get(code, f"code {code}")
    message = f"operation {position} of the request was refused, {why} (revision {revision})"
    return ZnodeRefused(message, position=position, code=code, revision=revision)


_RIGHTS = ("read", "write", "watch", "lease", "member", "snapshot", "admin")  # machine/rights_state Right, by bit


def permission_denied(
    principal: str, right: int, start: bytes, end: bytes | None, *, who: str = ""
) -> PermissionDenied:
    """The error of a denied operation. right: the missing bit; 0: it was not told. who: where no name is known."""
    name = _RIGHTS[right.bit_length() - 1] if right else ""
    keys = "" if not start and not end else f" of {start!r}" if end is None else f" of [{start!r}, {end!r})"
    who = principal or who or "a client that proved nothing"
    what = f"has no right to {name}{keys}" if name else "has no right to the operation"
    return PermissionDenied(f"{who} {what}", principal=principal, right=name, start=start, end=end)


def unapplied_text(entry: int) -> str:
    """Where an operator goes on with an entry that stopped a node; "" for 0."""
    if not entry:
        return ""
    return f"entry {entry} cannot be applied (docs/operations.md, 'An entry that no node can apply')"


def broken_belief(number: int, a: int, b: int, *, entry: int = 0) -> InvariantBroken:
    """The error of a node that stopped because a belief proved wrong. number: of raftmeta/common/invariants.

    entry: the one that the node was applying; 0: none.
    """
    name = invariants.NAMES.get(number, f"number {number}")
    ending = "; ".join(filter(None, (unapplied_text(entry), "the node has stopped")))
    message = f"an invariant is broken: {name}, {a} and {b} contradict each other; {ending}"
    return InvariantBroken(message, belief=name, facts=(a, b))


# wire/client_messages ClientQuota, by number - 1
_QUOTAS = (
    "requests",
    "write bytes",
    "bytes under way",
    "connections",
    "watches",
    "leases",
    "sessions",
    "results of a session",
)


def quota_exceeded(number: int, retry_after_ms: int, principal: str) -> QuotaExceeded:
    """The error of a request over a quota. retry_after_ms: 0: not by waiting alone."""
    quota = _QUOTAS[number - 1] if 0 < number <= len(_QUOTAS) else ""
    who = principal or "this client's address"
    what = f"is over its quota of {quota}" if quota else "is over a quota"
    when = f"try again in {retry_after_ms / 1000:g} s" if retry_after_ms else "give something back first"
    return QuotaExceeded(
        f"{who} {what}; {when}",
        quota=quota,
        principal=principal,
        retry_after_s=retry_after_ms / 1000 if retry_after_ms else None,
    )
