"""The stores of raftmeta behind a metastore: a client of a cluster, or a node inside this process.

A client belongs to its metastore. A node belongs to all metastores of this process that name its folder: the first one
starts it, and the last one that closes ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from raftmeta import aio
from raftmeta.errors import ConfigError
from raftmeta.interfaces import State
from raftmeta.metastore.carrier import Listener
from raftmeta.metastore.codes import AuthFailed
from raftmeta.metastore.paths import Chroot
from raftmeta.metastore.requests import digest_id
from raftmeta.metastore.translate import Identities
from raftmeta.metastore.urls import MetastoreUrl
from raftmeta.metastore.znodes import ZnodeCarrier
from raftmeta.node import Node
from raftmeta.verbs.awaited import AioVerbs

__all__ = ["ClientStore", "NodeStore"]

LOOK_S = 0.05  # between two looks whether a node is ready


class _Store:
    """The part that both have: the sessions of one metastore, one after the other."""

    def __init__(self, url: MetastoreUrl) -> None:
        self.chroot = Chroot(url.chroot)
        self.root = url.root
        self.session_timeout_s = url.settings.session_timeout_s
        self.last_lease = 0
        self.tell: Callable[[bool], None] = _nobody
        identities = []
        self._strange = ""  # a scheme that proves nothing here
        for scheme, given in url.auth:
            user, _, password = given.partition(":")
            if scheme == "digest" and user:
                identities.append((scheme, digest_id(user, password)))
            else:
                self._strange = scheme
        self.identities: Identities = identities

    def carrier(self, listener: Listener) -> ZnodeCarrier:
        return ZnodeCarrier(self, listener)

    async def ready(self) -> AioVerbs:
        if self._strange:
            raise AuthFailed(f"auth: a store of raftmeta knows digest:user:password, not {self._strange!r}")
        return await self._ready()

    async def _ready(self) -> AioVerbs:
        raise NotImplementedError


def _nobody(_is_there: bool) -> None:
    """Until there is a session."""


class ClientStore(_Store):
    """raft:// and raft+unix://."""

    def __init__(self, url: MetastoreUrl) -> None:
        super().__init__(url)
        place, options = url.store
        self._client = aio.Client(place, **options)

    async def _ready(self) -> AioVerbs:
        self._client.channel.on_connection = lambda is_there: self.tell(is_there)
        await self._client.ready(None)
        return self._client

    async def close(self) -> None:
        await self._client.close()


class _SharedNodes:
    """The nodes of this process that metastores started, by folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[Node, Mapping[str, Any]]] = {}
        self._users: dict[str, int] = {}

    def open(self, arguments: Mapping[str, Any]) -> Node:
        """The node of these arguments, started. Raises ConfigError: a metastore named its folder with others."""
        folder = str(arguments["data_dir"])
        with self._lock:
            if folder not in self._nodes:
                self._nodes[folder] = (Node(**arguments).start(), arguments)
                self._users[folder] = 0
            node, others = self._nodes[folder]
            if others != arguments:
                raise ConfigError(f"url: another metastore of this process runs {folder} otherwise", field="url")
            self._users[folder] += 1
            return node

    def close(self, arguments: Mapping[str, Any]) -> None:
        """One user less."""
        folder = str(arguments["data_dir"])
        with self._lock:
            self._users[folder] -= 1
            if self._users[folder]:
                return
            node, _ = self._nodes.pop(folder)
            del self._users[folder]
            node.close()


NODES = _SharedNodes()


class NodeStore(_Store):
    """embedded://."""

    def __init__(self, url: MetastoreUrl) -> None:
        super().__init__(url)
        self._arguments: Mapping[str, Any] = url.store
        self._face: aio.Node | None = None
        self._opening: asyncio.Future[Node] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def _ready(self) -> AioVerbs:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(None, NODES.open, self._arguments)
        node = await asyncio.shield(self._opening)
        if self._face is None:
            self._face = node.aio()
            self._looking = asyncio.get_running_loop().create_task(self._look(self._face))
        await self._face.ready(None)
        return self._face

    async def _look(self, face: aio.Node) -> None:
        while True:
            self.tell(face.look_at_state()[0] == State.CONNECTED)
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._face is not None:
            await self._face.close()
        if self._opening is not None:
            with contextlib.suppress(Exception):  # it never started
                await self._opening
                await asyncio.get_running_loop().run_in_executor(None, NODES.close, self._arguments)
