"""Three nodes with doors: sessions move, order holds over changes of leader, a minority reads, a GIL may be held."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest

import raftmeta
from raftmeta import faults
from raftmeta.faults import LinkFault
from tests.node.nodes import leader_of
from tests.processes.child import hold_gil
from tests.processes.cluster import ready
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports, wait_until
from tests.zookeeper.nodes import (
    CHANGED,
    CREATE,
    DELETE,
    EPHEMERAL,
    EVENT_XID,
    GET_DATA,
    OPEN_ACL,
    PING,
    PING_XID,
    SEQUENTIAL,
    SET_DATA,
    SYNC,
    RawClient,
    doors,
    open_door,
    text,
    word,
)

SESSION_MOVED, NOT_READ_ONLY = -118, -119
HELD_S = 5.0


def test_a_session_moves_between_nodes(tmp_path: Path) -> None:
    """Its ephemerals stay, its old connection is closed, and each node shows what another one has answered."""
    with doors(tmp_path, names="abc") as (_, at), RawClient(at["a"]) as first:
        assert first.create(b"/e", b"", EPHEMERAL).error == 0
        zxid = first.call(PING, xid=PING_XID).zxid
        with RawClient(at["b"], session=first.session, password=first.password, zxid=zxid) as second:
            assert (second.session, second.timeout_ms) == (first.session, first.timeout_ms)
            assert second.exists(b"/e").error == 0
            assert first.is_closed()
            with RawClient(at["c"], session=first.session, password=first.password, zxid=zxid) as third:
                assert third.session == first.session
                assert second.is_closed()
                assert third.set_data(b"/e", b"x").error == 0


def test_a_write_of_a_connection_that_was_left_is_never_carried_out_late(tmp_path: Path) -> None:
    """Once its client has its session elsewhere, what it had sent before is done or is never done."""
    with doors(tmp_path, names="abc") as (_, at):
        for round_ in range(10):
            with RawClient(at["a"]) as first:
                for number in range(200):
                    first.ask(CREATE, text(b"/r%d-%d" % (round_, number)) + text(b"") + OPEN_ACL + struct.pack(">i", 0))
                with RawClient(at["b"], session=first.session, password=first.password) as second:
                    assert second.session == first.session
                    seen = sorted(second.children(b"/"))
                    second.call(SYNC, text(b"/"))
                    assert sorted(second.children(b"/")) == seen
                    # Not by accident the first ones: they are carried out in their order.
                    done = sum(1 for name in seen if name.startswith(b"r%d-" % round_))
                    assert all(b"r%d-%d" % (round_, number) in seen for number in range(done))


def test_a_write_that_was_held_up_is_never_carried_out_late(tmp_path: Path) -> None:
    """A follower sends writes to its leader, slowly. The session moves before they arrive, so they are void."""
    with doors(tmp_path, names="abc", heartbeat_s=0.1, election_timeout_s=5.0) as (nodes, at):
        leader = leader_of(nodes)
        slow = next(node for node in nodes.values() if node is not leader)
        with RawClient(at[slow.name]) as first:
            assert first.create(b"/before").error == 0
            written = slow.metrics()["zookeeper_writes"]
            faults.set_link_faults(slow, {leader.name: LinkFault(delay_s=2.0)})
            for number in range(20):
                first.ask(CREATE, text(b"/late-%d" % number) + text(b"") + OPEN_ACL + struct.pack(">i", 0))
            wait_until(
                lambda: slow.metrics()["zookeeper_writes"] >= written + 20, timeout_s=20, what="writes to be taken"
            )
            with RawClient(at[leader.name], session=first.session, password=first.password) as second:
                assert second.session == first.session
                seen = sorted(second.children(b"/"))
                with RawClient(at[slow.name]) as third:  # its write goes the same way, behind them
                    assert third.create(b"/behind").error == 0
                second.call(SYNC, text(b"/"))
                assert sorted(second.children(b"/")) == sorted([*seen, b"behind"])
                assert seen == [b"before", b"zookeeper"]


def transfer(nodes: dict[str, raftmeta.Node]) -> None:
    """Another node leads."""
    old = leader_of(nodes)
    target = next(name for name in nodes if name != old.name)
    old.transfer(target, timeout_s=20)


@pytest.mark.parametrize("where", ["leader", "follower"])
def test_pipelined_writes_keep_their_order_over_changes_of_leader(tmp_path: Path, where: str) -> None:
    """Sequential nodes get the numbers in the order in which their client asked for them, and none is lost."""
    count = 600
    with doors(tmp_path, names="abc") as (nodes, at):
        leader = leader_of(nodes).name
        name = leader if where == "leader" else next(each for each in nodes if each != leader)
        with RawClient(at[name]) as client:
            assert client.create(b"/s").error == 0
            for number in range(count):
                client.ask(CREATE, text(b"/s/n-") + text(b"%d" % number) + OPEN_ACL + struct.pack(">i", SEQUENTIAL))
                if number % 200 == 100:
                    transfer(nodes)
            replies = [client.reply() for _ in range(count)]
            assert {reply.error for reply in replies} == {0}
            assert [reply.body[4:] for reply in replies] == [b"/s/n-%010d" % number for number in range(count)]


def test_a_client_sees_its_own_writes_on_a_follower(tmp_path: Path) -> None:
    """Writes and reads mixed, and no read shows less than the write before it."""
    with doors(tmp_path, names="abc") as (nodes, at):
        follower = next(name for name in nodes if name != leader_of(nodes).name)
        with RawClient(at[follower]) as client:
            client.create(b"/n", b"-")
            for number in range(200):
                client.ask(SET_DATA, text(b"/n") + text(b"%d" % number) + struct.pack(">i", -1))
                client.ask(GET_DATA, text(b"/n") + b"\0")
            for number in range(200):
                assert client.reply().error == 0
                assert client.reply().body[4:].startswith(b"%d" % number)


def ask_in_turns(client: RawClient, path: bytes, count: int) -> None:
    """Write and read by turns without waiting; each read sets a watch."""
    for number in range(count):
        client.ask(SET_DATA, text(path) + text(b"%d." % number) + struct.pack(">i", -1))
        client.ask(GET_DATA, text(path) + b"\1")


def check_turns(client: RawClient, count: int) -> None:
    """Each read shows the write before it and none behind it; its watch tells of the next write, before its reply."""
    for number in range(count):
        reply = client.reply()
        if number:
            assert (reply.xid, reply.event[0]) == (EVENT_XID, CHANGED)
            reply = client.reply()
        assert reply.error == 0
        value = b"%d." % number
        assert client.reply().body[: 4 + len(value)] == text(value)


def test_a_read_shows_the_write_before_it_and_none_behind_it(tmp_path: Path) -> None:
    """Of several clients of one node at once, who write and read by turns and do not wait."""
    count = 300
    with doors(tmp_path, names="abc") as (nodes, at), contextlib.ExitStack() as stack:
        follower = next(name for name in nodes if name != leader_of(nodes).name)
        clients = [stack.enter_context(RawClient(at[follower])) for _ in range(3)]
        for number, client in enumerate(clients):
            assert client.create(b"/n%d" % number).error == 0
        for number, client in enumerate(clients):
            ask_in_turns(client, b"/n%d" % number, count)
        with RawClient(at[follower]) as other:
            assert other.exists(b"/n0").error == 0
        for client in clients:
            check_turns(client, count)


def test_a_write_does_not_wait_for_the_reads_before_it(tmp_path: Path) -> None:
    """Many writes of a client who writes and reads by turns are in the log and not committed, at the same time."""
    count = 40
    with doors(tmp_path, names="abc", heartbeat_s=0.1, election_timeout_s=1.0) as (nodes, at):
        leader = leader_of(nodes)
        with RawClient(at[leader.name]) as client:
            assert client.create(b"/n").error == 0
            slow = {name: LinkFault(delay_s=0.3) for name in nodes if name != leader.name}
            faults.set_link_faults(leader, slow)
            ask_in_turns(client, b"/n", count)

            def many_wait() -> bool:
                status = leader.status()
                return status.last - status.committed >= count // 2

            wait_until(many_wait, timeout_s=20, what="writes in the log that are not committed")
            faults.set_link_faults(leader, {})
            check_turns(client, count)


def test_sync_and_linearizable_reads_show_what_was_written_elsewhere(tmp_path: Path) -> None:
    """By sync with ZooKeeper's own reads; by each read where the node is so configured."""
    with (
        doors(tmp_path, names="abc", zookeeper_linearizable_reads=True) as (_, at),
        RawClient(at["a"]) as writer,
        RawClient(at["b"]) as reader,
    ):
        writer.create(b"/x", b"0")
        for number in range(50):
            assert writer.set_data(b"/x", b"%d" % number).error == 0
            assert reader.get_data(b"/x").body[4:].startswith(b"%d" % number)


