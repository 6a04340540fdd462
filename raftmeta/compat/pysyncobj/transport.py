"""The connections of an object, as programs see them. The engine has the real ones; this module only tells of them.

A subclass of `TCPTransport` may add messages of its own to the admin protocol, as Patroni does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import raftmeta
from raftmeta.compat.pysyncobj.node import Node, TCPNode
from raftmeta.compat.pysyncobj.tcp_connection import CONNECTION_STATE

if TYPE_CHECKING:
    from raftmeta.compat.pysyncobj.link import Link
    from raftmeta.compat.pysyncobj.syncobj import SyncObj

__all__ = ["Connection", "TCPTransport", "Transport", "TransportNotReadyError"]

UtilityCallback = Callable[[list[Any], Callable[[Any, Any], object]], object]


class TransportNotReadyError(Exception):
    """The address could not be bound."""


class Connection:
    """The connections between this node and one peer."""

    def __init__(self, transport: Transport, node: Node) -> None:
        self._transport = transport
        self._node = node

    @property
    def state(self) -> int:
        is_connected = self._transport.is_connected(self._node)
        return CONNECTION_STATE.CONNECTED if is_connected else CONNECTION_STATE.DISCONNECTED

    def disconnect(self) -> None:
        """Lose what is on the way. The engine connects again at once."""
        self._transport.disconnect(self._node)


class Transport:
    """ready: the address is bound."""

    def __init__(self, syncObj: SyncObj, selfNode: Node | None, otherNodes: Iterable[Node]) -> None:
        self._selfNode = selfNode
        self._connections = {node: Connection(self, node) for node in otherNodes}
        self._onUtilityMessageCallbacks: dict[str, UtilityCallback] = {}
        self._syncObj = syncObj
        self._link: Link | None = None
        self._tries = 0
        self._tried_s = 0.0
        self._settled = threading.Event()  # bound, or given up
        self.ready = False

    def attach(self, link: Link) -> None:
        """For the object, which makes the link."""
        self._link = link

    def setOnUtilityMessageCallback(self, message: str, callback: UtilityCallback | None) -> None:
        """Call this for an admin message of this name; None: for none."""
        if callback is None:
            self._onUtilityMessageCallbacks.pop(message, None)
        else:
            self._onUtilityMessageCallbacks[message] = callback

    def utility(self, message: list[Any], callback: Callable[[Any, Any], object]) -> bool:
        """Answer an admin message; False: its name is not known."""
        known = self._onUtilityMessageCallbacks.get(message[0]) if message else None
        if known is not None:
            known(message[1:], callback)
        return known is not None

    def tryGetReady(self) -> None:
        """Bind, unless the last attempt was only now. Raises TransportNotReadyError: no attempts are left."""
        conf = self._syncObj.conf
        if self.ready or self._link is None or time.monotonic() - self._tried_s < conf.bindRetryTime:
            return
        self._tries += 1
        try:
            self._link.bind()
            self.ready = True
            self._settled.set()
        except raftmeta.AddressInUse as error:
            self._tried_s = time.monotonic()
            if self._tries >= conf.maxBindRetries > 0:
                self._settled.set()
                raise TransportNotReadyError(str(error)) from error

    def waitReady(self) -> None:
        """Wait until the address is bound. Raises TransportNotReadyError."""
        self._settled.wait()
        if not self.ready:
            raise TransportNotReadyError("the address could not be bound")

    def is_connected(self, node: Node) -> bool:
        return self._syncObj.isNodeConnected(node)

    def disconnect(self, node: Node) -> None:
        if self._link is not None:
            self._link.disconnect(str(node.id))

    def addNode(self, node: Node) -> None:
        self._connections[node] = Connection(self, node)

    def dropNode(self, node: Node) -> None:
        self._connections.pop(node, None)

    def destroy(self) -> None:
        if self._link is not None:
            self._link.close()


class TCPTransport(Transport):
    """The only kind there is."""

    def _connectIfNecessarySingle(self, node: TCPNode) -> bool:
        """For subclasses that call it: the engine connects to its peers by itself."""
        return self.is_connected(node)
