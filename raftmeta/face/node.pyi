"""Node: raftmeta in a process, for callers that may block."""

from logging import Logger
from threading import Thread
from types import TracebackType
from typing import Self

from raftmeta.bindings.revision import Revision
from raftmeta.face.aio import Node as AioNode
from raftmeta.face.base import NodeBase
from raftmeta.face.user_machine import UserMachine
from raftmeta.face.view import EventReader
from raftmeta.interfaces import FenceLike
from raftmeta.operations import Key, KeyRecord
from raftmeta.results import NodeStatus
from raftmeta.verbs.blocking import HasId, Verbs
from raftmeta.verbs.rights import BlockingAuth

class Node(NodeBase, Verbs):
    """One member of a cluster, inside this process. As a context it is started and closed.

    name: this member; peers: every initial member's name and "host:port", this one included.
    role: "member", or "observer" for a node without a place in the membership (docs/observers.md). An observer has seeds,
    each "name=host:port" of a member or of another observer, and listen in the place of peers.
    data_dir: a folder of its own; listen: where to accept peers, by default its own address in peers.
    tls: raftmeta.Tls, for peers and clients; None: plain, on loopback only unless Config.insecure.
    advertise: what peers are told to connect to; client_listen: "host:port" for clients (raftmeta.Client), which
    Config.local_clients also lets in through the folder; zookeeper_listen: "host:port" for ZooKeeper's clients
    (docs/zookeeper.md); kafka_listen: "host:port" for Kafka's clients (docs/kafka.md); kafka: raftmeta.KafkaDoor, if this
    program keeps the records of topics; etcd_listen: "host:port" for etcd's clients (docs/etcd.md); cluster: a name that
    must be alike on all members.
    encryption: raftmeta.Encryption, the keys of the files in the folder; None: they are plain.
    audit: raftmeta.Audit, where to record who asks for what (docs/security.md "Audit"); None: nowhere.
    Every call raises NodeClosed or ForkedProcess where the node does not run, and Fatal when it had to stop.
    Calls take timeout_s, the seconds to wait (None: for ever), and tell the fate of the operation by their error:
    Withdrawn and other NotExecuted: certainly not applied. OutcomeTimeout: unknown; its ticket goes on.
    """

    @property
    def auth(self) -> BlockingAuth:
        """As Verbs.auth. With an audit trail each verb has a line there."""
    def start(self) -> Self:
        """Lock the folder, read the log, listen and connect; returns before there is a leader.

        Raises AddressInUse, FolderInUse, ForeignFolder, NewerFormat, EncryptionKeyMissing (all ConfigError) or Fatal;
        nothing is running then.
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
        lease: int | HasId | None = 0,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """As Verbs.put."""
    def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """As Verbs.get."""
    def report_dead(self, member: int, boot: int, *, timeout_s: float | None = 5.0) -> Revision:
        """End the sessions and leases of a node's process at once, on the word of who started it, say a service manager.

        member, boot: `id` and `boot` of that node's status(); earlier boots of its folder end with it. The caller must
        be certain that the process is gone: one that lives loses all that it holds, and is told. docs/leases.md.
        On return all of them have ended, and this node shows it.
        Raises NotReady while a member runs a version before feature level 7; NotExecuted; OutcomeUnknown: some or all
        may have ended, and a repeated call ends the others.
        """

    def replicated(self, name: str, cls: type) -> UserMachine:
        """Open a user machine on this node: this node's copy of an object of cls that commands change on every node.

        name: 1 to 64 bytes; the first command of a name makes the machine. The copy catches up on a thread of its own,
        until the node is closed. Calling it again gives the same copy. docs/replicated.md has the contracts.
        Raises ConfigError: cls is not @raftmeta.replicated, or name is open with another class; InvalidArgument;
        NodeClosed.
        """
    def campaign(self, *, timeout_s: float | None = 5.0) -> None:
        """Behave as if the election time-out had passed; for tests and demonstrations."""
    def status(self) -> NodeStatus:
        """How the node saw itself at the end of a recent turn; asks nobody."""
    def metrics(self, *, restart_maxima: bool = False) -> dict[str, int]:
        """Counters and gauges by name, as docs/operations.md "Metrics" explains them; asks nobody.

        restart_maxima: after this reading the longest times (`..._max`) are measured anew.
        """
    def flight_recorder(self) -> bytes:
        """The content of the node's flight recorder, as its file `flight.ring` has it; asks nobody.

        `raftmeta.explain.explain` takes it, and so does a file with it. Empty: Config.flight_recorder_bytes is 0.
        """
    def reload_tls(self) -> None:
        """Read certificates, key, authorities and lists of revoked ones anew; a running node does so when they change.

        New connections use them, open ones stay. Those whose certificate is revoked by now are closed.
        Raises ConfigError, which names the setting: nothing has changed then.
        """
    def events(self, *, timeout_s: float | None = None) -> EventReader:
        """The node's decisions and observations, from the oldest event kept; see EventReader."""
    def log_events(self, logger: Logger | None = None) -> Thread:
        """Write every event as one line to a logger, by default "raftmeta", on a thread that ends with the node."""
