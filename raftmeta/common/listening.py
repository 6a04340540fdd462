"""A socket that listens at a host and a port, for the HTTP servers of the package."""

from __future__ import annotations

import errno
import socket

from raftmeta.config import Address
from raftmeta.errors import AddressInUse, ConfigError

__all__ = ["check_reach", "listening"]

BACKLOG = 1024


def listening(where: Address, field: str) -> socket.socket:
    """A listening socket. Raises AddressInUse, or ConfigError, with this field."""
    try:
        family = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((where.host, where.port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(f"{field}: another socket listens on {where}", address=str(where), field=field) from None
        raise ConfigError(f"{field}: {where}: {error.strerror}", field=field) from None


def check_reach(where: Address, field: str, *, has_certificate: bool, insecure: bool) -> None:
    """Raise ConfigError for an address that other machines reach, unless it has a certificate or is allowed."""
    if not where.is_loopback and not has_certificate and not insecure:
        raise ConfigError(
            f"{field}: {where} is reachable from other machines, and passwords would go there in the clear; "
            "give certificate and key, or set insecure=True",
            field=field,
        )
