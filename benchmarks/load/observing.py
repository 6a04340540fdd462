"""Several observers in one process, as functions that tests.processes calls there by name. Each takes them first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import raftmeta

OPEN_S = 120.0


class Observers:
    """Observers by name, each with a folder of its own. seen: of one that watches, how many changes and gaps."""

    def __init__(self, addresses: dict[str, str], seeds: list[str], folder: str) -> None:
        self.addresses, self.seeds, self.folder = addresses, seeds, Path(folder)
        self.nodes: dict[str, raftmeta.Node] = {}
        self.seen: dict[str, list[int]] = {}

    def open(self, name: str) -> None:
        self.nodes[name] = raftmeta.Node(
            name,
            role="observer",
            seeds=self.seeds,
            listen=self.addresses[name],
            data_dir=str(self.folder / name),
        ).start()


def open_observers(addresses: dict[str, str], seeds: list[str], folder: str) -> Observers:
    """All of them, started; they are ready later."""
    found = Observers(addresses, seeds, folder)
    for name in addresses:
        found.open(name)
    return found


def ready(observers: Observers) -> None:
    for node in observers.nodes.values():
        node.ready(timeout_s=OPEN_S)


def told(observers: Observers) -> dict[str, dict[str, Any]]:
    """Of each: the index that it has applied, its feeder, and how many it feeds itself."""
    found = {}
    for name, node in observers.nodes.items():
        status = node.status()
        feeds = sum(one.feeder == name for one in status.observers)
        found[name] = {"applied": status.applied, "feeder": status.feeder, "feeds": feeds}
    return found


def again(observers: Observers, name: str) -> None:
    """Close one and open it again over its folder."""
    observers.nodes.pop(name).close()
    observers.open(name)


def watch(observers: Observers, name: str) -> None:
    """Count the changes that this observer shows, and the revisions that are missing between two."""
    seen = observers.seen[name] = [0, 0, 0]  # changes, gaps, last revision

    def take(batch: Any) -> None:
        for event in batch.events:
            seen[0] += 1
            seen[1] += seen[2] != 0 and event.revision != seen[2] + 1
            seen[2] = event.revision

    observers.nodes[name].watch(prefix="", callback=take)


def seen(observers: Observers, name: str) -> list[int]:
    return observers.seen[name]
