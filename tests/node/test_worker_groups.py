"""The verbs of worker groups: the same on a node, on a client, and on the asyncio twin of each; on several nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import raftmeta
import raftmeta.aio
from raftmeta.conformance.aio_kit import EventLoop
from tests.client.nodes import ServingCluster, serving
from tests.metastore.faces import Driven
from tests.node.nodes import running
from tests.processes.waiting import wait_until

FACES = ("node", "aio.Node", "client", "aio.Client")
WORDS = {"range": b"words"}
WAIT_S = 60.0
_names = itertools.count(1)


class Face:
    """A store whose groups are asked as if its callers blocked."""

    def __init__(self, store: Any, loop: EventLoop | None = None) -> None:
        self.store = store if loop is None else Driven(store, loop)
        self.groups = store.groups if loop is None else Driven(store.groups, loop)


def revoke(face: Face, lease: Any) -> None:
    if isinstance(face.store, Driven):
        face.store.loop.call(lease.revoke)
    else:
        lease.revoke()


def can_apply_groups(node: raftmeta.Node) -> bool:
    return node.status().feature_level >= 5


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Face]]:
    """Each face of one node that serves clients."""
    with serving(tmp_path_factory.mktemp("groups")) as (nodes, url):
        node = nodes["a"]
        wait_until(lambda: can_apply_groups(node), timeout_s=30, what="the level of groups")
        loop = EventLoop()
        face, client = loop.call(node.aio), loop.call(raftmeta.aio.Client, url)
        with raftmeta.Client(url) as blocking:
            blocking.ready()
            yield {
                "node": Face(node),
                "aio.Node": Face(face, loop),
                "client": Face(blocking),
                "aio.Client": Face(client, loop),
            }
        loop.call(client.close)
        loop.call(face.close)
        loop.close()


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest, faces: dict[str, Face]) -> Face:
    return faces[request.param]


@pytest.fixture
def name() -> str:
    """A group that no other test has."""
    return f"group{next(_names)}"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def code_of(ask: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(raftmeta.GroupRefused) as caught:
        ask(*arguments, **options)
    code: int = caught.value.code
    return code


def test_one_member_from_join_to_leave(face: Face, name: str) -> None:
    groups, lease = face.groups, face.store.lease(30)
    assert groups.describe(name) is None
    me = groups.join(name, WORDS, lease=lease, client="c", initial_delay_s=0, timeout_s=WAIT_S)
    assert (me.generation, me.protocol, me.protocol_type, me.is_leader) == (1, "range", "worker", True)
    assert [(member.member_id, member.said) for member in me.members] == [(me.member_id, b"words")]
    mine = groups.sync(name, 1, me.member_id, {me.member_id: b"all"}, timeout_s=WAIT_S)
    assert mine.assignment == b"all"
    assert groups.sync(name, 1, me.member_id, timeout_s=WAIT_S) == mine
    groups.heartbeat(name, 1, me.member_id)
    face.store.put("k", b"v", fence=mine.fence)
    face.store.put("k", b"v", fence=me.fence)
    info = groups.describe(name)
    assert (info.state, info.generation, info.leader_id, len(info.members)) == ("Stable", 1, me.member_id, 1)
    assert [listed.state for listed in groups.list(name) if listed.group == name] == ["Stable"]
    assert groups.leave(name, [me.member_id, "nobody"]) == (0, 25)
    for fence in (mine.fence, me.fence):
        with pytest.raises(raftmeta.Fenced):
            face.store.put("k", b"v", fence=fence)
    assert groups.describe(name).state == "Empty"
    groups.delete(name)
    assert groups.describe(name) is None


def test_each_refusal_has_its_code(face: Face, name: str) -> None:
    groups, lease = face.groups, face.store.lease(30)
    assert code_of(groups.heartbeat, name, 1, "nobody") == 25
    assert code_of(groups.sync, name, 1, "nobody") == 25
    assert code_of(groups.delete, name) == 69
    with pytest.raises(raftmeta.GroupRefused) as caught:
        groups.join(name, WORDS, lease=lease, two_steps=True, initial_delay_s=0, timeout_s=WAIT_S)
    assert caught.value.code == 79
    assert isinstance(caught.value, raftmeta.Refused)
    me = groups.join(name, WORDS, lease=lease, member_id=caught.value.member_id, initial_delay_s=0, timeout_s=WAIT_S)
    assert me.member_id == caught.value.member_id
    assert code_of(groups.heartbeat, name, 2, me.member_id) == 22
    assert code_of(groups.sync, name, 2, me.member_id) == 22
    assert code_of(groups.sync, name, 2, me.member_id, {}) == 22
    assert code_of(groups.delete, name) == 68
    other = face.store.lease(30)
    assert code_of(groups.join, name, {"other": b""}, lease=other) == 23
    assert code_of(groups.join, name, WORDS, lease=other, members_max=1) == 81
    revoke(face, lease)
    with pytest.raises(raftmeta.LeaseExpired):
        groups.join(name, WORDS, lease=lease, timeout_s=WAIT_S)
    assert code_of(groups.heartbeat, name, 1, me.member_id) == 25


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("group", {"group": ""}),
        ("group", {"group": "a\0b"}),
        ("protocols", {"protocols": {f"p{i}": b"" for i in range(65)}}),
        ("instance", {"instance": "x" * 129}),
        ("members_max", {"members_max": 0}),
        ("rebalance_timeout_s", {"rebalance_timeout_s": -1}),
    ],
)
def test_wrong_arguments_are_named(faces: dict[str, Face], field: str, options: dict[str, Any]) -> None:
    asked = {"group": "g", "protocols": WORDS, "lease": 1, **options}
    with pytest.raises(raftmeta.InvalidArgument) as caught:
        faces["node"].groups.join(**asked)
    assert caught.value.field == field


def test_a_view_has_groups_of_its_own(faces: dict[str, Face], name: str) -> None:
    node = faces["node"].store
    view = node.prefixed("apart/")
    me = view.groups.join(name, WORDS, lease=node.lease(30), initial_delay_s=0, timeout_s=WAIT_S)
    mine = view.groups.sync(name, 1, me.member_id, {me.member_id: b"x"}, timeout_s=WAIT_S)
    view.put("k", b"v", fence=mine.fence)
    assert [listed.group for listed in view.groups.list()] == [name]
    assert node.groups.describe(name) is None
    assert node.get(b"apart/groups/" + name.encode()) is not None


def test_a_join_that_ran_out_of_time_goes_on(face: Face, name: str, pool: ThreadPoolExecutor) -> None:
    groups = face.groups
    first = groups.join(name, WORDS, lease=face.store.lease(30), initial_delay_s=0, timeout_s=WAIT_S)
    lease = face.store.lease(30)
    with pytest.raises(raftmeta.GroupTimeout) as caught:
        groups.join(name, WORDS, lease=lease, timeout_s=0.05)
    waiting: Future[Any] = pool.submit(
        groups.join, name, WORDS, lease=lease, member_id=caught.value.member_id, timeout_s=WAIT_S
    )
    again = groups.join(name, WORDS, lease=face.store.lease(30), member_id=first.member_id, timeout_s=WAIT_S)
    assert waiting.result(WAIT_S).member_id == caught.value.member_id
    assert (again.generation, len(again.members)) == (2, 2)


# --- several nodes ----------------------------------------------------------------------------------------------------
def go_on(store: Any, name: str, lease: Any, member_id: str = "", **options: Any) -> tuple[Any, Any]:
    """Join and sync until there is an assignment, as a member does."""
    while True:
        me = store.groups.join(name, WORDS, lease=lease, member_id=member_id, timeout_s=WAIT_S, **options)
        member_id = me.member_id
        shares = {member.member_id: member.member_id.encode() for member in me.members} if me.is_leader else None
        try:
            return me, store.groups.sync(name, me.generation, member_id, shares, timeout_s=WAIT_S)
        except raftmeta.GroupRefused as refused:
            if refused.code != 27:
                raise


def has_members(store: Any, count: int) -> bool:
    info = store.groups.describe("g")
    return info is not None and len(info.members) == count


def test_three_members_on_three_nodes(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Each node answers its own members; a member that leaves makes a generation of the others."""
    with running(tmp_path) as nodes:
        wait_until(lambda: can_apply_groups(nodes["a"]), timeout_s=30, what="the level of groups")
        leases = {name: node.lease(30) for name, node in nodes.items()}
        members = [pool.submit(go_on, node, "g", leases[name], initial_delay_s=0.3) for name, node in nodes.items()]
        wait_until(lambda: has_members(nodes["a"], 3), timeout_s=WAIT_S, what="three members")
        found = [member.result(WAIT_S) for member in members]
        generation = max(me.generation for me, _ in found)
        while any(me.generation != generation for me, _ in found):
            again = [
                pool.submit(go_on, node, "g", leases[name], me.member_id)
                for (name, node), (me, _) in zip(nodes.items(), found, strict=True)
            ]
            found = [member.result(WAIT_S) for member in again]
            generation = max(me.generation for me, _ in found)
        assert len({me.leader_id for me, _ in found}) == 1
        assert all(mine.assignment == me.member_id.encode() for me, mine in found)
        (gone, old), *rest = found
        assert nodes["b"].groups.leave("g", [gone.member_id]) == (0,)
        again = [
            pool.submit(go_on, node, "g", leases[name], me.member_id)
            for (name, node), (me, _) in zip(list(nodes.items())[1:], rest, strict=True)
        ]
        assert {me.generation for me, _ in (member.result(WAIT_S) for member in again)} == {generation + 1}
        with pytest.raises(raftmeta.Fenced):
            nodes["c"].put("k", b"v", fence=old.fence)


