"""The order of answers and changes on raftmeta, over a store whose watch brings what a test gives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from raftmeta.errors import RaftmetaError, znode_refused
from raftmeta.metastore import AioMetastore, Code, CreateRequest, ExistsRequest, GetDataRequest, Settings
from raftmeta.metastore.awaited import call_here
from raftmeta.metastore.paths import Chroot
from raftmeta.metastore.znodes import ZnodeCarrier
from raftmeta.operations import KeyRecord, RangeResult, Znode, ZnodeRecord, ZnodeStat
from raftmeta.results import WatchBatch, WatchEvent
from tests.metastore.test_rules import on_loop, turns
from tests.metastore.told import Node


def record(path: str, data: bytes, created: int, written: int) -> KeyRecord:
    made = ZnodeRecord(f"t{path}".encode(), data, created, written, 1, 0)
    stat = ZnodeStat(created, written, 0, 0, 0, 0, 0, 0, len(data), 0, created)
    made._znode = Znode(stat, "persistent", 0, False, ())
    return made


class Store:
    """A tree that is set by hand. It is the store of a metastore, its verbs, its lease and its watch in one."""

    chroot = Chroot("")
    root = "t"
    identities = ()
    session_timeout_s = 10.0
    last_lease = 0
    id = 7
    tell: Callable[[bool], None]

    def __init__(self) -> None:
        self.revision = 1
        self.records = {"/": record("/", b"", 1, 1)}
        self.read_as_of: list[int] = []  # revisions of the next reads, in place of that of now
        self.reads: list[str] = []
        self.refusals: list[RaftmetaError] = []
        self.batches_due: asyncio.Queue[WatchBatch] = asyncio.Queue()

    def put(self, path: str, data: bytes, revision: int) -> WatchEvent:
        """Set a znode, and return the event that the watch does not bring by itself."""
        before = self.records.get(path)
        self.revision = revision
        self.records[path] = record(path, data, before.create_revision if before else revision, revision)
        return WatchEvent("put", self.records[path], None, revision)

    def bring(self, event: WatchEvent) -> None:
        self.batches_due.put_nowait(WatchBatch(event.revision, 0.0, [event], True))

    # --- what a session asks of it ----------------------------------------------------------------------------------

    def carrier(self, listener: Any) -> ZnodeCarrier:
        return ZnodeCarrier(self, listener)  # type: ignore[arg-type]

    async def ready(self) -> Any:
        return self

    async def lease(self, _ttl_s: float, **_options: Any) -> Self:
        return self

    def held(self) -> bool:
        return True

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()

    async def revoke(self, **_options: Any) -> None:
        """Nobody else looks."""

    async def znodes(self, *_arguments: Any, **_options: Any) -> None:
        """The tree is there."""

    def _has_session(self) -> bool:
        return False

    async def _ask(self, _request: Any, _timeout_s: float | None) -> Any:
        raise self.refusals.pop(0)

    async def _range(self, asked: Any, _timeout_s: float | None) -> RangeResult:
        path = bytes(asked.start).decode().removeprefix("t")
        self.reads.append(path)
        found = self.records.get(path)
        revision = self.read_as_of.pop(0) if self.read_as_of else self.revision
        return RangeResult(1, [found] if found is not None else [], False, revision)

    def watch(self, *_arguments: Any, **_options: Any) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def batches(self) -> AsyncIterator[WatchBatch]:
        while True:
            yield await self.batches_due.get()

    async def close(self) -> None:
        """The watch, and the store."""


async def armed(store: Store) -> tuple[AioMetastore, Node]:
    """A metastore whose handler of /a is armed."""
    metastore = await AioMetastore(store, Settings(), caller=call_here).open()
    node = Node("/a")
    metastore.register_znode_change_handler(node)
    await metastore.handle_request(ExistsRequest("/a"))
    return metastore, node


@on_loop
async def test_an_answer_waits_for_all_changes_before_the_one_that_it_shows() -> None:
    """/a changed at 8 and /b at 9: the read of /b is answered when the watch has brought both."""
    store = Store()
    metastore, node = await armed(store)
    first = store.put("/a", b"1", 8)
    second = store.put("/b", b"2", 9)
    reading = asyncio.create_task(metastore.handle_request(GetDataRequest("/b")))
    await turns()
    assert not reading.done() and node.told == []
    store.bring(first)
    await turns()
    assert not reading.done() and node.told == ["created"]
    store.bring(second)
    assert (await reading).data == b"2"
    await metastore.close()


@on_loop
async def test_a_missing_znode_shows_the_last_change_above_it() -> None:
    """The end of /gone at 12 changed its parent, which is looked at as of the same revision."""
    store = Store()
    metastore, node = await armed(store)
    first = store.put("/a", b"1", 11)
    second = store.put("/", b"", 12)
    reading = asyncio.create_task(metastore.handle_request(ExistsRequest("/gone/child")))
    await turns()
    assert store.reads[-3:] == ["/gone/child", "/gone", "/"]
    assert not reading.done()
    store.bring(first)
    store.bring(second)
    assert (await reading).result_code == Code.NONODE
    assert node.told == ["created"]
    await metastore.close()


@on_loop
async def test_a_refusal_waits_for_the_change_that_it_shows() -> None:
    """NODEEXISTS: somebody made /a at 8."""
    store = Store()
    metastore, node = await armed(store)
    made = store.put("/a", b"1", 8)
    store.refusals.append(znode_refused(0, Code.NODEEXISTS, 8))
    creating = asyncio.create_task(metastore.handle_request(CreateRequest("/a", b"")))
    await turns()
    assert not creating.done()
    store.bring(made)
    assert (await creating).result_code == Code.NODEEXISTS
    assert node.told == ["created"]
    await metastore.close()


@on_loop
async def test_no_read_shows_an_older_state_than_the_one_before_it() -> None:
    """Two reads at once, and the second is served by a node that is behind: it is read again."""
    store = Store()
    metastore = await AioMetastore(store, Settings(), caller=call_here).open()
    store.put("/a", b"1", 20)
    store.reads.clear()
    store.read_as_of = [20, 5, 19, 21]
    answers = await metastore.handle_requests([GetDataRequest("/a"), GetDataRequest("/a")])
    assert [answer.data for answer in answers] == [b"1", b"1"]
    assert store.reads == ["/a"] * 4 and store.read_as_of == []
    await metastore.close()


@on_loop
async def test_nobody_waits_where_nothing_is_armed() -> None:
    """The watch brings nothing at all, and all are answered."""
    store = Store()
    metastore = await AioMetastore(store, Settings(), caller=call_here).open()
    store.put("/a", b"1", 8)
    store.refusals.append(znode_refused(0, Code.NODEEXISTS, 8))
    codes = [
        (await metastore.handle_request(request)).result_code
        for request in (GetDataRequest("/a"), ExistsRequest("/gone"), CreateRequest("/a", b""))
    ]
    assert codes == [Code.OK, Code.NONODE, Code.NODEEXISTS]
    await metastore.close()
