"""The stores of the suite, started once; each test has a chroot of its own on each of them, and runs on both faces."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftmeta.conformance.aio_kit import EventLoop
from tests.metastore.faces import FACES, connected
from tests.metastore.places import EmbeddedPlace, Place, RaftPlace, ZooKeeperPlace
from tests.migrate import zookeeper_server

WHY_NO_ZOOKEEPER = zookeeper_server.why_not()
PLACES = [*([] if WHY_NO_ZOOKEEPER else ["zookeeper"]), "raft", "embedded"]

_numbers = itertools.count(1)

Connect = Callable[..., Any]


def pytest_report_header() -> str:
    return f"metastore: on a real ZooKeeper: {WHY_NO_ZOOKEEPER or 'yes'}"


@pytest.fixture(scope="package")
def zookeeper_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperPlace]:
    place = ZooKeeperPlace(tmp_path_factory.mktemp("zookeeper"))
    yield place
    place.close()


@pytest.fixture(scope="package")
def raft_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RaftPlace]:
    place = RaftPlace(tmp_path_factory.mktemp("raft"))
    yield place
    place.close()


@pytest.fixture(scope="package")
def embedded_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlace]:
    place = EmbeddedPlace(tmp_path_factory.mktemp("embedded"))
    yield place
    place.close()


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture(scope="package")
def event_loop_thread() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture
def chroot() -> str:
    """A part of the tree that no other test uses, with a name that is not ASCII."""
    return f"/test-{next(_numbers)}/ü"


@pytest.fixture(params=FACES)
def connect(
    request: pytest.FixtureRequest, place: Place, chroot: str, event_loop_thread: EventLoop
) -> Iterator[Connect]:
    """Makes metastores of one face on one store, below the chroot of the test: connect(url=None, **settings)."""
    with contextlib.ExitStack() as stack:

        def make(url: str | None = None, *, options: str = "", **settings: Any) -> Any:
            settings.setdefault("session_timeout_s", place.session_s)
            made = connected(request.param, event_loop_thread, url or place.url(chroot, options), **settings)
            stack.callback(made.close)
            return made

        yield make
