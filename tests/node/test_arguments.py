"""Wrong arguments are refused at once, by an error that names the one that is wrong."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
import raftmeta.aio
from tests.client.nodes import serving
from tests.node.nodes import one_node, running
from tests.processes.waiting import free_ports

ALONE = "\ud800"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with serving(tmp_path_factory.mktemp("node")) as (nodes, url), raftmeta.Client(url) as client:
        yield {"node": nodes["a"], "client": client}


@pytest.mark.parametrize("kind", ["node", "client"])
@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("callback", lambda store: store.watch(prefix="", callback=5)),
        ("on_lost", lambda store: store.lease(5, on_lost=5)),
        ("on_lost", lambda store: store.group("g").join("a", on_lost=5)),
        ("on_elected", lambda store: store.election("e").nominate("a", on_elected=5)),
        ("on_lost", lambda store: store.election("e").nominate("a", on_lost=5)),
        ("on_lost", lambda store: raftmeta.recipes.Lock(store, "l").acquire(on_lost=5)),
        ("start_revision", lambda store: store.watch(prefix="", start_revision=-1)),
        ("start_revision", lambda store: store.watch(prefix="", start_revision=1 << 64)),
        ("start_revision", lambda store: store.watch(prefix="", start_revision="1")),
        ("key", lambda store: store.watch(start_revision=1)),
        ("key", lambda store: store.watch()),
        ("prefix", lambda store: store.range(prefix=ALONE)),
        ("prefix", lambda store: store.watch(prefix=ALONE)),
        ("prefix", lambda store: store.delete_range(prefix=ALONE)),
        ("key", lambda store: store.put(ALONE, b"")),
        ("id", lambda store: store.group("g").join(ALONE)),
        ("data", lambda store: store.group("g").join("a", ALONE)),
        ("group", lambda store: store.group(ALONE)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_argument_that_is_wrong_is_named(
    stores: dict[str, Any], kind: str, field: str, call: Callable[[Any], object]
) -> None:
    with pytest.raises(raftmeta.InvalidArgument) as caught:
        call(stores[kind])
    assert caught.value.field == field
    assert str(caught.value).startswith(field)
    assert stores[kind].group("g").membership_list() == frozenset()


def test_the_asyncio_face_names_it_too(stores: dict[str, Any]) -> None:
    async def work() -> None:
        face = stores["node"].aio()
        for field, call in {
            "on_lost": lambda: face.lease(5, on_lost=5),
            "to": lambda: face.transfer("a"),
        }.items():
            with pytest.raises(raftmeta.InvalidArgument) as caught:
                await call()
            assert caught.value.field == field
        with pytest.raises(raftmeta.InvalidArgument, match="start_revision"):
            face.watch("k", start_revision=-1)
        await face.close()

    asyncio.run(work())


@pytest.mark.parametrize("to", [ALONE, "a", "nobody", 5, None])
def test_nobody_can_take_over_from_the_only_member(stores: dict[str, Any], to: Any) -> None:
    with pytest.raises(raftmeta.InvalidArgument, match="to: "):
        stores["node"].transfer(to)


def test_a_leader_is_named_by_a_follower_that_should_hand_over_to_it(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        leader = next(node for node in nodes.values() if node.status().is_leader)
        with pytest.raises(raftmeta.InvalidArgument, match="leads already"):
            leader.transfer(leader.name)
        leader.transfer()


@pytest.mark.parametrize("address", ["\udc80:7000", "a\ud800b:1"])
def test_an_address_that_is_no_text_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.Node("a", peers={"a": address}, data_dir=tmp_path / "a")
    assert caught.value.field == "peers[a]"


def test_a_folder_may_be_any_path(tmp_path: Path) -> None:
    class Folder(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(tmp_path / "a")

    node = raftmeta.Node("a", peers={"a": f"127.0.0.1:{free_ports(1)[0]}"}, data_dir=Folder())
    assert node.identity.data_dir == tmp_path / "a"
    for wrong in (b"/bytes", 5, None, "", "/\ud800"):
        with pytest.raises(raftmeta.ConfigError) as caught:
            raftmeta.Node("a", peers={"a": "127.0.0.1:1"}, data_dir=wrong)  # type: ignore[arg-type]
        assert caught.value.field == "data_dir"


# --- what is called back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError, raftmeta.NodeClosed])
def test_whatever_a_callback_raises_is_told(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By threading.excepthook, which on its own says nothing of SystemExit."""
    told: queue.Queue[Any] = queue.Queue()
    others: queue.Queue[Any] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", told.put)

    def throw(_: object) -> None:
        raise error("on purpose")

    with one_node(tmp_path) as node, node.watch("k", callback=throw), node.watch("k", callback=others.put):
        node.put("k", b"1")
        found = told.get(timeout=30).exc_value
        assert "on purpose" in str(found)
        assert not isinstance(found, SystemExit)
        assert others.get(timeout=30).events
        node.put("k", b"2")
        assert others.get(timeout=30).events


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_listener_that_exits_is_counted_like_any_other(
    tmp_path: Path, is_blocking: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(_: object) -> None:
        raise SystemExit(3)

    async def on_loop(node: raftmeta.Node) -> None:
        face = node.aio()
        group, told = face.group("g"), asyncio.Event()
        await group.add_listener(leave)
        await group.add_listener(lambda _: told.set())
        await group.join("a")
        await told.wait()
        while group.listener_failures != 1:
            await asyncio.sleep(0)
        await face.close()

    with one_node(tmp_path) as node:
        if is_blocking:
            group: Any = node.group("g")
            told: queue.Queue[Any] = queue.Queue()
            group.add_listener(leave)
            group.join("a")
            group.add_listener(told.put)
            group.leave("a")
            told.get(timeout=30)
            group.close()
            assert group is not None
        else:
            asyncio.run(on_loop(node))
    assert "listener failed" in caplog.text
