"""The base of the blocking and of the asyncio face of a node."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from raftmeta.config import Config, Identity
from raftmeta.face.kafka_door import KafkaDoor
from raftmeta.face.user_machine import LocalCopy
from raftmeta.security.audit import Audit
from raftmeta.security.audit_writer import AuditWriter
from raftmeta.security.encryption import Encryption
from raftmeta.security.settings import Tls

class NodeBase:
    """A node of this process: a handle over two native threads and their memory. Use raftmeta.Node."""

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
    def __del__(self) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def config(self) -> Config: ...
    @property
    def tls(self) -> Tls | None: ...
    @property
    def audit(self) -> Audit | None: ...
    @property
    def kafka_host(self) -> KafkaDoor | None: ...
    @property
    def trail(self) -> AuditWriter | None:
        """The writer of the audit trail of this run; None: no trail is kept."""
    @property
    def user_machines(self) -> dict[str, LocalCopy]: ...
    def rotate_encryption_key(self) -> str:
        """Read the key file again, or ask the callable for the current key; return its id, "plain" for none.

        The next write of the log begins a file with this key, and so do the next checkpoint and the next snapshot. Older
        files stay as they are until they go; encryption_keys() tells when a key is not needed any more. Other members
        must have the key before one of them uses it (docs/operations.md "Change the key").
        Raises ConfigError: the keys cannot be had; the node goes on with the key it had. Raises InvalidArgument: the
        node was started without encryption. Raises what the callable raises.
        """
    def encryption_keys(self) -> dict[str, int]:
        """How many files and parts of the checkpoint each key is needed for, by its id; "plain": of those without.

        It reads the first bytes of each file in the folder.
        """

class PendingResult:
    """An operation whose caller ran out of time: OutcomeUnknown.ticket."""

    @property
    def is_done(self) -> bool: ...
    def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation and return what its call would have returned.

        Raises OutcomeTimeout, with a ticket again: still not known. The operation is applied at most once.
        """
