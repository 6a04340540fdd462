"""The stores that the suite runs on: each is reached by a URL, and can cut off a client and expire its session."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raftmeta import metastore
from tests.metastore.gate import Gate
from tests.migrate.zookeeper_server import ZooKeeperServer
from tests.processes.waiting import wait_until

WAIT_S = 60.0
SESSION_S = 4.0


class Place:
    """One store. name: of it in the matrix; scheme: of its URLs."""

    name: str

    def url(self, chroot: str = "", options: str = "") -> str:
        """Of a client that is never cut off. options: as "auth=...&session_timeout_s=...", empty for none."""
        raise NotImplementedError

    @contextlib.contextmanager
    def cuttable(self, chroot: str = "") -> Iterator[tuple[str, Gate]]:
        """The URL of a client whose connections go through a gate."""
        raise NotImplementedError
        yield


class ZooKeeperPlace(Place):
    """A real ZooKeeper 3.9."""

    name = "zookeeper"

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


def expire(store: Any, gate: Gate, other: Any) -> int:
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
