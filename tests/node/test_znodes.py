"""The verbs `znodes` and `znode`: the same on a node, on a client, and on the asyncio twin of each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
import raftmeta.aio
from raftmeta import faults
from raftmeta.bindings import verbs
from raftmeta.conformance.aio_kit import EventLoop
from raftmeta.native import marks
from raftmeta.operations import (
    Put,
    ZnodeCheck,
    ZnodeCreate,
    ZnodeCreated,
    ZnodeDelete,
    ZnodeRecord,
    ZnodeSetAcl,
    ZnodeSetData,
    ZnodeStat,
)
from tests.client.nodes import serving
from tests.metastore.faces import Driven
from tests.metastore.gate import Gate
from tests.node.nodes import leader_of, running, settle
from tests.processes.waiting import wait_until

FACES = ("node", "aio.Node", "client", "aio.Client")
NO_NODE, BAD_VERSION, NODE_EXISTS, SESSION_EXPIRED, INVALID_ACL, NO_AUTH = -101, -103, -110, -112, -114, -102
DIGEST = ("digest", "me:hash")
_roots = itertools.count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, str]]:
    with serving(tmp_path_factory.mktemp("znodes")) as (nodes, url):
        wait_until(lambda: nodes["a"].status().feature_level >= 4, timeout_s=30, what="the level of znodes")
        yield nodes["a"], url


@pytest.fixture(scope="module")
def faces(served: tuple[raftmeta.Node, str]) -> Iterator[dict[str, Any]]:
    """Each face of one node that serves clients."""
    node, url = served
    loop = EventLoop()
    face, client = loop.call(node.aio), loop.call(raftmeta.aio.Client, url)
    with raftmeta.Client(url) as blocking:
        blocking.ready()
        yield {"node": node, "aio.Node": Driven(face, loop), "client": blocking, "aio.Client": Driven(client, loop)}
    loop.call(client.close)
    loop.call(face.close)
    loop.close()


@pytest.fixture(params=FACES)
def store(request: pytest.FixtureRequest, faces: dict[str, Any]) -> Any:
    return faces[request.param]


@pytest.fixture
def root() -> str:
    """A tree that no other test has."""
    return f"tree{next(_roots)}"


def refused(store: Any, operations: list[Any], **options: Any) -> tuple[int, int]:
    with pytest.raises(raftmeta.ZnodeRefused) as caught:
        store.znodes(operations, **options)
    assert isinstance(caught.value, raftmeta.Refused)
    assert f"operation {caught.value.position}" in str(caught.value)
    return caught.value.position, caught.value.code


def test_a_request_answers_each_operation_by_its_kind(store: Any, root: str) -> None:
    """One revision for all; create: path and stat; set: stat; delete and check: None. Reading shows the same."""
    reply = store.znodes(
        [
            ZnodeCreate("/a", b"12"),
            ZnodeCreate("/a/s-", None, sequential=True),
            ZnodeSetData("/a", b"345", 0),
            ZnodeSetAcl("/a", [(31, *DIGEST), (1, b"world", b"anyone")], 0),
            ZnodeCheck("/a", 1),
            ZnodeDelete("/a/s-0000000000"),
        ],
        root=root,
        identities=[DIGEST],
    )
    made, child, data, acl, check, gone = reply.results
    assert (made.path, child.path, check, gone) == ("/a", "/a/s-0000000000", None, None)
    assert isinstance(made, ZnodeCreated) and isinstance(acl, ZnodeStat)
    assert made.stat.czxid == made.stat.mzxid == made.stat.pzxid == reply.revision
    assert (data.version, data.data_length, acl.aversion) == (1, 3, 1)
    assert reply.revision > 0 and reply.index > 0

    found = store.znode("/a", root=root, children=True)
    assert found is not None
    assert (found.data, found.children, found.stat.cversion) == (b"345", (), 2)
    assert found.znode.acl == ((31, b"digest", b"me:hash"), (1, b"world", b"anyone"))
    assert found.stat == acl._replace(cversion=2, pzxid=reply.revision, children=0)
    assert found.revision >= reply.revision


def test_seven_and_eight_stats_are_seven_and_eight_stats(store: Any, root: str) -> None:
    """An array of so many bins is a key record elsewhere."""
    store.znodes([ZnodeCreate("/a")], root=root)
    for count in (7, 8):
        results = store.znodes([ZnodeSetData("/a", b"%d" % number) for number in range(count)], root=root).results
        assert [type(each) for each in results] == [ZnodeStat] * count
        assert [each.version for each in results] == list(range(results[0].version, results[0].version + count))
    assert store.znodes([], root=root).results == []


def test_a_refusal_names_the_operation_and_its_code(store: Any, root: str) -> None:
    """Nothing of the request is done; the number is the position, and a single operation has position 0."""
    store.znodes([ZnodeCreate("/a")], root=root)
    assert refused(store, [ZnodeCreate("/b"), ZnodeCreate("/a"), ZnodeDelete("/a")], root=root) == (1, NODE_EXISTS)
    assert store.znode("/b", root=root) is None
    assert refused(store, [ZnodeDelete("/b")], root=root) == (0, NO_NODE)
    assert refused(store, [ZnodeSetData("/a", b"", 7)], root=root) == (0, BAD_VERSION)
    assert refused(store, [ZnodeCreate("/c", acl=[])], root=root) == (0, INVALID_ACL)
    assert refused(store, [ZnodeCreate("/e", kind="ephemeral")], root=root) == (0, SESSION_EXPIRED)
    assert refused(store, [ZnodeCheck("/a")], root=root, lease=1 << 40) == (0, SESSION_EXPIRED)


def test_an_ephemeral_goes_with_its_lease_and_is_fenced(store: Any, root: str) -> None:
    """lease: the owner. fence: a request of who lost its place is refused as a put is."""
    lease = store.lease(30)
    made = store.znodes([ZnodeCreate("/e", kind="ephemeral")], root=root, lease=lease).results[0]
    assert made.stat.owner == lease.id
    fence = raftmeta.Fence(f"{root}/e", made.stat.czxid)
    store.znodes([ZnodeCreate("/a")], root=root, fence=fence)
    lease.revoke() if not hasattr(store, "loop") else store.loop.call(lease.revoke)
    assert store.znode("/e", root=root) is None
    with pytest.raises(raftmeta.Fenced):
        store.znodes([ZnodeSetData("/a", b"late")], root=root, fence=fence)
    found = store.znode("/", root=root, children=True)
    assert found.children == ("a", "zookeeper") and found.stat.children == 2


def test_lists_of_rights_are_asked_about_the_identities(store: Any, root: str) -> None:
    """NOAUTH for who is not on the list; super passes."""
    store.znodes([ZnodeCreate("/a", acl=[(1, "world", "anyone"), (31, *DIGEST)])], root=root)
    assert refused(store, [ZnodeSetData("/a", b"")], root=root) == (0, NO_AUTH)
    assert refused(store, [ZnodeSetData("/a", b"")], root=root, identities=[("digest", "you:hash")]) == (0, NO_AUTH)
    for who in (DIGEST, ("super", "")):
        store.znodes([ZnodeSetData("/a", b"")], root=root, identities=[who])
    store.znodes([ZnodeSetAcl("/a", None)], root=root, identities=[DIGEST])
    store.znodes([ZnodeSetData("/a", b"")], root=root)


def test_each_kind_of_znode_is_shown(store: Any, root: str) -> None:
    """kind, ttl, owner and null data, as ZooKeeper tells them."""
    store.znodes(
        [
            ZnodeCreate("/c", kind="container"),
            ZnodeCreate("/t", kind="ttl", ttl_ms=60_000),
            ZnodeCreate("/n", None, sequential=True, digits=3),
        ],
        root=root,
    )
    container, ttl, null = (store.znode(path, root=root) for path in ("/c", "/t", "/n002"))
    assert (container.znode.kind, container.stat.owner) == ("container", 1 << 63)
    assert (ttl.znode.kind, ttl.znode.ttl_ms, ttl.stat.owner) == ("ttl", 60_000, 0xFF << 56 | 60_000)
    assert (null.data, null.znode.is_null) == (None, True)


def test_children_are_the_direct_znodes_alone(store: Any, root: str) -> None:
    """Znodes below a child are left out, and so are plain keys. Names are text."""
    paths = ("/a", "/a/b", "/a/b/deep", "/a/c", "/a/ü", "/ab")
    store.znodes([ZnodeCreate(path) for path in paths], root=root)
    assert store.znode("/a", root=root, children=True).children == ("b", "c", "ü")
    assert store.znode("/a/b", root=root).children is None
    store.put(f"{root}/a/plain", b"")
    store.put(f"{root}/a/plain/key", b"")
    assert store.znode("/a", root=root, children=True).children == ("b", "c", "ü")
    assert store.znode("/a/plain", root=root) is None
    assert refused(store, [ZnodeCreate("/a/plain")], root=root) == (0, NODE_EXISTS)


def test_a_tree_is_there_before_its_first_request(store: Any, root: str) -> None:
    """Four znodes, as machine/znodes founds them; afterwards they look the same."""
    before = {
        path: store.znode(path, root=root, children=True)
        for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/a")
    }
    assert before.pop("/a") is None
    store.znodes([ZnodeCheck("/")], root=root)
    for path, found in before.items():
        after = store.znode(path, root=root, children=True)
        assert (after.data, after.znode, after.children) == (found.data, found.znode, found.children), path


def test_a_znode_is_read_as_of_a_revision(store: Any, root: str) -> None:
    """Data, stat and children of one moment."""
    first = store.znodes([ZnodeCreate("/a", b"1"), ZnodeCreate("/a/b")], root=root).revision
    store.znodes([ZnodeSetData("/a", b"2"), ZnodeDelete("/a/b")], root=root)
    found = store.znode("/a", root=root, revision=first, children=True)
    assert (found.data, found.children, found.revision) == (b"1", ("b",), first)
    assert store.znode("/a", root=root, local=True).data == b"2"


@pytest.mark.parametrize(
    ("operations", "options", "field"),
    [
        ([ZnodeCreate("/a", kind="eternal")], {}, "operations[0].kind"),
        ([ZnodeDelete("/a"), ZnodeCreate(7)], {}, "operations[1].path"),  # type: ignore[arg-type]
        ([ZnodeCreate("/a", acl=[(32, "world", "anyone")])], {}, "operations[0].acl"),
        ([ZnodeCreate("/a", acl=[("world", "anyone")])], {}, "operations[0].acl"),  # type: ignore[list-item]
        ([ZnodeCreate("/a", ttl_ms=5)], {}, "operations[0].ttl_ms"),
        ([ZnodeCreate("/a", sequential=True, digits=21)], {}, "operations[0].digits"),
        ([ZnodeSetData("/a", b"", 1 << 31)], {}, "operations[0].version"),
        ([ZnodeSetData("/a", bytes((1 << 20) + 1))], {}, "operations[0].data"),
        ([Put("/a", b"")], {}, "operations[0].operation"),
        ([], {"root": "a/b"}, "root"),
        ([], {"root": ""}, "root"),
        ([], {"identities": [("digest",)]}, "identities"),
        ([ZnodeCheck("/")] * 10_001, {}, "operations"),
    ],
)
def test_a_wrong_argument_is_named(store: Any, operations: list[Any], options: dict[str, Any], field: str) -> None:
    """Before anything is sent."""
    with pytest.raises(raftmeta.InvalidArgument) as caught:
        store.znodes(operations, **options)
    assert caught.value.field == field


@pytest.mark.parametrize("path", ["a", "/a/", "", 7, "/\ud800", "/" + 480 * "a"])
def test_a_path_that_is_none_cannot_be_read(store: Any, path: Any) -> None:
    with pytest.raises(raftmeta.InvalidArgument) as caught:
        store.znode(path)
    assert caught.value.field in ("path", "start")


def test_a_znode_without_room_for_children_has_none(store: Any, root: str) -> None:
    """A key of 480 bytes, behind which no slash fits."""
    path = "/" + (480 - len(root) - 1) * "x"
    store.znodes([ZnodeCreate(path)], root=root)
    assert store.znode(path, root=root, children=True).children == ()


@pytest.mark.parametrize("face", FACES)
def test_below_a_prefix_too_a_znode_without_room_for_children_has_none(
    faces: dict[str, Any], face: str, root: str
) -> None:
    """With the prefix its key has 480 bytes. A range behind it would begin with 482, which no store takes."""
    prefix = f"{face.replace('.', '-')}-"
    store, path = faces[face], "/" + (480 - len(prefix) - len(root) - 1) * "x"
    view = Driven(store.prefixed(prefix), store.loop) if isinstance(store, Driven) else store.prefixed(prefix)
    view.znodes([ZnodeCreate(path)], root=root)
    assert view.znode(path, root=root, children=True).children == ()


def test_a_view_has_a_tree_of_its_own(faces: dict[str, Any], root: str) -> None:
    """Its root stands behind the prefix, which so may have no slash; records keep what belongs to a znode."""
    for face in ("node", "client"):
        view = faces[face].prefixed(f"{face}-")
        view.znodes([ZnodeCreate("/a", b"1")], root=root)
        assert view.znode("/a", root=root).data == b"1"
        record = view.get(f"{root}/a")
        assert isinstance(record, ZnodeRecord) and record.znode.stat.version == 0
        assert faces[face].znode("/a", root=f"{face}-{root}").data == b"1"
        with pytest.raises(raftmeta.InvalidArgument):
            faces[face].prefixed("app/").znodes([ZnodeCheck("/")], root=root)


def test_a_command_that_came_early_goes_again(tmp_path: Path) -> None:
    """A forwarded command is lost, and the one behind it is not: that one waits, and both are done in their order.

    Init: three nodes, and a follower whose frames to the leader are lost. Act: it forwards A; the link heals; it
    forwards B, which names A. Check: B is in the log first, and yet both are answered as if A had come first.
    """
    with running(tmp_path) as nodes, contextlib.closing(EventLoop()) as loop:
        settle(nodes)
        leader = leader_of(nodes).name
        follower = next(node for name, node in nodes.items() if name != leader)
        face = loop.call(follower.aio)

        async def carried(request: Any) -> list[Any]:
            return [face._carry(request, face._prepare(request, 60.0))]

        async def answered(call: Any) -> Any:
            return await call

        marks.clear()
        for attempt in itertools.count():
            path = f"/a{attempt}"
            first = verbs.znodes([ZnodeCreate(path)])
            second = verbs.znodes([ZnodeSetData(path, b"1", 0)], after=first)
            proposals = follower.metrics()["proposals"]
            faults.set_link_faults(follower, {leader: faults.LinkFault(cut_to=True)})
            calls = [loop.call(carried, first)]
            wait_until(lambda: follower.metrics()["proposals"] > proposals, timeout_s=30, what="A to be forwarded")  # noqa: B023
            faults.set_link_faults(follower, {})
            calls.append(loop.call(carried, second))
            replies = [loop.call(answered, *call) for call in calls]
            assert replies[0].revision < replies[1].revision
            assert replies[1].results[0].version == 1
            if "ZNODE_REQUEST_EARLY" in marks.reached():  # else a slow machine gave A the time to go again first
                break
        loop.call(face.close)


def test_a_lost_connection_repeats_no_request(served: tuple[raftmeta.Node, str], root: str) -> None:
    """Sequential creates while every connection is cut again and again: no number is missing, none stands twice."""
    node, url = served
    node.znodes([ZnodeCreate("/s")], root=root)
    made: list[str] = []
    stages = [asyncio.Event() for _ in range(3)]  # set behind each cut, so that there is work left at the next one

    async def create_all(address: str) -> dict[str, int]:
        async with raftmeta.aio.Client(f"raft://{address}") as client:

            async def create() -> None:
                operations = [ZnodeCreate("/s/n-", sequential=True)]
                for number in range(10):
                    if number in (2, 4, 6):
                        await stages[number // 2 - 1].wait()
                    made.append((await client.znodes(operations, root=root, timeout_s=60)).results[0].path)

            await client.ready()
            await asyncio.gather(*(create() for _ in range(20)))
            return client.metrics()

    with Gate(url.removeprefix("raft://")) as gate, contextlib.closing(EventLoop()) as loop:
        running = asyncio.run_coroutine_threadsafe(create_all(gate.address), loop.loop)
        for enough, behind in zip((20, 60, 100), stages, strict=True):
            wait_until(lambda enough=enough: len(made) >= enough, timeout_s=60, what="progress")
            gate.cut()
            gate.restore()
            loop.loop.call_soon_threadsafe(behind.set)
        counters = running.result(60)
    assert sorted(made) == [f"/s/n-{number:010}" for number in range(200)]
    assert counters["connects"] >= 4
