"""Real processes, each under a shim of its own; on a disk of its own and behind a proxy where a test asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jepsen.faults.images import Images
from jepsen.faults.shim import Page
from tests.processes.cluster import Cluster, NodeProcess
from tests.processes.waiting import free_addresses

# Everything small, so that segments roll and snapshots are taken within a second.
SETTINGS = {
    "segment_bytes": 256 * 1024,
    "wal_bytes_max": 16 * 1024 * 1024,
    "snapshot_log_bytes": 256 * 1024,
    "snapshot_entries": 300,
    "reserve_bytes": 256 * 1024,
}


class FaultyNode(NodeProcess):
    """A member that obeys a page of the shim, which it keeps over its lives."""

    def __init__(self, name: str, page: Page, **options: Any) -> None:
        self.page = page
        super().__init__(name, settings=SETTINGS, environment=page.environment(), **options)


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
        free = dict(zip(names, free_addresses(len(names)), strict=True))
        self.peers = dict(free if peers is None else peers)
        self.faulty: dict[str, FaultyNode] = {}
        for name in names:
            self.faulty[name] = FaultyNode(
                name,
                Page.make(folder / f"{name}.page", seed=ord(name)),
                peers=self.peers,
                listen=(listen or self.peers)[name],
                folder=folder if images is None else images.make(name).mount,
                logs=folder,
            )
        self.nodes = dict(self.faulty)

    def page(self, node: NodeProcess) -> Page:
        return self.faulty[node.name].page
