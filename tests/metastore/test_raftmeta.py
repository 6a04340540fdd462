"""Rules of sessions on raftmeta alone: requests over lost connections and changes of leader, nodes that are shared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import metastore
from raftmeta.bindings.verbs import revoke
from raftmeta.errors import ConfigError
from raftmeta.metastore import (
    Code,
    CreateMode,
    CreateRequest,
    DeleteRequest,
    ExistsRequest,
    GetChildrenRequest,
    GetDataRequest,
    SetDataRequest,
)
from raftmeta.metastore.translate import allows
from tests.client.nodes import ServingCluster
from tests.metastore.places import WAIT_S, EmbeddedPlace, RaftPlace
from tests.metastore.told import Children, Node
from tests.node.nodes import leader_of
from tests.processes.waiting import free_ports, wait_until

WRITES = 400


@pytest.fixture
def writes() -> list[Any]:
    """Each is refused unless all before it were done, and none behind it."""
    sets = [SetDataRequest("/a", b"%d" % number, number) for number in range(WRITES)]
    return [CreateRequest("/a", b""), *sets, GetDataRequest("/a")]


def all_of(store: Any, requests: list[Any]) -> tuple[threading.Thread, list[Any]]:
    """Ask on a thread of its own, and wait until some are answered."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(store.handle_requests(requests)))
    before = store.meters.latency.count
    thread.start()
    wait_until(lambda: store.meters.latency.count > before + 20, timeout_s=WAIT_S, what="some answers")
    return thread, answers


@pytest.fixture
def place(raft_place: RaftPlace) -> RaftPlace:
    return raft_place


def test_requests_stay_in_order_over_a_change_of_leader(place: RaftPlace, chroot: str, writes: list[Any]) -> None:
    """Commands that were sent ahead name the one before them, so none overtakes another."""
    with metastore.connect(place.url(chroot), max_in_flight_requests=WRITES + 2) as store:
        thread, answers = all_of(store, writes)
        leader_of(place.nodes).transfer(timeout_s=30)
        thread.join()
        assert {answer.result_code for answer in answers} == {Code.OK}
        assert answers[-1].data == b"%d" % (WRITES - 1)


def test_requests_stay_in_order_where_frames_are_lost(
    embedded_place: EmbeddedPlace, chroot: str, writes: list[Any]
) -> None:
    """A node forwards its commands over links that lose a third of them, and none overtakes another."""
    settings: dict[str, Any] = {"max_in_flight_requests": WRITES + 2, "session_timeout_s": 30}
    with embedded_place.cuttable(chroot) as (url, cable), metastore.connect(url, **settings) as store:
        cable.lose(0.3)
        answers = store.handle_requests(writes)
        assert {answer.result_code for answer in answers} == {Code.OK}
        assert answers[-1].data == b"%d" % (WRITES - 1)


def test_requests_under_way_survive_their_connection(place: RaftPlace, chroot: str, writes: list[Any]) -> None:
    """Each is done once and answered, where ZooKeeper tells CONNECTIONLOSS; the session goes on."""
    with place.cuttable(chroot) as (url, gate), metastore.connect(url, max_in_flight_requests=WRITES + 2) as store:
        session = store.session_id
        thread, answers = all_of(store, writes)
        gate.cut()
        gate.restore()
        thread.join()
        assert {answer.result_code for answer in answers} == {Code.OK}
        assert answers[-1].data == b"%d" % (WRITES - 1)
        assert store.session_id == session


def test_changes_behind_a_gap_of_history_are_told(place: RaftPlace, chroot: str) -> None:
    """A client is cut off, and the history since then is forgotten: the state that it finds tells the changes."""
    with metastore.connect(place.url(chroot)) as other, place.cuttable(chroot) as (url, gate):
        for path in ("/changed", "/deleted", "/parent", "/still"):
            other.handle_request(CreateRequest(path, b"")).maybe_throw()
        with metastore.connect(url, session_timeout_s=30) as store:
            nodes = {name: Node(f"/{name}") for name in ("created", "changed", "deleted", "still")}
            children = Children("/parent")
            for node in nodes.values():
                store.register_znode_change_handler(node)
            store.register_znode_child_change_handler(children)
            store.handle_requests(
                [*(ExistsRequest(each.path) for each in nodes.values()), GetChildrenRequest("/parent")]
            )
            gate.cut()
            wait_until(lambda: not store.connection_state.is_connected, timeout_s=WAIT_S, what="the cut to be noticed")
            for request in (
                CreateRequest("/created", b""),
                SetDataRequest("/changed", b"1"),
                DeleteRequest("/deleted"),
                CreateRequest("/parent/child", b""),
            ):
                other.handle_request(request).maybe_throw()
            last = other.handle_request(SetDataRequest("/parent/child", b"")).stat.mzxid
            place.nodes["a"].compact(last)
            gate.restore()
            for name in ("created", "changed", "deleted"):
                nodes[name].wait(name)
            children.wait(1)
            other.handle_request(SetDataRequest("/still", b"1")).maybe_throw()
            nodes["still"].wait("changed")


