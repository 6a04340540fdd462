"""Node: raftmeta in a process, for callers that may block."""

from collections.abc import Callable, Iterable, Mapping
from logging import Logger
from threading import Thread
from types import TracebackType
from typing import Protocol, Self

from raftmeta.bindings.revision import Revision
from raftmeta.face.aio import Node as AioNode
from raftmeta.face.base import NodeBase
from raftmeta.face.lease import Lease
from raftmeta.face.user_machine import UserMachine
from raftmeta.face.view import EventReader
from raftmeta.face.watch import Watch
from raftmeta.interfaces import FenceLike
from raftmeta.operations import CompareOperator, Key, KeyRecord, Operation, RangeResult
from raftmeta.results import MemberStatus, NodeStatus, TxnReply, WatchBatch, WatchReset

class _HasId(Protocol):
    """A lease of either face."""

    @property
    def id(self) -> int: ...

class Node(NodeBase):
    """One member of a cluster, inside this process. As a context it is started and closed.

    name: this member; peers: every initial member's name and "host:port", this one included.
    data_dir: a folder of its own; listen: where to accept peers, by default its own address in peers.
    advertise: what peers are told to connect to; client_listen: "host:port" for clients (raftmeta.Client), which
    Config.local_clients also lets in through the folder; cluster: a name that must be alike on all members.
    Every call raises NodeClosed or ForkedProcess where the node does not run, and Fatal when it had to stop.
    Calls take timeout_s, the seconds to wait (None: for ever), and tell the fate of the operation by their error:
    Withdrawn and other NotExecuted: certainly not applied. OutcomeTimeout: unknown; its ticket goes on.
    """

    def start(self) -> Self:
        """Lock the folder, read the log, listen and connect; returns before there is a leader.

        Raises AddressInUse, FolderInUse, ForeignFolder, NewerFormat (all ConfigError) or Fatal; nothing is running
        then.
        """
    def ready(self, timeout_s: float | None = 10.0) -> None:
        """Wait until a leader is known, all that was committed is applied here, and calls are taken.

        Raises ReadyTimeout, which names the peers without a connection.
        """
    def close(self, *, transfer: bool = True) -> None:
        """Answer everybody who waits and end the native threads; a leader hands over first if transfer is true.

        It ends within Config.close_timeout_s. Any thread may close, several at once, and a signal handler in the middle
        of any call: who comes second waits for the first. A node that is closed while it starts gives up: start()
        raises NodeClosed.
        """
    @property
    def is_running(self) -> bool:
        """Whether it was started, is not closed, and has not stopped for good (Fatal); one that has is still to be closed."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    def aio(self) -> AioNode:
        """The asyncio face of this running node, for the event loop of its first call; closing it leaves the node."""
    def put(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        lease: int | _HasId | None = 0,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set key to value, new or not, and return the revision.

        value: at most Config.value_bytes_max bytes; None keeps the one that is there (KeyMissing without one).
        lease: an id or a Lease to attach the key to, 0 to detach it, None to leave it.
        fence: refuse with Fenced unless it, or what is held by a lead, member or lock, is still held. previous: .result is the record before, or None.
        """
    def put_many(
        self,
        items: Mapping[Key, bytes | str] | Iterable[tuple[Key, bytes | str]],
        *,
        lease: int | _HasId = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 30.0,
    ) -> Revision | None:
        """Set all these keys, and return the revision of the last ones; None without an item.

        items: a mapping, or pairs of a key and its value, in the order in which they are set. They go in groups of up
        to 4,096 items or 1 MiB: a group is one revision, all of it or nothing, and the next begins when it is answered.
        lease, fence: as in put, for each group. timeout_s: for the whole. A wrong item is found before anything is set
        (InvalidArgument). What fails later has .items_done: so many of the first items are certainly set, the error is
        about the group behind them, and nothing after that was begun. To call again with the rest, or all, is safe.
        """
    def create(
        self,
        key: Key,
        value: bytes | str,
        *,
        lease: int | _HasId = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set a key that must not exist. Raises KeyExists."""
    def update(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        expected_revision: int = 0,
        lease: int | _HasId | None = 0,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set a key that must exist (KeyMissing), and have this mod revision if one is given (CompareFailed)."""
    def delete(
        self,
        key: Key,
        *,
        expected_revision: int = 0,
        must_exist: bool = False,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Remove a key; with must_exist only one that is there (KeyMissing). Never Overloaded, nor NoSpace."""
    def delete_range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Remove every key of [start, end), or with a prefix; .result is how many, or with previous the records.

        At most 10,000 keys in one call: more is refused (CommandRefused), and nothing is removed.
        """
    def add(
        self, key: Key, number: int = 1, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> Revision:
        """Add to a signed 64-bit counter, which begins at 0; .result is the new number."""
    def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply:
        """Do all of `then` if every compare holds, else all of `otherwise`: in one revision, or refused as a whole."""
    def compact(self, revision: int, *, timeout_s: float | None = 5.0) -> Revision:
        """Forget the history below revision: reads and watches there are Compacted from now on."""
    def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """The record of a key, None without one; linearizable: not older than any write answered before this call.

        revision: as of that revision (Compacted, FutureRevision). local: what this node has applied, without asking.
        """
    def range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count: bool = False,
        count_only: bool = False,
        local: bool = False,
        timeout_s: float | None = 5.0,
    ) -> RangeResult:
        """The records of [start, end), or with a prefix, in order of keys and as of one revision.

        An empty end means to the last key. limit: at most so many records, 0: all; `more` says that there are others,
        and the next page starts at the last key + b"\\0". count: also count the whole range, whose keys are then all
        looked at. count_only: nothing but that. keys_only: without the values.
        """
    def replicated(self, name: str, cls: type) -> UserMachine:
        """Open a user machine on this node: this node's copy of an object of cls that commands change on every node.

        name: 1 to 64 bytes; the first command of a name makes the machine. The copy catches up on a thread of its own,
        until the node is closed. Calling it again gives the same copy. docs/replicated.md has the contracts.
        Raises ConfigError: cls is not @raftmeta.replicated, or name is open with another class; InvalidArgument;
        NodeClosed.
        """
    def lease(
        self,
        ttl_s: float,
        *,
        id: int = 0,
        on_lost: Callable[[Lease], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> Lease:
        """Grant a lease and keep it alive natively until it is revoked or this node is closed.

        id: chosen (IdConflict), 0: drawn. on_lost: called once when it is lost, on a thread that all leases share.

        Hold the object: one that is collected and not revoked is kept alive no longer (the log says so), and its keys
        go when its time to live has passed. on_lost holds it, too.
        """
    def watch(
        self,
        key: Key | None = None,
        end: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int = 0,
        previous: bool = False,
        puts: bool = True,
        deletes: bool = True,
        progress: bool = False,
        raise_lagged: bool = False,
        reset: bool = False,
        callback: Callable[[WatchBatch | WatchReset], object] | None = None,
        on_end: Callable[[BaseException | None], object] | None = None,
        timeout_s: float | None = None,
    ) -> Watch:
        """Every change of one key, of [key, end), or with a prefix: once and in order, from start_revision (0: now) on.

        previous: events carry the record before. puts, deletes: which kinds. progress: now and then an empty batch.
        raise_lagged: raise Lagged when this watcher was too slow, instead of going on from where it stopped.
        reset: where history is gone, give one WatchReset with all that matches, instead of raising Compacted.
        timeout_s: an iterator ends when nothing came for so long.
        callback: called on threads of this node that all callbacks share, one after the other; when one does not come
        back within some 10 ms another thread goes on with those of others. One that raises is reported by
        threading.excepthook, and its watch is closed.
        on_end: called once when no further call of callback comes, unless close() was called: with the error that ended
        the watch, which is then not reported, or None. Nothing is called any more once the node is closed.
        """
    def transfer(self, to: str | None = None, *, timeout_s: float | None = 5.0) -> None:
        """Hand the leadership to a member, by default the most advanced; returns when this node does not lead."""
    def campaign(self, *, timeout_s: float | None = 5.0) -> None:
        """Behave as if the election time-out had passed; for tests and demonstrations."""
    def members(self, *, timeout_s: float | None = 5.0) -> tuple[MemberStatus, ...]:
        """The members as last committed, linearizable; during a change it waits for its end (else ReadyTimeout)."""
    def add_member(self, name: str, address: str, *, voter: bool = True, timeout_s: float | None = 30.0) -> None:
        """Make the node that answers at address ("host:port") a member; on return that is committed.

        It begins as a learner. With voter the leader promotes it once it has caught up, in pairs from an odd number of
        voters on: an even number bears no more failures. Without, it stays a standby until promote. Waits for its
        process to answer, so either may come first. Any node may be asked, and asked again: this and the calls below
        state a goal, and return at once where it is reached.
        Raises ChangeRefused: decided, in plain words. Withdrawn: not changed in time, with the reason. OutcomeUnknown:
        proposed, and not seen committed.
        """
    def remove_member(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Remove a member, answering or not; a leader hands over first. It learns of it and takes no more calls.

        Refused when its going would leave no quorum of voters that answer, and when no member has this name: the error
        names the members. So a removal that is done is refused when it is asked for again. Fates as add_member.
        """
    def replace_member(self, old: str, name: str, address: str, *, timeout_s: float | None = 60.0) -> None:
        """Give old's place to the node at address: a standby first, and one change once it has caught up."""
    def promote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Give a learner a vote as soon as it has caught up, also where that makes their number even."""
    def demote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Take a member's vote: it stays as a standby. A leader hands over first."""
    def status(self) -> NodeStatus:
        """How the node saw itself at the end of a recent turn; asks nobody."""
    def metrics(self, *, restart_maxima: bool = False) -> dict[str, int]:
        """Counters and gauges by name, as docs/operations.md "Metrics" explains them; asks nobody.

        restart_maxima: after this reading the longest times (`..._max`) are measured anew.
        """
    def events(self, *, timeout_s: float | None = None) -> EventReader:
        """What the node decided and noticed, from the oldest event kept; see EventReader."""
    def log_events(self, logger: Logger | None = None) -> Thread:
        """Write every event as one line to a logger, by default "raftmeta", on a thread that ends with the node."""
