"""Nodes that serve clients, in the test's own process and in processes of their own, and clients of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.cluster import Cluster, NodeProcess
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports


@contextlib.contextmanager
def serving(folder: Path, *, names: str = "a", **settings: Any) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    """Ready nodes, one for each letter, and the URL of their clients."""
    ports = free_ports(2 * len(names))
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
    config = raftmeta.Config(**{**QUICK, **settings})
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports[len(names) :], strict=True)}
    with contextlib.ExitStack() as stack:
        nodes = {}
        for name, address in addresses.items():
            node = raftmeta.Node(name, peers=peers, data_dir=folder / name, client_listen=address, config=config)
            stack.callback(node.close, transfer=False)
            nodes[name] = node.start()
        for node in nodes.values():
            node.ready(30)
        yield nodes, "raft://" + ",".join(addresses.values())


def open_serving_node(
    name: str, peers: dict[str, str], client_listen: str, folder: str, settings: dict[str, Any]
) -> raftmeta.Node:
    config = raftmeta.Config(**settings)
    return raftmeta.Node(name, peers=peers, data_dir=folder, client_listen=client_listen, config=config).start()


class ServingNode(NodeProcess):
    """A member in a process of its own that also serves clients."""

    def __init__(
        self, name: str, *, peers: dict[str, str], client_listen: str, folder: Path, settings: dict[str, Any]
    ) -> None:
        self.name = name
        self.folder = folder / name
        RemoteProcess.__init__(
            self, open_serving_node, name, peers, client_listen, str(self.folder), settings, log=folder / f"{name}.log"
        )


class ServingCluster(Cluster):
    """Members as processes, each with an address for clients; `url` names them all."""

    def __init__(self, folder: Path, *, names: str = "abc", **settings: Any) -> None:
        super().__init__(folder, names=tuple(names))
        ports = free_ports(len(names))
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
        self.url = "raft://" + ",".join(self.addresses.values())
        self.nodes = {
            name: ServingNode(
                name, peers=self.peers, client_listen=self.addresses[name], folder=folder, settings=settings
            )
            for name in names
        }
