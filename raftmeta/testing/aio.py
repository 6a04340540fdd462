"""raftmeta.testing.Cluster for asyncio: the same verbs as coroutines, and nodes as raftmeta.aio.Node.

    async with aio.Cluster(3) as cluster:
        leader = await cluster.leader()
        await leader.put("key", b"value")
        await cluster.kill(leader)

Each verb runs on a worker thread, so that the event loop goes on while it waits. It decides nothing of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from raftmeta import Config, Node, NodeStatus, testing
from raftmeta import aio as raftmeta_aio

__all__ = ["Cluster"]

T = TypeVar("T")
Which = str | int | Node | raftmeta_aio.Node


class Cluster:
    """See raftmeta.testing.Cluster; `sync` is the one underneath. cluster: one that runs already, and goes on after."""

    def __init__(
        self,
        nodes: int | Iterable[str] = 3,
        *,
        config: Config | None = None,
        folder: str | Path | None = None,
        seed: int = 1,
        cluster: testing.Cluster | None = None,
    ) -> None:
        self.sync = testing.Cluster(nodes, config=config, folder=folder, seed=seed) if cluster is None else cluster
        self._owns_cluster = cluster is None
        self._faces: dict[str, tuple[Node, raftmeta_aio.Node]] = {}

    async def __aenter__(self) -> Self:
        if self._owns_cluster:
            await asyncio.to_thread(self.sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, face in self._faces.values():
            await face.close()
        if self._owns_cluster:
            await asyncio.to_thread(self.sync.close)

    @staticmethod
    def _plain(which: Which) -> str | int | Node:
        return which.name if isinstance(which, raftmeta_aio.Node) else which

    def node(self, which: Which) -> raftmeta_aio.Node:
        """The face of a node's newest life, for the event loop that runs now."""
        node = self.sync.node(self._plain(which))
        if self._faces.get(node.name, (None,))[0] is not node:
            self._faces[node.name] = (node, node.aio())
        return self._faces[node.name][1]

    async def leader(self, *, timeout_s: float = 10.0) -> raftmeta_aio.Node:
        return self.node(await asyncio.to_thread(self.sync.leader, timeout_s=timeout_s))

    async def followers(self, *, timeout_s: float = 10.0) -> list[raftmeta_aio.Node]:
        return [self.node(node) for node in await asyncio.to_thread(self.sync.followers, timeout_s=timeout_s)]

    async def kill(self, which: Which) -> None:
        await asyncio.to_thread(self.sync.kill, self._plain(which))

    async def stop(self, which: Which) -> None:
        await asyncio.to_thread(self.sync.stop, self._plain(which))

    async def restart(self, which: Which, *, wait: bool = True, timeout_s: float = 20.0) -> raftmeta_aio.Node:
        plain = self._plain(which)
        return self.node(await asyncio.to_thread(self.sync.restart, plain, wait=wait, timeout_s=timeout_s))

    async def wipe(self, which: Which) -> None:
        await asyncio.to_thread(self.sync.wipe, self._plain(which))

    async def add(self, name: str) -> raftmeta_aio.Node:
        return self.node(await asyncio.to_thread(self.sync.add, name))

    async def partition(self, *groups: Iterable[Which]) -> None:
        await asyncio.to_thread(self.sync.partition, *[[self._plain(which) for which in group] for group in groups])

    async def isolate(self, which: Which) -> None:
        await asyncio.to_thread(self.sync.isolate, self._plain(which))

    async def cut(self, source: Which, target: Which) -> None:
        await asyncio.to_thread(self.sync.cut, self._plain(source), self._plain(target))

    async def disturb(
        self, source: Which, target: Which, *, drop: float = 0.0, duplicate: float = 0.0, delay_s: float = 0.0
    ) -> None:
        plain = (self._plain(source), self._plain(target))
        await asyncio.to_thread(self.sync.disturb, *plain, drop=drop, duplicate=duplicate, delay_s=delay_s)

    async def heal(self) -> None:
        await asyncio.to_thread(self.sync.heal)

    async def wait_for(self, condition: Callable[[], T | None], *, timeout_s: float = 10.0, what: str = "") -> T:
        """Wait for condition(), which is called on the worker thread."""
        return await asyncio.to_thread(self.sync.wait_for, condition, timeout_s=timeout_s, what=what)

    async def wait_converged(self, *, timeout_s: float = 10.0) -> NodeStatus:
        return await asyncio.to_thread(self.sync.wait_converged, timeout_s=timeout_s)

    def report(self) -> str:
        return self.sync.report()
