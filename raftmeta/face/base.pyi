"""What the blocking and the asyncio face of a node share."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from raftmeta.config import Config, Identity
from raftmeta.face.user_machine import LocalCopy
from raftmeta.security.settings import Tls

class NodeBase:
    """A node of this process: a handle over two native threads and their memory. Use raftmeta.Node."""

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
        tls: Tls | None = None,
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
    def user_machines(self) -> dict[str, LocalCopy]: ...

class PendingResult:
    """An operation whose caller ran out of time: OutcomeUnknown.ticket."""

    @property
    def is_done(self) -> bool: ...
    def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation and return what its call would have returned.

        Raises OutcomeTimeout, with a ticket again: still not known. The operation is applied at most once.
        """
