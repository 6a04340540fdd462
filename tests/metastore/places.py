"""The stores that the suite runs on: each is reached by a URL, and can cut off a client and expire its session."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import raftmeta
from raftmeta import faults, metastore
from raftmeta.metastore.stores import NODES
from raftmeta.metastore.urls import MetastoreUrl
from tests.client.nodes import serving
from tests.metastore.gate import Gate
from tests.migrate.zookeeper_server import ZooKeeperServer
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until

WAIT_S = 60.0


class Place:
    """One store. name: of it in the matrix. session_s: of clients whose sessions are to expire."""

    name: str
    session_s: float

    def url(self, chroot: str = "", options: str = "") -> str:
        """Of a client that is never cut off. options: as "auth=...&session_timeout_s=...", empty for none."""
        raise NotImplementedError

    @contextlib.contextmanager
    def cuttable(self, chroot: str = "") -> Iterator[tuple[str, Any]]:
        """The URL of a client, and a gate through which it reaches the store."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        """End the store."""
        raise NotImplementedError


class ZooKeeperPlace(Place):
    """A real ZooKeeper 3.9, whose shortest session has two ticks."""

    name = "zookeeper"
    session_s = 4.0

    def __init__(self, folder: Path) -> None:
        self.server = ZooKeeperServer(folder)
        self.server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def url(self, chroot: str = "", options: str = "") -> str:
        return f"zookeeper://{self.address}{chroot}{'?' * bool(options)}{options}"

    @contextlib.contextmanager
    def cuttable(self, chroot: str = "") -> Iterator[tuple[str, Gate]]:
        with Gate(self.address) as gate:
            yield f"{gate.address}{chroot}", gate

    def close(self) -> None:
        self.server.kill()


class RaftPlace(Place):
    """Three nodes of raftmeta in this process, and clients of theirs."""

    name = "raft"
    session_s = 1.5

    def __init__(self, folder: Path) -> None:
        self._stack = contextlib.ExitStack()
        self.nodes, self._url = self._stack.enter_context(serving(folder, names="abc"))

    def url(self, chroot: str = "", options: str = "") -> str:
        return f"{self._url}{chroot}{'?' * bool(options)}{options}"

    @contextlib.contextmanager
    def cuttable(self, chroot: str = "") -> Iterator[tuple[str, Gate]]:
        gate = self._stack.enter_context(Gate(self._url.removeprefix("raft://").split(",")[0]))
        try:
            yield f"raft://{gate.address}{chroot}", gate
        finally:
            gate.restore()  # a client that is closed afterwards ends its session over it

    def close(self) -> None:
        self._stack.close()


class Cable:
    """The links between a node and its peers, as a gate."""

    def __init__(self, node: raftmeta.Node, peers: str) -> None:
        self._node = node
        self._peers = peers

    def cut(self) -> None:
        """No frame comes or goes."""
        cut = faults.LinkFault(cut_to=True, cut_from=True)
        faults.set_link_faults(self._node, dict.fromkeys(self._peers, cut))

    def lose(self, part: float) -> None:
        """So many of the frames that the node sends are lost."""
        faults.set_link_faults(self._node, dict.fromkeys(self._peers, faults.LinkFault(drop=part)))

    def restore(self) -> None:
        """As before."""
        faults.set_link_faults(self._node, {})


class EmbeddedPlace(Place):
    """Three nodes of raftmeta in this process, as metastores name them; the last one can be cut off."""

    name = "embedded"
    session_s = 1.5

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        peers = zip("abc", free_ports(3), strict=True)
        self._peers = ",".join(f"{name}=127.0.0.1:{port}" for name, port in peers)
        self._arguments = [MetastoreUrl.parse(self._place(name), {}).store for name in "abc"]
        self._nodes = [NODES.open(arguments) for arguments in self._arguments]
        for node in self._nodes:
            node.ready(WAIT_S)

    def _place(self, name: str, chroot: str = "", options: str = "") -> str:
        settings = "&".join(f"{option}={value}" for option, value in QUICK.items()).replace("True", "true")
        text = f"embedded://{self._folder}/{name}?name={name}&peers={self._peers}&{settings}"
        return f"{text}&chroot={chroot}{'&' * bool(options)}{options}"

    def url(self, chroot: str = "", options: str = "") -> str:
        return self._place("a", chroot, options)

    @contextlib.contextmanager
    def cuttable(self, chroot: str = "") -> Iterator[tuple[str, Cable]]:
        cable = Cable(self._nodes[2], "ab")
        try:
            yield self._place("c", chroot), cable
        finally:
            cable.restore()
            self._nodes[2].ready(WAIT_S)

    def close(self) -> None:
        for arguments in self._arguments:
            NODES.close(arguments)


def expire(store: Any, gate: Any, other: Any) -> int:
    """Cut a client off until its session expired, let it come back with a new one, and return the number of the old.

    other: a metastore below the same chroot. It sees that the session expired by the end of an ephemeral.
    """
    before: int = store.session_id
    gone = threading.Event()

    class Seen(metastore.StateChangeHandler):
        name = "expire"

        def after_initializing_session(self) -> None:
            gone.set()

    mark = metastore.CreateRequest("/expires", b"", create_mode=metastore.CreateMode.EPHEMERAL)
    store.handle_request(mark).maybe_throw()
    store.register_state_change_handler(Seen())
    expires: int = store.meters.events["Expires"].count
    gate.cut()
    look = metastore.ExistsRequest("/expires")
    wait_until(lambda: other.handle_request(look).result_code, timeout_s=WAIT_S, what="the ephemeral's end")
    gate.restore()
    wait_until(gone.is_set, timeout_s=WAIT_S, what="a new session after the expiry")
    store.unregister_state_change_handler("expire")
    assert store.meters.events["Expires"].count == expires + 1
    return before
