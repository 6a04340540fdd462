"""Real processes, each under a shim of its own; on a disk of its own and behind a proxy where a test asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.faults.images import Images
from jepsen.faults.shim import Page
from tests.processes.cluster import Cluster, NodeProcess
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports

# Everything small, so that segments roll and snapshots are taken within a second.
SETTINGS = {
    "segment_bytes": 256 * 1024,
    "wal_bytes_max": 16 * 1024 * 1024,
    "snapshot_log_bytes": 256 * 1024,
    "snapshot_entries": 300,
    "reserve_bytes": 256 * 1024,
}


def open_behind(name: str, peers: dict[str, str], listen: str, folder: str, settings: dict[str, Any]) -> raftmeta.Node:
    """A node that is known to others by its address in peers and listens elsewhere."""
    node = raftmeta.Node(name, peers=peers, listen=listen, data_dir=folder, config=raftmeta.Config(**settings))
    node.start()
    return node


class FaultyNode(NodeProcess):
    """A member that obeys a page of the shim, which it keeps over its lives."""

    def __init__(
        self, name: str, *, peers: Mapping[str, str], listen: str, folder: Path, logs: Path, page: Page
    ) -> None:
        self.name = name
        self.folder = folder
        self.page = page
        arguments = (name, dict(peers), listen, str(folder), SETTINGS)
        RemoteProcess.__init__(self, open_behind, *arguments, log=logs / f"{name}.log", environment=page.environment())


class FaultyCluster(Cluster):
    """images: where each member's folder is, below the mount of its disk. listen: the real addresses behind `peers`."""

    def __init__(
        self,
        folder: Path,
        *,
        names: Sequence[str] = ("a", "b", "c"),
        images: Images | None = None,
        peers: Mapping[str, str] | None = None,
        listen: Mapping[str, str] | None = None,
    ) -> None:
        free = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
        self.peers = dict(free if peers is None else peers)
        self.faulty: dict[str, FaultyNode] = {}
        for name in names:
            self.faulty[name] = FaultyNode(
                name,
                peers=self.peers,
                listen=(listen or self.peers)[name],
                folder=(folder if images is None else images.make(name).mount) / name,
                logs=folder,
                page=Page.make(folder / f"{name}.page", seed=ord(name)),
            )
        self.nodes = dict(self.faulty)

    def page(self, node: NodeProcess) -> Page:
        return self.faulty[node.name].page
