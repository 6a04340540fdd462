"""Nodes that serve clients, in the test's own process and in processes of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.cluster import Cluster
from tests.processes.waiting import free_ports


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    names: str = "a",
    audit: raftmeta.Audit | None = None,
    audits: Mapping[str, raftmeta.Audit] | None = None,
    **settings: Any,
) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    """Ready nodes, one for each letter, and the URL of their clients. audits: by name; audit: of a single node."""
    ports = free_ports(2 * len(names))
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
    config = raftmeta.Config(**{**QUICK, **settings})
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports[len(names) :], strict=True)}
    with contextlib.ExitStack() as stack:
        nodes = {}
        for name, address in addresses.items():
            node = raftmeta.Node(
                name,
                peers=peers,
                data_dir=folder / name,
                client_listen=address,
                config=config,
                audit=(audits or {}).get(name, audit),
            )
            stack.callback(node.close, transfer=False)
            nodes[name] = node.start()
        for node in nodes.values():
            node.ready(30)
        yield nodes, "raft://" + ",".join(addresses.values())


class ServingCluster(Cluster):
    """Members as processes, each with an address for clients; `url` names them all."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, serves_clients=True, **settings)