def test_a_killed_leader_ends_no_session(tmp_path: Path) -> None:
    """Processes: the leader dies under requests of two sessions. Both go on, and the watcher is told."""
    with ServingCluster(tmp_path, heartbeat_s=0.05, election_timeout_s=0.25) as cluster:
        url = f"{cluster.url}/kafka?session_timeout_s=10&max_in_flight_requests={WRITES}"
        with metastore.connect(url) as store, metastore.connect(url) as other:
            before = store.session_id, other.session_id
            store.handle_request(CreateRequest("/mine", b"", create_mode=CreateMode.EPHEMERAL)).maybe_throw()
            store.handle_request(CreateRequest("/s", b"")).maybe_throw()
            mine, children = Node("/mine"), Children("/s")
            other.register_znode_change_handler(mine)
            other.register_znode_child_change_handler(children)
            other.handle_requests([ExistsRequest("/mine"), GetChildrenRequest("/s")])
            sequential = CreateRequest("/s/n-", b"", create_mode=CreateMode.PERSISTENT_SEQUENTIAL)
            leader = cluster.leader()
            thread, answers = all_of(store, [sequential] * WRITES)
            leader.kill()
            thread.join()
            assert [answer.name for answer in answers] == [f"/s/n-{number:010}" for number in range(WRITES)]
            other.wait_until_connected(WAIT_S)
            assert len(other.handle_request(GetChildrenRequest("/s")).children) == WRITES
            children.wait(1)
            assert (store.session_id, other.session_id) == before and mine.told == []
            store.close()
            mine.wait("deleted")


def test_the_tree_is_that_of_the_verbs(place: RaftPlace, chroot: str) -> None:
    """The same znodes by the metastore and by Node.znode; a session is a lease of its number."""
    with metastore.connect(place.url(chroot, "root=zk")) as store:
        made = store.handle_request(CreateRequest("/e", b"1", create_mode=CreateMode.EPHEMERAL))
        found = place.nodes["a"].znode(f"{chroot}/e", root="zk")
        assert found is not None and found.data == b"1"
        assert found.stat.owner == store.session_id == made.stat.ephemeral_owner
        assert place.nodes["a"].znode(f"{chroot}/e") is None, "another tree"


def test_a_lease_that_is_revoked_ends_the_session(place: RaftPlace, chroot: str) -> None:
    """The first request afterwards is told, and a new session begins."""
    with metastore.connect(place.url(chroot)) as store:
        before = store.session_id
        place.nodes["a"]._ask(revoke(before), 30.0)
        answer = store.handle_request(CreateRequest("/a", b""))
        assert answer.result_code == Code.SESSIONEXPIRED
        wait_until(lambda: store.session_id != before, timeout_s=WAIT_S, what="a new session")
        store.wait_until_connected(WAIT_S)
        assert store.handle_request(CreateRequest("/a", b"")).result_code == Code.OK


def test_plain_keys_in_the_tree_are_no_znodes(place: RaftPlace, chroot: str) -> None:
    """Their changes are told to nobody, and they are not found."""
    with metastore.connect(place.url(chroot)) as store:
        node = Node("/plain")
        store.register_znode_change_handler(node)
        assert store.handle_request(ExistsRequest("/plain")).result_code == Code.NONODE
        place.nodes["a"].put(f"zookeeper{chroot}/plain", b"")
        assert store.handle_request(ExistsRequest("/plain")).result_code == Code.NONODE
        assert store.handle_request(CreateRequest("/plain", b"")).result_code == Code.NODEEXISTS
        place.nodes["a"].delete(f"zookeeper{chroot}/plain")
        store.handle_request(CreateRequest("/plain", b"")).maybe_throw()
        assert node.told == ["created"]


@pytest.fixture
def folder_url(tmp_path: Path) -> Iterator[str]:
    yield f"embedded://{tmp_path}/a?name=a&peers=a=127.0.0.1:{free_ports(1)[0]}&reserve_bytes=0"


def test_metastores_of_one_folder_share_its_node(folder_url: str) -> None:
    """The first one starts it, the last one ends it; others than these settings are refused meanwhile."""
    with metastore.connect(folder_url) as first:
        with metastore.connect(f"{folder_url}&chroot=/kafka") as second:
            second.handle_request(CreateRequest("/a", b"1")).maybe_throw()
            assert first.handle_request(GetDataRequest("/kafka/a")).data == b"1"
            with pytest.raises(ConfigError, match="otherwise"):
                metastore.connect(f"{folder_url}&close_timeout_s=9")
        assert first.handle_request(GetDataRequest("/kafka/a")).data == b"1"
    with metastore.connect(folder_url) as again:
        assert again.handle_request(GetDataRequest("/kafka/a")).data == b"1"


def test_the_last_one_ends_the_node(folder_url: str, tmp_path: Path) -> None:
    """Its folder can be opened by another node then."""
    metastore.connect(folder_url).close()
    peers = {"a": folder_url.partition("a=")[2].partition("&")[0].rpartition("=")[2]}
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", config=raftmeta.Config(reserve_bytes=0)) as node:
        node.ready(WAIT_S)
        assert node.znode("/zookeeper") is not None


def test_rights_are_asked_by_scheme_and_id() -> None:
    """One of several rights is enough, of one of several identities."""
    acl = ((1, "world", "anyone"), (16, "digest", "me:hash"))
    assert allows(acl, 1, ())
    assert allows(acl, 1 | 16, ())
    assert not allows(acl, 16, [("digest", "you:hash")])
    assert allows(acl, 16, [("digest", "you:hash"), ("digest", "me:hash")])
