"""Members changed by a client, in a process that runs no node; what a removed node tells its clients and watchers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

import raftmeta
from raftmeta.faults import LinkFault, set_link_faults
from raftmeta.testing import Cluster
from tests.client.nodes import ServingCluster, serving
from tests.client.raw import FakeNode, RawClient, frame
from tests.node.nodes import QUICK
from tests.processes.cluster import NodeProcess
from tests.processes.waiting import free_ports, wait_until
from tests.wire.names import Status

MEMBERS, CHANGE = 9, 10
ALWAYS_OF_LOAD = raftmeta.NotExecuted, raftmeta.OutcomeUnknown


# --- real processes, under load ---------------------------------------------------------------------------------------


class Writer:
    """A client that puts one key after another from its own thread, and remembers what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.acknowledged: dict[str, bytes] = {}
        self._url = url
        self._must_stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._must_stop.set()
        self._thread.join()

    def _write(self) -> None:
        with raftmeta.Client(self._url) as client:
            number = 0
            while not self._must_stop.is_set():
                number += 1
                with contextlib.suppress(*ALWAYS_OF_LOAD):
                    client.put(f"load/{number}", b"%d" % number, timeout_s=3)
                    self.acknowledged[f"load/{number}"] = b"%d" % number

    def wait_for_more(self, count: int) -> None:
        goal = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= goal, timeout_s=30, what=f"{count} more writes")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServingCluster]:
    with ServingCluster(tmp_path, **QUICK) as running:
        yield running


def spawn(cluster: ServingCluster, folder: Path, name: str) -> str:
    """One more serving node, no member yet; the URL of its clients."""
    port, client_port = free_ports(2)
    cluster.peers[name] = f"127.0.0.1:{port}"
    address = f"127.0.0.1:{client_port}"
    node = NodeProcess(name, peers=cluster.peers, client_listen=address, folder=folder, settings=QUICK)
    cluster.nodes[name] = node
    node.start()
    return f"raft://{address}"


def change(cluster: ServingCluster, client: raftmeta.Client, verb: str, *arguments: str, victim: str) -> None:
    """Ask for a change, and kill -9 and restart a node while it is under way; a change that a kill spoiled is asked for
    again, as its errors say."""
    errors: list[BaseException] = []
    is_done = threading.Event()

    def ask() -> None:
        while not is_done.is_set():
            try:
                getattr(client, verb)(*arguments, timeout_s=20)
                is_done.set()
            except (*ALWAYS_OF_LOAD, raftmeta.ChangeRefused) as error:
                errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    cluster.nodes[victim].kill()
    cluster.nodes[victim].start()
    asking.join(60)
    assert is_done.is_set(), errors


def test_a_client_in_another_process_changes_all_members_with_a_kill_in_each(
    cluster: ServingCluster, tmp_path: Path
) -> None:
    """A fourth node is added and promoted, another demoted, removed and back in the place of a third, under load; each
    asked of whichever node serves the client, also of the one that is killed or removed. No acknowledged write is
    lost."""
    url = spawn(cluster, tmp_path, "d")
    everybody = cluster.url + "," + url.removeprefix("raft://")
    with raftmeta.Client(everybody) as client, Writer(everybody) as writer:
        change(cluster, client, "add_member", "d", cluster.peers["d"], victim="b")
        writer.wait_for_more(20)
        change(cluster, client, "promote", "d", victim=cluster.leader().name)
        change(cluster, client, "demote", "a", victim="a")
        assert {one.name: one.role for one in client.members()} == {"a": "standby", **dict.fromkeys("bcd", "voter")}
        writer.wait_for_more(20)
        change(cluster, client, "remove_member", "a", victim="c")
        wait_until(
            lambda: (cluster.nodes["a"].status() or {}).get("state") == "removed", timeout_s=20, what="a to be told"
        )
        change(cluster, client, "replace_member", "b", "a", cluster.peers["a"], victim="d")
        writer.wait_for_more(20)
        assert {one.name: one.role for one in client.members()} == dict.fromkeys("acd", "voter")
    with raftmeta.Client(everybody) as client:
        found = {record.key.decode(): record.value for record in client.range(prefix="load/").records}
    assert {key: found.get(key) for key in writer.acknowledged} == writer.acknowledged


