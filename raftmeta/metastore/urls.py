"""The connection string of a metastore: which store, which chroot, which settings.

    host:2181,host2:2181/chroot                 ZooKeeper, as Kafka's zookeeper.connect has it
    zookeeper://host:2181,host2/chroot?auth=digest:user:password
    raft://host:7700,host2:7700/chroot          clients of a cluster of raftmeta; its options are those of backends/raft
    raft+unix:///folder?chroot=/chroot          the same, of a node of this machine
    embedded:///folder?name=a&peers=...&chroot=/chroot      a node in this process; its options as in backends/embedded

On raftmeta the option root names the tree, as Config.zookeeper_root does. The settings of connect() may stand in it as
options, as session_timeout_s=6. An argument of connect() goes before them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from raftmeta.backends.url import BackendUrl
from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.metastore.awaited import Settings
from raftmeta.metastore.paths import is_path
from raftmeta.verbs.znodes import ZNODE_ROOT

__all__ = ["MetastoreUrl"]

ROOT_BYTES_MAX = 64  # wire/znodes ZNODE_ROOT_BYTES_MAX
_ON_RAFTMETA = ("raft", "raft+unix", "embedded")
_NUMBERS: dict[str, type[int] | type[float]] = {
    "session_timeout_s": float,
    "connection_timeout_s": float,
    "max_in_flight_requests": int,
    "request_timeout_s": float,
}


@dataclass(frozen=True, slots=True)
class MetastoreUrl:
    """A parsed connection string. place: "host:port,host:port". auth: pairs of scheme and credential.

    root, store: on raftmeta, the root of the tree, and the arguments of the client or of the node.
    """

    scheme: str
    place: str
    chroot: str
    auth: tuple[tuple[str, str], ...]
    settings: Settings
    root: str = ""
    store: Any = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, given: dict[str, Any]) -> MetastoreUrl:
        """given: arguments of connect() that are settings; None: not given. Raises ConfigError."""
        if isinstance(text, str) and "://" not in text:
            text = f"zookeeper://{text}"
        url = BackendUrl.parse(text)
        if url.scheme in _ON_RAFTMETA:
            return cls._on_raftmeta(url, given)
        if url.scheme != "zookeeper":
            known = ", ".join(f"{scheme}://" for scheme in ("zookeeper", *_ON_RAFTMETA))
            raise ConfigError(f"url: no metastore serves {url.scheme}://, only {known}", field="url")
        url.only({"auth", *_NUMBERS})
        place = ",".join(url.addresses)
        if not place:
            raise ConfigError("url: names no server: host:port,host:port/chroot", field="url")
        return cls(url.scheme, place, _chroot(url.path), _auth(url.options.get("auth", "")), _settings(url, given))

    @classmethod
    def _on_raftmeta(cls, url: BackendUrl, given: dict[str, Any]) -> MetastoreUrl:
        """The options of a metastore, and the arguments of the store from all others."""
        from raftmeta.backends import embedded, raft  # load the engine

        has_folder = url.scheme != "raft"
        own = {"auth", "root", *_NUMBERS, *(["chroot"] if has_folder else [])}
        rest = {name: text for name, text in url.options.items() if name not in own}
        if "prefix" in rest:
            raise ConfigError("url: prefix: a metastore has a root and a chroot in its place", field="prefix")
        store = replace(url, path=url.path if has_folder else "", options=rest)
        arguments: Any = embedded.arguments(store) if url.scheme == "embedded" else raft.arguments(store)
        chroot = _chroot(url.options.get("chroot", "") if has_folder else url.path)
        place = url.path if has_folder else ",".join(url.addresses)
        root = url.options.get("root", ZNODE_ROOT)
        if not 0 < len(root.encode()) <= ROOT_BYTES_MAX or "/" in root or "\0" in root:
            raise ConfigError(f"url: root: must be 1 to {ROOT_BYTES_MAX} bytes without a slash", field="root")
        auth = _auth(url.options.get("auth", ""))
        return cls(url.scheme, place, chroot, auth, _settings(url, given), root, arguments)


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
