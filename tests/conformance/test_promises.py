"""The suite from the command line: a third party is held to crashes and kills, and one that lies is found out."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.conformance import CHECKS, Kit, Servers, outcome_of
from raftmeta.conformance.aio_kit import DrivenBackend, EventLoop
from raftmeta.interfaces import Capabilities, Stored, ValueChange
from tests.client.nodes import serving
from tests.processes.waiting import free_ports

PROMISES = [check for check in CHECKS if check.interface == "promises"]


class ShellNode:
    """One node in a process of its own, and the shell commands that crash and start it: always at the same address."""

    def __init__(self, folder: Path) -> None:
        peer, self.client = (f"127.0.0.1:{port}" for port in free_ports(2))
        serve = [sys.executable, "-m", "raftmeta.cli", "serve", "--name", "a", "--peer", f"a={peer}"]
        serve += ["--data", str(folder / "a"), "--clients", self.client]
        self._pid = folder / "pid"
        run = " ".join(f"'{word}'" for word in serve)
        self.start = f"setsid {run} > '{folder / 'log'}' 2>&1 < /dev/null & echo $! > '{self._pid}'"
        self.stop = f"kill -9 $(cat '{self._pid}'); while kill -0 $(cat '{self._pid}') 2> /dev/null; do :; done"
        self.url = f"raft://{self.client}"

    def __enter__(self) -> ShellNode:
        subprocess.run(["/bin/sh", "-c", self.start], check=True)
        return self

    def __exit__(self, *_error: object) -> None:
        subprocess.run(["/bin/sh", "-c", self.stop], check=False)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShellNode]:
    with ShellNode(tmp_path_factory.mktemp("promises")) as cluster:
        yield cluster


def test_every_promise_has_a_check_that_needs_it() -> None:
    assert set(Capabilities.__dataclass_fields__) - {check.needs for check in CHECKS} == set()


@pytest.mark.parametrize("check", PROMISES, ids=lambda check: check.sentence)
def test_raftmeta_keeps_its_promises(check: Any, cluster: ShellNode) -> None:
    with raftmeta.connect(cluster.url, timeout_s=60) as first, raftmeta.connect(cluster.url, timeout_s=60) as second:
        servers = Servers(start=cluster.start, stop=cluster.stop)
        kit = Kit([first, second], party_url=cluster.url, has_owners=True, servers=servers)
        outcome = outcome_of(check, kit)
    assert (outcome.state, outcome.why) == ("passed", "")


class Toy:
    """All in the memory of one process, which promises everything."""

    capabilities = Capabilities(durable=True, exactly_once=True, resumable_watches=True, ttl_precision_s=0.0)

    def __init__(self) -> None:
        self._stored: dict[str, Stored] = {}
        self._revision = 0
        self._listeners: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        self.storage = self.listeners = self

    def crash(self) -> None:
        """What a server's crash does to it."""
        self._stored.clear()
        self._listeners.clear()

    def get(self, key: str, **_options: Any) -> Stored | None:
        return self._stored.get(key)

    def fetch(self, key: str, **_options: Any) -> Future[bytes | None]:
        future: Future[bytes | None] = Future()
        stored = self.get(key)
        future.set_result(None if stored is None else stored.data)
        return future

    def put(self, key: str, data: Any, **_options: Any) -> int:
        with self._lock:
            if key in self._stored:
                raise raftmeta.KeyExists(key)
            return self._set(key, data)

    def update(self, key: str, data: Any, **_options: Any) -> int:
        with self._lock:
            if key not in self._stored:
                raise raftmeta.KeyMissing(key)
            return self._set(key, data)

    def _set(self, key: str, data: Any) -> int:
        self._revision += 1
        self._stored[key] = Stored(data.encode(), self._revision)
        for listener in self._listeners.get(key, ()):
            listener(ValueChange(key, data.encode(), self._revision, False))
        return self._revision

    def delete(self, key: str, **_options: Any) -> None:
        self._stored.pop(key)

    def add_value_change_listener(self, key: str, listener: Any) -> None:
        self._listeners.setdefault(key, []).append(listener)


