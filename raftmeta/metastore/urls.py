"""The connection string of a metastore: which store, which chroot, which settings.

    host:2181,host2:2181/chroot                 ZooKeeper, as Kafka's zookeeper.connect has it
    zookeeper://host:2181,host2/chroot?auth=digest:user:password

The settings of connect() may stand in it as options, as session_timeout_s=6. An argument of connect() goes before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raftmeta.backends.url import BackendUrl
from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.metastore.awaited import Settings
from raftmeta.metastore.paths import is_path

__all__ = ["MetastoreUrl"]

_NUMBERS: dict[str, type[int] | type[float]] = {
    "session_timeout_s": float,
    "connection_timeout_s": float,
    "max_in_flight_requests": int,
    "request_timeout_s": float,
}


@dataclass(frozen=True, slots=True)
class MetastoreUrl:
    """A parsed connection string. place: "host:port,host:port". auth: pairs of scheme and credential."""

    scheme: str
    place: str
    chroot: str
    auth: tuple[tuple[str, str], ...]
    settings: Settings

    @classmethod
    def parse(cls, text: str, given: dict[str, Any]) -> MetastoreUrl:
        """given: arguments of connect() that are settings; None: not given. Raises ConfigError."""
        if isinstance(text, str) and "://" not in text:
            text = f"zookeeper://{text}"
        url = BackendUrl.parse(text)
        if url.scheme != "zookeeper":
            raise ConfigError(f"url: no metastore serves {url.scheme}://, only zookeeper://", field="url")
        url.only({"auth", *_NUMBERS})
        place = ",".join(url.addresses)
        if not place:
            raise ConfigError("url: names no server: host:port,host:port/chroot", field="url")
        return cls(url.scheme, place, _chroot(url.path), _auth(url.options.get("auth", "")), _settings(url, given))


def _settings(url: BackendUrl, given: dict[str, Any]) -> Settings:
    values = {name: value for name, value in given.items() if value is not None}
    for name, kind in _NUMBERS.items():
        if name in url.options and name not in values:
            values[name] = url.option(name, kind, kind(0))
    try:
        return Settings(**values)
    except InvalidArgument as error:
        raise ConfigError(f"url: {error}", field=error.field) from None


def _auth(text: str) -> tuple[tuple[str, str], ...]:
    """ "digest:user:password" as a pair; empty for none."""
    if not text:
        return ()
    scheme, separator, credential = text.partition(":")
    if not scheme or not separator:
        raise ConfigError("url: auth: must be scheme:credential, as digest:user:password", field="auth")
    return ((scheme, credential),)


def _chroot(path: str) -> str:
    path = path.rstrip("/")
    if path and not is_path(path):
        raise ConfigError(f"url: {path!r} is no chroot", field="url")
    return path
