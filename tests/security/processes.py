"""Nodes with TLS in processes of their own, with room for many connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import raftmeta
from raftmeta.bindings.requests import hello_frame
from tests.client.crowd import raise_descriptor_limit
from tests.processes.cluster import Cluster
from tests.processes.remote import RemoteProcess
from tests.security.certificates import Authority, Held


def client_hello() -> bytes:
    """The first frame of a client."""
    return hello_frame("default", "slow")


def open_secure_node(
    name: str,
    peers: dict[str, str],
    folder: str,
    settings: dict[str, Any],
    client_listen: str,
    papers: dict[str, str],
) -> raftmeta.Node:
    """papers: certificate, key and authorities, as paths; without any the node speaks no TLS."""
    raise_descriptor_limit()
    node = raftmeta.Node(
        name,
        peers=peers,
        data_dir=folder,
        client_listen=client_listen,
        config=raftmeta.Config(**settings),
        tls=raftmeta.Tls(**papers) if papers else None,
    )
    return node.start()


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def records(node: raftmeta.Node) -> list[tuple[str, str, int, int, int]]:
    """All keys, as this node has applied them: key, value, revisions, version."""
    found = node.range(local=True).records
    return [(one.key.hex(), one.value.hex(), one.create_revision, one.mod_revision, one.version) for one in found]


def guard(node: raftmeta.Node, users: dict[str, list[str]]) -> None:
    """Turn rights on. users: of each its password, and the prefix of the keys with which it may do everything."""
    for name, (password, prefix) in users.items():
        node.auth.put_role(name)
        node.auth.grant(name, "read", "write", "watch", "lease", prefix=prefix)
        node.auth.put_user(name, password)
        node.auth.bind(name, name)
    node.auth.enable()


class SecureCluster(Cluster):
    """As Cluster, with TLS on both ports of each member; `authority` signed for them. is_plain: without TLS."""

    def __init__(self, folder: Path, *, names: str = "abc", is_plain: bool = False, **settings: Any) -> None:
        super().__init__(folder, names=names, serves_clients=True)
        self.authority = Authority(folder / "authority")
        for name, node in self.nodes.items():
            papers = {} if is_plain else self.papers(self.authority.node(name))
            listen = self.clients[name]
            arguments = (name, self.peers, str(folder / name), settings, listen, papers)
            RemoteProcess.__init__(node, open_secure_node, *arguments, log=folder / f"{name}.log")

    def papers(self, held: Held) -> dict[str, str]:
        """The files of one who holds this certificate, as arguments of raftmeta.Tls."""
        files = {"certificate": held.certificate, "key": held.key, "authorities": self.authority.path}
        return {name: str(path) for name, path in files.items()}

    def tls(self, principal: str = "app") -> raftmeta.Tls:
        """For a client of this principal."""
        return raftmeta.Tls(**self.papers(self.authority.client(principal)))

    def told(self, name: str, what: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the node's process returns."""
        return self.nodes[name].call(what, *arguments)


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own; pages of files are the system's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