# --- one process ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("n"), names="abc") as (_, url):
        yield url


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda client: client.promote("x", timeout_s=5), raftmeta.ChangeRefused, "no member; there are a, b and c"),
        (lambda client: client.add_member("a", "127.0.0.1:1"), raftmeta.ChangeRefused, "already"),
        (lambda client: client.add_member("x", "nowhere"), raftmeta.InvalidArgument, "address"),
        (lambda client: client.replace_member("a", "a", "127.0.0.1:1"), raftmeta.InvalidArgument, "by itself"),
        (lambda client: client.add_member("x", "127.0.0.1:1", timeout_s=0.3), raftmeta.Withdrawn, "does not answer"),
    ],
)
def test_what_cannot_be_is_refused_with_the_words_of_a_node(
    served: str, call: Callable[[raftmeta.Client], object], error: type[Exception], told: str
) -> None:
    with raftmeta.Client(served) as client:
        revision = client.put("seen", b"1").revision
        with pytest.raises(error, match=told) as refused:
            call(client)
        assert not isinstance(refused.value, raftmeta.Refused) or refused.value.revision >= revision
        assert {one.role for one in client.members()} == {"voter"}


def test_a_change_without_a_quorum_tells_that_it_was_not_made(tmp_path: Path) -> None:
    with serving(tmp_path, names="abc") as (nodes, url):
        for name in "bc":
            nodes[name].close(transfer=False)
        # A leader that has not noticed yet proposes the change, and then nobody knows what became of it.
        wait_until(lambda: nodes["a"].status().leader == "", timeout_s=30, what="a to know that it is alone")
        with raftmeta.Client(url) as client, pytest.raises(raftmeta.Withdrawn, match=r"no leader|no quorum"):
            client.remove_member("b", timeout_s=0.5)


def test_the_asyncio_face_has_the_same_verbs(tmp_path: Path) -> None:
    async def use(url: str) -> list[str]:
        async with raftmeta.aio.Client(url) as client:
            await client.demote("c")
            await client.promote("c")
            await client.demote("b")
            with pytest.raises(raftmeta.ChangeRefused):
                await client.promote("x")
            return [f"{one.name} {one.role}" for one in await client.members()]

    with serving(tmp_path, names="abc") as (_, url):
        assert asyncio.run(use(url)) == ["a voter", "b standby", "c voter"]


def test_a_request_of_a_later_version_is_answered_and_nothing_else_happens(served: str) -> None:
    """Neither its connection nor what else is under way there suffers."""
    with RawClient(served) as client:
        client.send(frame(msgpack.packb([99, 7, b"later", 1])))
        assert client.next()[:3] == (1, 7, Status.BAD_VERSION)
        assert client.ask(client.encoder.ping())[0] == Status.OK


@pytest.mark.parametrize("membership", [b"\x00", b"\x01\x01" + bytes(6), bytes(10_000)])
def test_bytes_that_are_no_membership_change_nothing(served: str, membership: bytes) -> None:
    with RawClient(served) as client:
        assert client.ask(client.encoder.change(0, membership))[0] == Status.BAD_FIELD
    with raftmeta.Client(served) as client:
        assert [one.name for one in client.members()] == ["a", "b", "c"]


def test_a_step_whose_connection_broke_is_not_sent_twice() -> None:
    """A change may have been appended before the connection broke: sent again it could be judged anew, so the client
    looks first. Nothing shows, so in the end it does not claim to know."""
    changes = 0

    def other(node: FakeNode, request: dict[str, Any], answer: Callable[..., None]) -> None:
        nonlocal changes
        if request["kind"] == CHANGE:
            changes += 1
            node.drop()
        elif request["kind"] == MEMBERS:
            members = [[9, 1, b"a", b"h:1"], [8, 4, b"b", b"h:2"]]
            fields = [b"a", 9, 5, 0, changes == 0, False, 9, members, [[9, True, b"a", 0, 0, False]]]
            answer(Status.OK, 0, b"".join(msgpack.packb(field) for field in fields))

    async def ask() -> None:
        async with FakeNode(lambda *_: None, other) as node, raftmeta.aio.Client(node.url) as client:
            await client.promote("b", timeout_s=0.5)

    with pytest.raises(raftmeta.OutcomeUnknown, match="asking again is safe"):
        asyncio.run(ask())
    assert changes == 1