def test_a_sync_shows_what_was_written_elsewhere(tmp_path: Path) -> None:
    """By the reads of ZooKeeper, which are a node's own: what was answered before the sync is there behind it."""
    with doors(tmp_path, names="abc") as (nodes, at):
        leader = leader_of(nodes).name
        follower = next(name for name in nodes if name != leader)
        with RawClient(at[leader]) as writer, RawClient(at[follower]) as reader:
            writer.create(b"/y", b"-")
            for number in range(100):
                assert writer.set_data(b"/y", b"%d" % number).error == 0
                reader.ask(SYNC, text(b"/y"))
                reader.ask(GET_DATA, text(b"/y") + b"\0")
                assert reader.reply().error == 0
                assert reader.reply().body[4:].startswith(b"%d" % number)


def test_no_write_is_answered_without_a_majority(tmp_path: Path) -> None:
    """The connection is closed: nobody knows what became of the write."""
    with doors(tmp_path, names="abc", zookeeper_tick_s=0.5) as (nodes, at), RawClient(at["a"]) as client:
        assert client.create(b"/left").error == 0
        nodes["b"].close(transfer=False)
        nodes["c"].close(transfer=False)
        client.ask(DELETE, text(b"/left") + struct.pack(">i", -1))
        with pytest.raises(ConnectionError):
            client.reply()


