"""Questions of an admin to a running node, from a program."""

from __future__ import annotations

import ssl
import tempfile
import uuid
from pathlib import Path
from typing import Any

from raftmeta.compat.pysyncobj.node import Node
from raftmeta.compat.pysyncobj.secret import Papers
from raftmeta.compat.pysyncobj.wire import Wire, WireClosed

__all__ = ["TcpUtility", "Utility", "UtilityException"]


class UtilityException(Exception):
    """The node did not answer."""


class Utility:
    """password: of the cluster. timeout: in seconds, for one command."""

    def __init__(self, password: str | bytes | None = None, timeout: float = 900.0) -> None:
        self._password = password
        self._timeout_s = timeout

    def executeCommand(self, node: Node | str, command: list[Any]) -> Any:
        """Ask the node at an address; a list of words. Raises UtilityException."""
        raise NotImplementedError


class TcpUtility(Utility):
    """Asks over TCP, or TLS with a password."""

    def executeCommand(self, node: Node | str, command: list[Any]) -> Any:
        try:
            wire = Wire.connect(str(node), self._context(), self._timeout_s)
            try:
                wire.send("ask", command)
                return wire.receive()[1]
            finally:
                wire.close()
        except (OSError, ValueError, WireClosed) as error:
            raise UtilityException(str(error) or "connection lost") from error

    def _context(self) -> ssl.SSLContext | None:
        if self._password is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            identity = f"raftmeta://pysyncobj/client/{uuid.uuid4().hex}"
            return Papers(self._password, identity, Path(folder)).context(is_server=False)
