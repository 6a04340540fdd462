"""What several nemeses of a run share: a shim for every broker, a disk for every broker, proxies before them.

Each is made by the first nemesis that asks for it (Brokers.resource), before any broker starts, and hooks itself into
the brokers' environment, folder or routes. Without such a nemesis a run has none of them.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from jepsen.db import Brokers
from jepsen.faults.images import MIB, Disk, Images
from jepsen.faults.proxy import NO_FAULT, Direction, FrameFault, Proxy
from jepsen.faults.shim import Page
from jepsen.faults.unsynced import Unsynced
from tests.processes.waiting import free_ports

DISK_BYTES = 256 * MIB
STASH = "unsynced"  # on each disk, beside the data of its broker
PROXY_PORT = 7001  # in a namespace, where nothing else listens


class Shims(contextlib.AbstractContextManager["Shims"]):
    """pages: of each broker, by its name. unsynced: what its disk may lose, for those that have a disk of their own."""

    def __init__(self, cluster: Brokers) -> None:
        self.pages: dict[str, Page] = {}
        self.unsynced: dict[str, Unsynced] = {}
        self._cluster = cluster
        self._folder = Path(tempfile.gettempdir()) / f"{cluster.id}-shims"

    def __enter__(self) -> Self:
        self._cluster.keeper.announce("folder", self._folder)
        self._folder.mkdir()
        for number, (name, node) in enumerate(self._cluster.nodes.items()):
            self.pages[name] = Page.make(self._folder / f"{name}.page", seed=number)
            node.environment.update(self.pages[name].environment())
        return self

    def keep_unsynced(self, disks: Mapping[str, Disk]) -> None:
        """From the next start of each broker on, journal what it does not sync on its disk."""
        for name, disk in disks.items():
            journal = self._folder / f"{name}.journal"
            self.unsynced[name] = Unsynced(journal, root=disk.mount, stash=disk.mount / STASH)
            self.pages[name].keep_unsynced(journal, disk.mount, disk.mount / STASH)

    def __exit__(self, *_error: object) -> None:
        """The keeper takes the pages away; what obeys them has ended by then."""


class Disks(contextlib.AbstractContextManager["Disks"]):
    """disks: of each broker, by its name. Its data is in a folder on the disk, so that a wipe spares the ballast."""

    def __init__(self, cluster: Brokers) -> None:
        self.disks: dict[str, Disk] = {}
        self._cluster = cluster
        self._images = Images(Path(tempfile.gettempdir()) / f"{cluster.id}-disks", size_bytes=DISK_BYTES)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            images = stack.enter_context(self._images)
            for name, node in self._cluster.nodes.items():
                self.disks[name] = images.make(name)
                node.folder = self.disks[name].mount / "data"
            stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._images.__exit__(*error)


class Proxies(contextlib.AbstractContextManager["Proxies"]):
    """A proxy before every broker: in its namespace, or one process for all on loopback."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._stack = contextlib.ExitStack()
        self._proxies: list[Proxy] = []
        self._lock = threading.Lock()
        self._of: dict[object, Mapping[Direction, FrameFault]] = {}

    def __enter__(self) -> Self:
        hosts = {self._cluster.network.address(name).rpartition(":")[0]: name for name in self._cluster.nodes}
        sources = hosts if len(hosts) == len(self._cluster.nodes) else {}  # on loopback all have one
        groups: dict[tuple[str, ...], dict[str, tuple[str, str]]] = {}
        names = list(self._cluster.nodes)
        for name in names:
            behind = self._cluster.network.address(name)
            launcher = tuple(self._cluster.network.launcher(name))
            address = f"{behind.rpartition(':')[0]}:{PROXY_PORT if launcher else free_ports(1)[0]}"
            groups.setdefault(launcher, {})[name] = (address, behind)
            self._cluster.routes.update({(source, name): address for source in names})
        with contextlib.ExitStack() as stack:
            for number, (launcher, targets) in enumerate(groups.items()):
                self._proxies.append(
                    stack.enter_context(Proxy(targets, seed=number, launcher=launcher, sources=sources))
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def set(self, owner: object, faults: Mapping[Direction, FrameFault]) -> None:
        """What one nemesis wants; several may want something of one direction at the same time."""
        with self._lock:
            self._of[owner] = faults
            merged: dict[Direction, FrameFault] = {}
            for wanted in self._of.values():
                for direction, fault in wanted.items():
                    merged[direction] = _both(fault, merged.get(direction, NO_FAULT))
            for proxy in self._proxies:
                proxy.set(merged)

    def counters(self) -> Counter[str]:
        """Of all proxies together."""
        return sum((proxy.counters() for proxy in self._proxies), Counter())


def _both(one: FrameFault, other: FrameFault) -> FrameFault:
    """The worse of each."""
    there = asdict(other)
    return FrameFault(**{name: max(value, there[name]) for name, value in asdict(one).items()})