# --- a node that was removed ------------------------------------------------------------------------------------------


def test_clients_and_watches_of_a_removed_node_go_on_at_another(tmp_path: Path) -> None:
    """The client's commands, and a watch that was on the node, without a gap."""
    with serving(tmp_path, names="abc") as (nodes, url):
        gone = url.split(",")[2]
        with raftmeta.Client(f"raft://{gone}") as only, raftmeta.Client(url) as client:
            revision = only.put("k", "0").revision
            lonely = only.watch("k", start_revision=revision + 1, timeout_s=20)
            watches = [client.watch("k", start_revision=revision, timeout_s=20)]
            client.remove_member("c")
            with pytest.raises(raftmeta.NodeRemoved, match="name others in the URL") as told:
                next(iter(lonely))
            assert told.value.revision == revision + 1
            with pytest.raises(raftmeta.NodeRemoved):
                only.put("k", "never", timeout_s=5)
            assert client.put("k", "1").revision == told.value.revision
            events = iter(watches[0])
            assert [next(events).value, next(events).value] == [b"0", b"1"]  # type: ignore[union-attr]
            assert nodes["c"].status().state == "removed"


def test_a_watch_on_a_removed_node_ends_and_says_where_to_go_on() -> None:
    """Both faces; nothing that was committed before is missing below the revision that is told."""
    with Cluster(3) as cluster:
        leader = cluster.leader()
        gone = cluster.followers()[0]
        revision = leader.put("k", b"0").revision
        gone.get("k")
        watch = gone.watch("k", start_revision=revision, timeout_s=20)
        events = iter(watch)
        assert next(events).value == b"0"  # type: ignore[union-attr]
        leader.remove_member(gone.name)
        with pytest.raises(raftmeta.NodeRemoved, match="was removed") as told:
            next(events)
        assert told.value.revision == revision + 1
        with pytest.raises(raftmeta.NodeRemoved):
            gone.watch("k")
        with pytest.raises(raftmeta.NodeRemoved):
            gone.put("k", b"never")
        leader.put("k", b"1")
        resumed = leader.watch("k", start_revision=told.value.revision, timeout_s=10)
        assert next(iter(resumed)).value == b"1"  # type: ignore[union-attr]


def test_an_asyncio_watch_on_a_removed_node_ends_too() -> None:
    async def watch(node: raftmeta.Node, opened: threading.Event) -> int:
        face = node.aio()
        async with face.watch("k") as changes:
            opened.set()
            with pytest.raises(raftmeta.NodeRemoved) as told:
                async for _ in changes:
                    pass
            return told.value.revision

    with Cluster(3) as cluster:
        leader, gone = cluster.leader(), cluster.followers()[0]
        opened = threading.Event()
        told: list[int] = []
        thread = threading.Thread(target=lambda: told.append(asyncio.run(watch(gone, opened))))
        thread.start()
        assert opened.wait(10)
        leader.remove_member(gone.name)
        thread.join(20)
        assert told and told[0] >= 1


# --- a node that is cut off -------------------------------------------------------------------------------------------


def test_a_client_leaves_a_node_that_is_cut_off(tmp_path: Path) -> None:
    """Its node hears nobody any more, and would keep what it is asked; the others have a leader. A command that was
    under way there is applied once."""
    with serving(tmp_path, names="abc") as (nodes, url), raftmeta.Client(url) as client:
        assert client.add("n", 1).result == 1
        wait_until(lambda: client.status().is_leader, timeout_s=30, what="the client to be at the leader")
        home = client.status().name
        cut = LinkFault(cut_to=True, cut_from=True)
        set_link_faults(nodes[home], {name: cut for name in nodes if name != home})
        assert client.add("n", 1, timeout_s=15).result == 2
        assert client.status().name != home
        set_link_faults(nodes[home], {})
