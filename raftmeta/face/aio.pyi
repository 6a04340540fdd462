"""The asyncio face of a node: the verbs of raftmeta.Node as coroutines."""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import Self

from raftmeta.bindings.revision import Revision
from raftmeta.config import Config, Identity
from raftmeta.face.lease_aio import AioLease
from raftmeta.face.mailbox import MailboxFace
from raftmeta.face.node import Node as SyncNode
from raftmeta.face.node import _HasId
from raftmeta.face.user_machine_aio import AioUserMachine
from raftmeta.face.watch_aio import AioWatch
from raftmeta.interfaces import FenceLike
from raftmeta.operations import CompareOperator, Key, KeyRecord, Operation, RangeResult
from raftmeta.results import MemberStatus, NodeStatus, TxnReply

class Node(MailboxFace):
    """One member of a cluster, or with `of` the face of one that runs already; belongs to one event loop.

    As a context a node of its own is started and closed. Arguments and errors are those of raftmeta.Node; cancelling a
    call never undoes a write.
    """

    def __init__(
        self,
        name: str,
        *,
        peers: Mapping[str, str],
        data_dir: str | PathLike[str],
        listen: str | None = None,
        advertise: str | None = None,
        client_listen: str | None = None,
        cluster: str = "default",
        config: Config | None = None,
    ) -> None: ...
    @classmethod
    def of(cls, node: SyncNode) -> Self:
        """A face of a running node; closing it leaves the node."""
    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def config(self) -> Config: ...
    async def start(self) -> Self:
        """Lock the folder, read the log, listen and connect; returns before there is a leader.

        Raises AddressInUse, FolderInUse, ForeignFolder, NewerFormat (all ConfigError) or Fatal; nothing is running
        then.
        """
    async def ready(self, timeout_s: float | None = 10.0) -> None:
        """Wait until a leader is known, all that was committed is applied here, and calls are taken.

        Raises ReadyTimeout, which names the peers without a connection.
        """
    async def close(self, *, transfer: bool = True) -> None:
        """Answer everybody who waits and end the native threads; a leader hands over first if transfer is true."""
    @property
    def is_running(self) -> bool:
        """Whether it was started, is not closed, and has not stopped for good (Fatal); one that has is still to be closed."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    async def put(
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

        Once the node is ready it is submitted when this is called, and not when it is awaited first; puts of one task are
        executed in the order of the calls. What comes back is a coroutine to asyncio, but of a type of its own.
        value: at most Config.value_bytes_max bytes; None keeps the one that is there (KeyMissing without one).
        lease: an id or a Lease to attach the key to, 0 to detach it, None to leave it.
        fence: refuse with Fenced unless it, or what is held by a lead, member or lock, is still held. previous: .result is the record before, or None.
        """
    async def put_many(
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
    async def create(
        self,
        key: Key,
        value: bytes | str,
        *,
        lease: int | _HasId = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set a key that must not exist. Raises KeyExists."""
    async def update(
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
    async def delete(
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
    async def delete_range(
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
    async def add(
        self, key: Key, number: int = 1, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> Revision:
        """Add to a signed 64-bit counter, which begins at 0; .result is the new number."""
    async def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply:
        """Do all of `then` if every compare holds, else all of `otherwise`: in one revision, or refused as a whole."""
    async def compact(self, revision: int, *, timeout_s: float | None = 5.0) -> Revision:
        """Forget the history below revision: reads and watches there are Compacted from now on."""
    async def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """The record of a key, None without one; linearizable: not older than any write answered before this call.

        revision: as of that revision (Compacted, FutureRevision). local: what this node has applied, without asking.
        """
    async def range(
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
        """The records of [start, end), or with a prefix, in order of keys and as of one revision; count is of all.

        An empty end means to the last key. limit: at most so many records, 0: all.
        """
    async def replicated(self, name: str, cls: type) -> AioUserMachine:
        """Open a user machine on this node: this node's copy of an object of cls that commands change on every node.

        As Node.replicated; its commands and reads are coroutines. Raises ConfigError, InvalidArgument, NodeClosed.
        """
    async def lease(
        self,
        ttl_s: float,
        *,
        id: int = 0,
        on_lost: Callable[[AioLease], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> AioLease:
        """Grant a lease and keep it alive natively until it is revoked or this node is closed.

        id: chosen (IdConflict), 0: drawn. on_lost: called once when it is lost.

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
        timeout_s: float | None = None,
    ) -> AioWatch:
        """Every change of one key, of [key, end), or with a prefix: once and in order, from start_revision (0: now) on.

        previous: events carry the record before. puts, deletes: which kinds. progress: now and then an empty batch.
        raise_lagged: raise Lagged when this watcher was too slow, instead of going on from where it stopped.
        reset: where history is gone, give one WatchReset with all that matches, instead of raising Compacted.
        timeout_s: an iterator ends when nothing came for so long.
        """
    async def transfer(self, to: str | None = None, *, timeout_s: float | None = 5.0) -> None:
        """Hand the leadership to a member, by default the most advanced; returns when this node does not lead."""
    async def campaign(self, *, timeout_s: float | None = 5.0) -> None:
        """Behave as if the election time-out had passed; for tests and demonstrations."""
    async def members(self, *, timeout_s: float | None = 5.0) -> tuple[MemberStatus, ...]:
        """The members as last committed, linearizable; during a change it waits for its end (else ReadyTimeout)."""
    async def add_member(self, name: str, address: str, *, voter: bool = True, timeout_s: float | None = 30.0) -> None:
        """Make the node that answers at address ("host:port") a member; on return that is committed.

        It begins as a learner. With voter the leader promotes it once it has caught up, in pairs from an odd number of
        voters on: an even number bears no more failures. Without, it stays a standby until promote. Waits for its
        process to answer, so either may come first. Any node may be asked, and asked again: this and the calls below
        state a goal, and return at once where it is reached.
        Raises ChangeRefused: decided, in plain words. Withdrawn: not changed in time, with the reason. OutcomeUnknown:
        proposed, and not seen committed.
        """
    async def remove_member(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Remove a member, answering or not; a leader hands over first. It learns of it and takes no more calls.

        Refused when its going would leave no quorum of voters that answer, and when no member has this name: the error
        names the members. So a removal that is done is refused when it is asked for again. Fates as add_member.
        """
    async def replace_member(self, old: str, name: str, address: str, *, timeout_s: float | None = 60.0) -> None:
        """Give old's place to the node at address: a standby first, and one change once it has caught up."""
    async def promote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Give a learner a vote as soon as it has caught up, also where that makes their number even."""
    async def demote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Take a member's vote: it stays as a standby. A leader hands over first."""
    def status(self) -> NodeStatus:
        """How the node saw itself at the end of a recent turn; asks nobody."""
    def metrics(self, *, restart_maxima: bool = False) -> dict[str, int]:
        """Counters and gauges by name, as docs/operations.md "Metrics" explains them; asks nobody.

        restart_maxima: after this reading the longest times (`..._max`) are measured anew.
        """
