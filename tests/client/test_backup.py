"""Backups taken by a client: complete, checked, or not there; whichever nodes come and go meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import snapshot
from tests.client.nodes import serving
from tests.client.raw import RawClient
from tests.processes.waiting import wait_until
from tests.wire.names import Status

VALUE = bytes(range(256)) * 1024  # four of them are a piece each way


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    """Three nodes with two megabytes."""
    with serving(tmp_path_factory.mktemp("n"), names="abc") as (nodes, url):
        for number in range(8):
            nodes["a"].put(f"large/{number}", VALUE + b"%d" % number)
        yield nodes, url


def only_file(folder: Path) -> Path:
    """The one file in the folder: nothing that was begun is left beside it."""
    (found,) = folder.iterdir()
    return found


def test_a_backup_holds_what_was_acknowledged_before(
    served: tuple[dict[str, raftmeta.Node], str], tmp_path: Path
) -> None:
    """While another client writes; progress ends at all bytes; the state is that of the nodes at its revision."""
    told: list[tuple[int, int]] = []
    acknowledged = 0
    must_stop = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        with raftmeta.Client(served[1]) as writer:
            while not must_stop.is_set():
                acknowledged = writer.put("during", b"x").revision

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_until(lambda: acknowledged > 0, timeout_s=30, what="a write")
        before = acknowledged
        with raftmeta.Client(served[1]) as client:
            snapshot.save(client, tmp_path / "b", on_progress=lambda done, size: told.append((done, size)))
    finally:
        must_stop.set()
        thread.join()
    facts = snapshot.inspect(only_file(tmp_path))
    assert facts.revision >= before and facts.keys >= 8
    assert told[-1] == (facts.file_bytes, facts.file_bytes) and len(told) > 4


def test_the_asyncio_face_saves_too(served: tuple[dict[str, raftmeta.Node], str], tmp_path: Path) -> None:
    """Two at once from one client: each is whole."""

    async def use() -> None:
        async with raftmeta.aio.Client(served[1]) as client:
            await asyncio.gather(snapshot.save(client, tmp_path / "one"), snapshot.save(client, tmp_path / "two"))

    asyncio.run(use())
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
    assert snapshot.inspect(tmp_path / "one").keys == snapshot.inspect(tmp_path / "two").keys


def test_what_is_interrupted_leaves_no_file(served: tuple[dict[str, raftmeta.Node], str], tmp_path: Path) -> None:
    """Cancelled in the middle, or failed by who watches it: nothing new, and what was there before is still there."""
    (tmp_path / "b").write_bytes(b"older")

    async def cancel() -> None:
        async with raftmeta.aio.Client(served[1]) as client:
            begun = asyncio.Event()
            saving = asyncio.ensure_future(snapshot.save(client, tmp_path / "b", on_progress=lambda *_: begun.set()))
            await begun.wait()
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving

    asyncio.run(cancel())
    with raftmeta.Client(served[1]) as client, pytest.raises(ZeroDivisionError):
        snapshot.save(client, tmp_path / "b", on_progress=lambda *_: 1 // 0)
    assert only_file(tmp_path).read_bytes() == b"older"


def test_a_backup_goes_on_at_another_node(tmp_path: Path) -> None:
    """The node that gives it is closed in the middle: the next one may have the same file or another, it is whole."""
    with serving(tmp_path, names="abc") as (nodes, url), raftmeta.Client(url) as client:
        for number in range(8):
            client.put(f"large/{number}", VALUE)
        home = client.status().name
        closed = []

        def close_it(_done: int, _size: int) -> None:
            if not closed:
                closed.append(home)
                threading.Thread(target=nodes[home].close, kwargs={"transfer": False}).start()

        snapshot.save(client, tmp_path / "backup", on_progress=close_it)
        assert closed and snapshot.inspect(tmp_path / "backup").keys == 8


@pytest.mark.parametrize("path", ["x" * 300, "no/such/folder/b"])
def test_a_path_that_cannot_be_is_told(served: tuple[dict[str, raftmeta.Node], str], tmp_path: Path, path: str) -> None:
    with raftmeta.Client(served[1]) as client, pytest.raises((raftmeta.InvalidArgument, OSError)):
        snapshot.save(client, tmp_path / path)
    assert not list(tmp_path.iterdir())


def test_what_is_no_source_is_told(tmp_path: Path) -> None:
    call: Callable[..., object] = snapshot.save
    with pytest.raises(raftmeta.InvalidArgument, match="source"):
        call("raft://x", tmp_path / "b")


def test_pieces_of_no_file_are_refused(served: tuple[dict[str, raftmeta.Node], str]) -> None:
    """Before it asked for a file, and behind that file's end."""
    with RawClient(served[1]) as client:
        assert client.ask(client.encoder.piece(0, 100))[0] == Status.NOT_FOUND
        assert client.ask(client.encoder.snapshot())[0] == Status.OK
        status, _, _, piece = client.ask(client.encoder.piece(0, 100))
        assert (status, len(piece)) == (Status.OK, 100)
        assert client.ask(client.encoder.piece(1 << 40, 100))[0] == Status.NOT_FOUND
