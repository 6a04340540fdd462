"""Where nodes listen for clients, from a URL: `raft://host:port,host:port` or `raft+unix:///folder/of/the/node`.

`raft://host:port?tls_ca=FILE&tls_cert=FILE&tls_key=FILE` names the files of the setting tls as well; `tls_crl=FILE` may
stand beside them. It decides whether a URL is one. It never resolves a name or connects.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from raftmeta.config import Address, check_path
from raftmeta.errors import ConfigError
from raftmeta.security.settings import Tls

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
    _check_no_more(url, parts.path.strip("/") or parts.fragment)
    tls_of_url(url)
    addresses = [Address.parse(text, "url") for text in parts.netloc.split(",")]
    return tuple(Endpoint(address) for address in dict.fromkeys(addresses))


# The options of a URL that name files of Tls; the last one may be left out.
TLS_OPTIONS = ("tls_ca", "tls_cert", "tls_key", "tls_crl")


def tls_of_url(url: str) -> Tls | None:
    """The setting tls in a URL; None: it has none. Raises ConfigError with the field "url"."""
    query = urlsplit(url).query
    if not query:
        return None
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise ConfigError(f"url: {query!r} in {url!r} means nothing here", field="url") from None
    given = dict(pairs)
    for option in given:
        if option not in TLS_OPTIONS:
            raise ConfigError(f"url: {option!r} in {url!r} means nothing here", field="url")
    missing = [option for option in TLS_OPTIONS[:3] if not given.get(option)]
    if missing or len(given) != len(pairs):
        wrong = f"{', '.join(missing)} must be given too" if missing else "an option stands twice"
        raise ConfigError(f"url: {url!r}: {wrong}", field="url")
    return Tls(
        certificate=given["tls_cert"],
        key=given["tls_key"],
        authorities=given["tls_ca"],
        revoked=given.get("tls_crl"),
    )


def choose_tls(url: str, tls: Tls | None) -> Tls | None:
    """The setting tls of a client, from its argument or its URL. Raises ConfigError."""
    in_url = tls_of_url(url)
    if tls is None:
        return in_url
    if not isinstance(tls, Tls):
        raise ConfigError(f"tls: must be a Tls, not {type(tls).__name__}", field="tls")
    if in_url is not None:
        raise ConfigError("tls: stands in the URL and beside it", field="tls")
    if tls.accept_plain:
        raise ConfigError("tls.accept_plain: a client has TLS or none", field="tls.accept_plain")
    if url.startswith("raft+unix:"):
        raise ConfigError("tls: raft+unix:// is of this machine's processes, and has no TLS", field="tls")
    return tls


def _check_no_more(url: str, rest: str) -> None:
    if rest:
        raise ConfigError(f"url: {rest!r} in {url!r} means nothing here", field="url")
