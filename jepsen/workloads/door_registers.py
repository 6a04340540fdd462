"""Registers and watches through the ZooKeeper door."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

import raftmeta
from jepsen.client import UNSURE, Answer, Client
from jepsen.door_session import DoorRefused
from jepsen.workloads.base import decoded, encoded
from jepsen.workloads.doors import DoorWorkload, expect, path_of

TRIES_MAX = 3
NODES = 2
CHILDREN = 2


class ZookeeperRegister(DoorWorkload):
    """Read, set, and set at a version, which is a compare-and-set: one version of a node has one value."""

    name = "zookeeper-register"
    model = "cas-register"

    async def act(self) -> None:
        key = f"{self.client.prefix()}{self.client.random.randrange(NODES)}"
        await self.one_of(key, (0.4, self._read), (0.75, self._write), (1.0, self._cas))

    async def _read(self, key: str) -> None:
        async def act() -> Answer:
            reply = await self.get_latest(path_of(key))
            return Answer(None, 0) if reply is None else Answer(decoded(reply.value[0]), reply.value[1].mzxid)

        await self.client.ask("read", key, None, act)

    async def _write(self, key: str) -> None:
        """A node that is not there is made; each of the requests is the whole operation, or nothing."""
        path, value = path_of(key), self.client.new_value()

        async def act() -> Answer:
            for _ in range(TRIES_MAX):
                try:
                    return Answer(None, (await self.set(path, encoded(value))).value.mzxid)
                except DoorRefused as refused:
                    expect(refused, NoNodeError)
                try:
                    return Answer(None, (await self.create(path, encoded(value))).value[1].mzxid)
                except DoorRefused as refused:
                    expect(refused, NodeExistsError)
            raise raftmeta.NotExecuted("the node came and went")

        await self.client.ask("write", key, value, act)

    async def _cas(self, key: str) -> None:
        """At the version that this node showed, which may be an old one."""
        path, new = path_of(key), self.client.new_value()
        try:
            seen = await self.get(path)
        except UNSURE:
            return
        if seen is None:
            return
        data, stat = seen.value

        async def act() -> Answer:
            try:
                return Answer(True, (await self.set(path, encoded(new), stat.version)).value.mzxid)
            except DoorRefused as refused:
                expect(refused, BadVersionError)
                return Answer(False, refused.revision)

        await self.client.ask("cas", key, [decoded(data), new], act)


class ZookeeperWatch(DoorWorkload):
    """Nodes and their children change, and watches of sessions that move tell it before any reply that shows it."""

    name = "zookeeper-watch"
    model = None

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._parent = f"/{self.name}-{client.group}"
        self._has_parent = False

    async def act(self) -> None:
        random = self.client.random
        node = f"{self._parent}/{random.randrange(NODES)}"
        child = f"{node}/{random.randrange(CHILDREN)}"
        choice = random.random()
        if not self._has_parent:
            await self._make(self._parent)
            self._has_parent = True
        elif choice < 0.35:
            await self._change(node)
        elif choice < 0.6:
            await self.client.attempt(lambda: self.get(node, is_watched=random.random() < 0.7))
        elif choice < 0.75:
            await self.client.attempt(lambda: self._list(node))
        elif choice < 0.8:
            await self.client.attempt(lambda: self._wait_for(child))
        elif choice < 0.9:
            await self._make(child)
        else:
            await self.refused(NoNodeError, lambda: self.session.ask(lambda zk: zk.delete_async(child)))

    async def _change(self, node: str) -> None:
        if await self.refused(NoNodeError, lambda: self.set(node, encoded(self.client.new_value()))) is False:
            await self._make(node)

    async def _make(self, path: str) -> None:
        await self.refused((NodeExistsError, NoNodeError), lambda: self.create(path, b"0"))

    async def _wait_for(self, child: str) -> Any:
        """Whether it exists, with a watch that also waits for a node that is not there."""
        session, what = self.session, child

        def told(stat: Any, zxid: int) -> None:
            if stat is not None:
                self.seen(session, what, stat.mzxid, is_armed=True)
            else:
                self.armed(session, what, zxid)

        return await session.ask(lambda zk: zk.exists_async(child, watch=self.watcher(session, what)), told)

    async def _list(self, node: str) -> Any:
        """The children; their last coming or going is the parent's pzxid."""
        session, what = self.session, f"{node}/children"
        is_watched = self.client.random.random() < 0.7
        watch = self.watcher(session, what) if is_watched else None

        def told(value: Any, _zxid: int) -> None:
            self.seen(session, what, value[1].pzxid, is_armed=is_watched)

        try:
            return await session.ask(lambda zk: zk.get_children_async(node, watch=watch, include_data=True), told)
        except DoorRefused as refused:
            expect(refused, NoNodeError)