def test_a_minority_serves_readers_that_are_content_with_it(tmp_path: Path) -> None:
    """All other connections are closed; a read-only one reads, and is refused a write."""
    with doors(tmp_path, names="abc", zookeeper_tick_s=0.5) as (nodes, at):
        with RawClient(at["a"]) as client:
            assert client.create(b"/kept", b"value").error == 0
            nodes["b"].close(transfer=False)
            nodes["c"].close(transfer=False)
            assert client.is_closed()
        wait_until(lambda: word(at["a"], b"isro") == b"ro", timeout_s=20, what="the node to know that it is alone")
        with RawClient(at["a"], read_only=True) as reader:
            assert reader.is_read_only
            assert reader.get_data(b"/kept").body[4:9] == b"value"
            assert reader.set_data(b"/kept", b"x").error == NOT_READ_ONLY
        with pytest.raises(ConnectionError):
            RawClient(at["a"])


def test_a_minority_knows_whose_a_session_is_and_shows_nothing_older(tmp_path: Path) -> None:
    """A read-only client keeps its session, here by its password; one that has seen more than this node goes elsewhere.

    Sessions that a minority made up go on there, too."""
    with doors(tmp_path, names="abc", zookeeper_tick_s=0.5) as (nodes, at):
        with RawClient(at["a"]) as client:
            assert client.create(b"/mine", b"", EPHEMERAL).error == 0
            zxid = client.call(PING, xid=PING_XID).zxid
            nodes["b"].close(transfer=False)
            nodes["c"].close(transfer=False)
            assert client.is_closed()
        wait_until(lambda: word(at["a"], b"isro") == b"ro", timeout_s=20, what="the node to know that it is alone")
        own = {"session": client.session, "password": client.password, "read_only": True}
        with RawClient(at["a"], zxid=zxid, **own) as again:
            assert (again.session, again.timeout_ms, again.is_read_only) == (client.session, client.timeout_ms, True)
            assert again.exists(b"/mine").error == 0
        for wrong in ({**own, "password": b"x" * 16}, {**own, "session": client.session ^ 1}, {"zxid": zxid + 1000}):
            with pytest.raises(ConnectionError):
                RawClient(at["a"], **{"read_only": True, **wrong})
        with RawClient(at["a"], read_only=True) as fresh:
            made_up = {"session": fresh.session, "password": fresh.password, "read_only": True}
        with RawClient(at["a"], **made_up) as fresh:
            assert fresh.session == made_up["session"]


def test_a_session_outlives_the_node_that_served_it(tmp_path: Path) -> None:
    """The node is closed; the client goes on with another one within its time-out."""
    with doors(tmp_path, names="abc") as (nodes, at), RawClient(at["a"]) as first:
        assert first.create(b"/outlives", b"", EPHEMERAL).error == 0
        nodes["a"].close()
        assert first.is_closed()
        with RawClient(at["b"], session=first.session, password=first.password) as second:
            assert second.session == first.session
            assert second.exists(b"/outlives").error == 0


@pytest.mark.uninstrumented
def test_a_held_gil_costs_no_session_and_delays_no_reply(memory_folder: Path) -> None:
    """A host that holds its GIL for five seconds: its clients are served meanwhile, and sessions of 0.8 s live on."""
    ports = free_ports(6)
    peers = {name: f"127.0.0.1:{port}" for name, port in zip("abc", ports, strict=False)}
    at = dict(zip("abc", ports[3:], strict=True))
    hosts = {
        name: RemoteProcess(
            open_door, name, peers, str(memory_folder / name), at[name], log=memory_folder / f"{name}.log"
        )
        for name in "abc"
    }
    try:
        for host in hosts.values():
            host.start()
        for host in hosts.values():
            host.call(ready, 30)
        with RawClient(at["a"], timeout_ms=1) as client:
            assert client.create(b"/e", b"", EPHEMERAL).error == 0
            held = hosts["a"].begin(hold_gil, HELD_S)
            answered = 0
            while not held.done():
                assert client.set_data(b"/e", b"%d" % answered).error == 0
                assert client.call(PING, xid=PING_XID).error == 0
                answered += 1
            assert held.result(20) >= HELD_S
            assert answered > 100
            assert client.exists(b"/e").error == 0
    finally:
        for host in hosts.values():
            host.kill()
