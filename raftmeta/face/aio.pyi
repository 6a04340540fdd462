"""The asyncio face of a node: the verbs of raftmeta.Node as coroutines."""

from collections.abc import Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Self

from raftmeta.bindings.revision import Revision
from raftmeta.config import Config, Identity
from raftmeta.face.kafka_door import KafkaDoor
from raftmeta.face.mailbox import MailboxFace
from raftmeta.face.node import Node as SyncNode
from raftmeta.face.user_machine_aio import AioUserMachine
from raftmeta.interfaces import FenceLike
from raftmeta.operations import Key, KeyRecord
from raftmeta.results import NodeStatus
from raftmeta.security.audit import Audit
from raftmeta.security.encryption import Encryption
from raftmeta.security.settings import Tls
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.blocking import HasId
from raftmeta.verbs.rights import AioAuth

class Node(MailboxFace, AioVerbs):
    """One member of a cluster, or with `of` the face of one that runs already; belongs to one event loop.

    As a context a node of its own is started and closed. Arguments and errors are those of raftmeta.Node; cancelling a
    call never undoes a write.
    """

    def __init__(
        self,
        name: str,
        *,
        peers: Mapping[str, str] | None = None,
        data_dir: str | PathLike[str],
        role: str = "member",
        seeds: Sequence[str] = (),
        listen: str | None = None,
        advertise: str | None = None,
        client_listen: str | None = None,
        zookeeper_listen: str | None = None,
        kafka_listen: str | None = None,
        etcd_listen: str | None = None,
        cluster: str = "default",
        config: Config | None = None,
        encryption: Encryption | None = None,
        tls: Tls | None = None,
        audit: Audit | None = None,
        kafka: KafkaDoor | None = None,
    ) -> None: ...
    @classmethod
    def of(cls, node: SyncNode) -> Self:
        """A face of a running node; closing it leaves the node."""
    async def reload_tls(self) -> None:
        """As raftmeta.Node.reload_tls."""
    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def config(self) -> Config: ...
    @property
    def auth(self) -> AioAuth:
        """As AioVerbs.auth. With an audit trail each verb has a line there."""
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
    async def rotate_encryption_key(self) -> str:
        """As raftmeta.Node.rotate_encryption_key, on a thread."""
    def encryption_keys(self) -> dict[str, int]:
        """As raftmeta.Node.encryption_keys."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    async def put(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        lease: int | HasId | None = 0,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """As AioVerbs.put, but submitted when this is called and not when it is awaited first, once the node is ready.

        So puts of one task are executed in the order of the calls. The returned object is a coroutine to asyncio,
        but of a type of its own.
        """
    async def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """As AioVerbs.get, asked when this is called."""
    async def report_dead(self, member: int, boot: int, *, timeout_s: float | None = 5.0) -> Revision:
        """As raftmeta.Node.report_dead."""

    async def replicated(self, name: str, cls: type) -> AioUserMachine:
        """Open a user machine on this node: this node's copy of an object of cls that commands change on every node.

        As Node.replicated; its commands and reads are coroutines. Raises ConfigError, InvalidArgument, NodeClosed.
        """
    async def campaign(self, *, timeout_s: float | None = 5.0) -> None:
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