def test_a_static_member_returns_without_a_generation(tmp_path: Path) -> None:
    """Its first holder is fenced, and the assignment stays."""
    with running(tmp_path, names="a") as nodes:
        node = nodes["a"]
        wait_until(lambda: can_apply_groups(node), timeout_s=30, what="the level of groups")
        first, mine = go_on(node, "g", node.lease(30), instance="i", initial_delay_s=0)
        second = node.groups.join("g", WORDS, lease=node.lease(30), instance="i", timeout_s=WAIT_S)
        assert (second.generation, second.is_leader, second.skip_assignment) == (first.generation, True, True)
        with pytest.raises(raftmeta.Fenced):
            node.put("k", b"v", fence=mine.fence)
        assert code_of(node.groups.heartbeat, "g", 1, first.member_id, instance="i") == 82
        again = node.groups.sync("g", 1, second.member_id, instance="i", timeout_s=WAIT_S)
        assert again.assignment == mine.assignment
        node.put("k", b"v", fence=again.fence)


def test_the_leading_node_is_killed_inside_join_and_sync(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Members wait at clients; the node that leads is killed twice. No member is lost, and no generation either."""
    with (
        ServingCluster(tmp_path, heartbeat_s=0.05, election_timeout_s=0.3) as cluster,
        raftmeta.Client(cluster.url) as one,
        raftmeta.Client(cluster.url) as other,
    ):
        one.ready(WAIT_S)
        wait_until(lambda: one.status().feature_level >= 5, timeout_s=WAIT_S, what="the level of groups")
        lease, second = one.lease(60), other.lease(60)
        first = one.groups.join("g", WORDS, lease=lease, initial_delay_s=0, timeout_s=WAIT_S)
        waiting = pool.submit(other.groups.join, "g", WORDS, lease=second, timeout_s=WAIT_S)
        wait_until(lambda: has_members(one, 2), timeout_s=WAIT_S, what="a join that waits")
        killed = cluster.leader(timeout_s=WAIT_S)
        killed.kill()
        lead = one.groups.join("g", WORDS, lease=lease, member_id=first.member_id, timeout_s=WAIT_S)
        follower = waiting.result(WAIT_S)
        assert (lead.generation, follower.generation, lead.is_leader) == (2, 2, True)
        killed.start()
        syncing = pool.submit(other.groups.sync, "g", 2, follower.member_id, timeout_s=WAIT_S)
        cluster.leader(timeout_s=WAIT_S).kill()
        shares = {member.member_id: b"share" for member in lead.members}
        mine = one.groups.sync("g", 2, lead.member_id, shares, timeout_s=WAIT_S)
        assert (mine.assignment, syncing.result(WAIT_S).assignment) == (b"share", b"share")
        info = one.groups.describe("g", timeout_s=WAIT_S)
        assert (info.state, info.generation, len(info.members)) == ("Stable", 2, 2)
