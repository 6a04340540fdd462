"""The sockets on which a node listens."""

from __future__ import annotations

import socket

from raftmeta.config import Address

SOCKET_NAME: str

def listen_at(address: Address, field: str, backlog: int) -> socket.socket:
    """A listening socket at address, which does not block. Raises AddressInUse or ConfigError, which name field."""
