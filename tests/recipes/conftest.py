"""One cluster of three nodes for all recipes; each test has names of its own, and runs on both faces."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest

import raftmeta
from tests.node.nodes import running
from tests.recipes.faces import EventLoop, Face

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, raftmeta.Node]]:
    with running(tmp_path_factory.mktemp("recipes")) as made:
        yield made


@pytest.fixture(scope="package")
def event_loop_thread() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest, event_loop_thread: EventLoop) -> Iterator[Callable[[raftmeta.Node], Face]]:
    """Makes a face of a node, of one kind throughout a test, at whose end it is closed."""
    loop = None if request.param == "blocking" else event_loop_thread
    with contextlib.ExitStack() as stack:

        def make(node: raftmeta.Node) -> Face:
            made = Face(node, loop)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def name() -> str:
    """A name that no other test uses, with signs that a key must not confuse."""
    return f"test/{next(_numbers)} ü%"
