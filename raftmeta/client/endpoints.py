"""Where nodes listen for clients, from a URL: `raft://host:port,host:port` or `raft+unix:///folder/of/the/node`.

It decides whether a URL is one. It never resolves a name or connects.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from raftmeta.config import Address, check_path
from raftmeta.errors import ConfigError

SOCKET_NAME = "clients.sock"  # in the node's folder; docs/formats.md "Client protocol"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place to connect to: a TCP address, or the path of a Unix socket."""

    address: Address | None
    path: str = ""

    def __str__(self) -> str:
        return str(self.address) if self.address is not None else self.path


def parse_url(url: str) -> tuple[Endpoint, ...]:
    """The endpoints of a URL, in its order. Raises ConfigError with the field "url"."""
    if not isinstance(url, str):
        raise ConfigError(f'url: must be "raft://host:port,..." or "raft+unix:///folder", not {url!r}', field="url")
    parts = urlsplit(url)
    if parts.scheme == "raft+unix" and not parts.netloc and parts.path.startswith("/"):
        _check_no_more(url, parts.query or parts.fragment)
        folder = check_path(unquote(parts.path), "url")
        return (Endpoint(None, os.path.join(folder, SOCKET_NAME)),)
    if parts.scheme != "raft" or not parts.netloc:
        raise ConfigError(f'url: must be "raft://host:port,..." or "raft+unix:///folder", not {url!r}', field="url")
    _check_no_more(url, parts.path.strip("/") or parts.query or parts.fragment)
    addresses = [Address.parse(text, "url") for text in parts.netloc.split(",")]
    return tuple(Endpoint(address) for address in dict.fromkeys(addresses))


def _check_no_more(url: str, rest: str) -> None:
    if rest:
        raise ConfigError(f"url: {rest!r} in {url!r} means nothing here", field="url")