class ToyServers:
    """Stands for the commands: a crash of the toy."""

    can_crash = True

    def __init__(self, toy: Toy) -> None:
        self._toy = toy

    def crash(self) -> None:
        self._toy.crash()


@pytest.mark.parametrize("needs", ["durable", "exactly_once", "resumable_watches"])
def test_a_toy_that_promises_is_found_out(needs: str) -> None:
    """With the commands it fails; without them it is not believed either: not run, and not passed."""
    (check,) = [check for check in PROMISES if check.needs == needs and check.servers]
    toy: Any = Toy()
    kit = Kit([toy], party_url=None, servers=ToyServers(toy))  # type: ignore[arg-type]
    assert outcome_of(check, kit).state == "failed"
    assert outcome_of(check, Kit([toy], party_url=None)).state == "not run"


def test_a_time_to_live_that_is_not_kept_is_found_out(cluster: ShellNode) -> None:
    """The party's member lives on after its time: here another process keeps it, which was never killed."""
    (check,) = [check for check in PROMISES if check.needs == "ttl_precision_s"]
    with raftmeta.connect(cluster.url, timeout_s=60) as backend:
        never: Any = _Declaring(backend, replace(backend.capabilities, ttl_precision_s=-60.0))
        outcome = outcome_of(check, Kit([never], party_url=cluster.url, has_owners=True))
    assert outcome.state == "failed"
    assert "promised" in outcome.why


class _Declaring:
    def __init__(self, backend: Any, capabilities: Capabilities) -> None:
        self._backend = backend
        self.capabilities = capabilities

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _Unfenced:
    """A storage that takes every fence and checks none."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def update(self, key: str, data: Any, *, fence: object = None) -> int:
        return int(self._storage.update(key, data))


def test_a_store_that_ignores_the_fences_of_groups_is_found_out(cluster: ShellNode) -> None:
    fencing = [check for check in CHECKS if check.interface == "coordination" and "fence" in check.sentence]
    assert len(fencing) == 2
    with raftmeta.connect(cluster.url, timeout_s=60) as backend:
        late: Any = _Declaring(backend, backend.capabilities)
        late.storage = _Unfenced(backend.storage)
        outcomes = [outcome_of(check, Kit([late, late], party_url=None)) for check in fencing]
    assert [(outcome.state, "nothing was raised" in outcome.why) for outcome in outcomes] == [("failed", True)] * 2


def test_the_checks_hold_the_asyncio_face(tmp_path: Path) -> None:
    """Those that need no other process, on one event loop."""
    with serving(tmp_path) as (_nodes, url), contextlib.ExitStack() as stack:
        loop = EventLoop()
        stack.callback(loop.close)
        backends: Any = [stack.enter_context(DrivenBackend(url, loop)) for _ in range(2)]
        kit = Kit(backends, party_url=None)
        areas = ("election", "membership", "storage", "listeners", "coordination")
        wanted = [check for check in CHECKS if check.interface in areas and not check.processes]
        failed = [(one.check.name, one.why) for check in wanted if (one := outcome_of(check, kit)).state == "failed"]
    assert failed == []


def test_the_command_line_takes_parties_and_servers(cluster: ShellNode) -> None:
    """--stop without --start is a mistake; a command that fails is told with what it said."""
    tck = [sys.executable, "-m", "raftmeta.cli", "tck", cluster.url]
    alone = subprocess.run([*tck, "--stop", "true"], capture_output=True, text=True, check=False)
    assert alone.returncode == 2
    assert "belong together" in alone.stderr
    servers = Servers(start="true", stop="echo on purpose; exit 3")
    with pytest.raises(raftmeta.conformance.CheckFailed, match=r"ended with 3: on purpose"):
        servers.crash()
