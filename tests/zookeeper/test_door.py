"""The ZooKeeper door of one node, byte by byte: sessions, order, watches, bounds, words."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.waiting import wait_until
from tests.zookeeper.nodes import (
    ADD_WATCH,
    CHANGED,
    CHILDREN,
    CLOSE,
    CREATE,
    CREATED,
    DELETE,
    DELETED,
    EPHEMERAL,
    EVENT_XID,
    GET_DATA,
    GET_EPHEMERALS,
    OPEN_ACL,
    PING,
    PING_XID,
    REMOVE_WATCHES,
    SEQUENTIAL,
    SET_DATA,
    SET_WATCHES,
    SET_WATCHES_XID,
    SYNC,
    RawClient,
    doors,
    strings,
    text,
    word,
)

NO_NODE, NODE_EXISTS, BAD_VERSION, NO_WATCHER = -101, -110, -103, -121
DATA_INCONSISTENCY = -3
TICK_S = 0.4


@pytest.fixture
def door(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, int]]:
    with doors(tmp_path, zookeeper_tick_s=TICK_S) as (nodes, at):
        yield nodes["a"], at["a"]


def test_a_session_lasts_two_to_twenty_ticks(door: tuple[raftmeta.Node, int]) -> None:
    """ZooKeeper clamps the time-out that a client asks for."""
    with RawClient(door[1], timeout_ms=1) as short, RawClient(door[1], timeout_ms=600_000) as long:
        assert (short.timeout_ms, long.timeout_ms) == (800, 8000)
        assert 0 < short.session != long.session > 0


def test_nodes_are_made_read_changed_and_removed(door: tuple[raftmeta.Node, int]) -> None:
    """The four basic requests and their errors; the native face sees the same data."""
    node, port = door
    with RawClient(port) as client:
        assert client.create(b"/a", b"one").error == 0
        assert client.create(b"/a", b"two").error == NODE_EXISTS
        assert client.create(b"/no/child").error == NO_NODE
        assert client.set_data(b"/a", b"three", 7).error == BAD_VERSION
        assert client.set_data(b"/a", b"three", 0).error == 0
        reply = client.get_data(b"/a")
        assert reply.error == 0
        assert reply.body[4:9] == b"three"
        assert client.get_data(b"/b").error == NO_NODE
        assert sorted(client.children(b"/")) == [b"a", b"zookeeper"]
        assert node.get("zookeeper/a") is not None
        assert client.call(DELETE, text(b"/a") + struct.pack(">i", -1)).error == 0
        assert client.exists(b"/a").error == NO_NODE


def test_nodes_of_old_are_there_before_anything_was_made(door: tuple[raftmeta.Node, int]) -> None:
    """/, /zookeeper and what is below it need no command."""
    with RawClient(door[1]) as client:
        assert client.children(b"/") == [b"zookeeper"]
        assert sorted(client.children(b"/zookeeper")) == [b"config", b"quota"]
        assert client.exists(b"/zookeeper/quota").error == 0


def test_children_are_listed_without_those_below_them(door: tuple[raftmeta.Node, int]) -> None:
    """A child with children of its own stands in the list once, also beside names that sort around the slash."""
    with RawClient(door[1]) as client:
        for path in (b"/p", b"/p/a", b"/p/a!", b"/p/a0", b"/p/a/x", b"/p/a/y", b"/p/b", b"/p/b/z", b"/pq"):
            assert client.create(path).error == 0
        assert sorted(client.children(b"/p")) == [b"a", b"a!", b"a0", b"b"]
        assert client.children(b"/p/a") == [b"x", b"y"]
        assert client.children(b"/p/b/z") == []


def test_replies_come_in_the_order_of_requests(door: tuple[raftmeta.Node, int]) -> None:
    """A thousand requests at once, writes and reads mixed: each read sees exactly the writes before it."""
    with RawClient(door[1]) as client:
        assert client.create(b"/n", b"0").error == 0
        for number in range(500):
            client.ask(SET_DATA, text(b"/n") + text(b"%d" % number) + struct.pack(">i", -1))
            client.ask(GET_DATA, text(b"/n") + b"\0")
        zxid = 0
        for number in range(500):
            written, read = client.reply(), client.reply()
            assert (written.xid, read.xid) == (2 * number + 2, 2 * number + 3)
            assert (written.error, read.error) == (0, 0)
            length = struct.unpack(">i", read.body[:4])[0]
            assert read.body[4 : 4 + length] == b"%d" % number
            assert zxid <= written.zxid <= read.zxid
            zxid = read.zxid


def test_an_error_takes_its_place_in_the_order(door: tuple[raftmeta.Node, int]) -> None:
    """A request that is wrong by itself is answered behind the writes before it."""
    with RawClient(door[1]) as client:
        first = client.ask(CREATE, text(b"/e") + text(b"") + OPEN_ACL + struct.pack(">i", 0))
        second = client.ask(CREATE, text(b"no-slash") + text(b"") + OPEN_ACL + struct.pack(">i", 0))
        third = client.ask(PING, xid=PING_XID)
        replies = [client.reply() for _ in range(3)]
        assert [reply.xid for reply in replies] == [first, second, third]
        assert [reply.error for reply in replies] == [0, -8, 0]


def test_an_event_goes_before_the_reply_that_shows_it(door: tuple[raftmeta.Node, int]) -> None:
    """On the connection that made the change, and on another that reads it; with the zxid of the change."""
    with RawClient(door[1]) as writer, RawClient(door[1]) as reader:
        assert writer.create(b"/w", b"old").error == 0
        reader.call(SYNC, text(b"/"))
        assert reader.get_data(b"/w", watch=True).error == 0
        assert writer.get_data(b"/w", watch=True).error == 0
        asked = writer.ask(SET_DATA, text(b"/w") + text(b"new") + struct.pack(">i", -1))
        event, reply = writer.reply(), writer.reply()
        assert (event.xid, event.event) == (EVENT_XID, (CHANGED, b"/w"))
        assert reply.xid == asked
        assert event.zxid == reply.zxid
        reader.ask(GET_DATA, text(b"/w") + b"\0")
        assert reader.reply().event == (CHANGED, b"/w")
        assert reader.reply().body[4:7] == b"new"


def test_each_kind_of_watch_is_told_what_it_waits_for(door: tuple[raftmeta.Node, int]) -> None:
    """Data, existence and children, each once."""
    with RawClient(door[1]) as watcher, RawClient(door[1]) as writer:
        assert watcher.exists(b"/k", watch=True).error == NO_NODE
        assert writer.create(b"/k").error == 0
        assert watcher.reply().event == (CREATED, b"/k")
        assert watcher.children(b"/k", watch=True) == []
        assert watcher.get_data(b"/k", watch=True).error == 0
        assert writer.create(b"/k/c").error == 0
        assert watcher.reply().event == (CHILDREN, b"/k")
        assert writer.create(b"/k/d").error == 0
        assert writer.set_data(b"/k", b"x").error == 0
        assert watcher.reply().event == (CHANGED, b"/k")
        assert watcher.get_data(b"/k/c", watch=True).error == 0
        assert writer.call(DELETE, text(b"/k/c") + struct.pack(">i", -1)).error == 0
        assert watcher.reply().event == (DELETED, b"/k/c")
        assert watcher.call(PING, xid=PING_XID).error == 0


def test_lasting_watches_stay_until_they_are_removed(door: tuple[raftmeta.Node, int]) -> None:
    """A recursive one hears of every node below, and never of lists of children."""
    with RawClient(door[1]) as watcher, RawClient(door[1]) as writer:
        assert writer.create(b"/l").error == 0
        watcher.call(SYNC, text(b"/"))
        assert watcher.call(ADD_WATCH, text(b"/l") + struct.pack(">i", 1)).error == 0
        for path in (b"/l/a", b"/l/a/b"):
            assert writer.create(path).error == 0
            assert watcher.reply().event == (CREATED, path)
        assert writer.set_data(b"/l/a", b"x").error == 0
        assert watcher.reply().event == (CHANGED, b"/l/a")
        assert watcher.call(REMOVE_WATCHES, text(b"/l") + struct.pack(">i", 3)).error == 0
        assert watcher.call(REMOVE_WATCHES, text(b"/l") + struct.pack(">i", 3)).error == NO_WATCHER
        assert writer.set_data(b"/l/a", b"y").error == 0
        assert watcher.call(PING, xid=PING_XID).error == 0


def test_watches_set_again_tell_what_was_missed(door: tuple[raftmeta.Node, int]) -> None:
    """setWatches after a lost connection: an event for each change since the zxid that the client saw."""
    with RawClient(door[1]) as client:
        for path in (b"/changed", b"/same", b"/parent", b"/gone"):
            client.create(path)
        seen = client.call(PING, xid=PING_XID).zxid
        client.set_data(b"/changed", b"x")
        client.create(b"/parent/child")
        client.create(b"/new")
        client.call(DELETE, text(b"/gone") + struct.pack(">i", -1))
        client.ask(
            SET_WATCHES,
            struct.pack(">q", seen)
            + strings(b"/changed", b"/same", b"/gone")
            + strings(b"/new", b"/still-missing")
            + strings(b"/parent", b"/same"),
            xid=SET_WATCHES_XID,
        )
        events = {client.reply().event for _ in range(4)}
        assert events == {(CHANGED, b"/changed"), (DELETED, b"/gone"), (CREATED, b"/new"), (CHILDREN, b"/parent")}
        reply = client.reply()
        assert (reply.xid, reply.error) == (SET_WATCHES_XID, 0)
        asked = client.ask(SET_DATA, text(b"/same") + text(b"x") + struct.pack(">i", -1))
        assert client.reply().event == (CHANGED, b"/same")
        assert client.reply().xid == asked


def test_a_closed_session_takes_its_ephemerals_along(door: tuple[raftmeta.Node, int]) -> None:
    """close is answered, the connection ends, and the others see the nodes go."""
    with RawClient(door[1]) as owner, RawClient(door[1]) as other:
        assert owner.create(b"/mine", b"", EPHEMERAL).error == 0
        other.call(SYNC, text(b"/"))
        assert other.exists(b"/mine", watch=True).error == 0
        assert owner.call(CLOSE).error == 0
        assert owner.is_closed()
        assert other.reply().event == (DELETED, b"/mine")
        assert other.exists(b"/mine").error == NO_NODE


def test_a_close_is_answered_when_the_ephemerals_are_gone(door: tuple[raftmeta.Node, int]) -> None:
    """A client that reads after the answer finds no ephemeral. It waits for no time-out."""
    with RawClient(door[1]) as owner, RawClient(door[1]) as other:
        assert owner.create(b"/closing", b"", EPHEMERAL).error == 0
        assert owner.call(CLOSE).error == 0
        assert other.call(SYNC, text(b"/")).error == 0
        assert other.exists(b"/closing").error == NO_NODE


def test_a_silent_session_ends_and_cannot_be_resumed(door: tuple[raftmeta.Node, int]) -> None:
    """Its connection is closed, its ephemerals go, and who comes back is told session 0."""
    with RawClient(door[1]) as other, RawClient(door[1], timeout_ms=1) as silent:
        assert silent.create(b"/silent", b"", EPHEMERAL).error == 0
        other.call(SYNC, text(b"/"))
        assert other.exists(b"/silent", watch=True).error == 0
        assert silent.is_closed()
        assert other.reply().event == (DELETED, b"/silent")
        with RawClient(door[1], session=silent.session, password=silent.password) as late:
            assert (late.session, late.timeout_ms) == (0, 0)
            assert late.is_closed()


def test_no_session_ends_before_its_time_out(tmp_path: Path) -> None:
    """Counted from the last word of a client whose connection broke at once behind it, at each moment between two
    keep-alives of the node.
    """
    tick_s, count = 1.0, 12
    timeout_s, apart_s = 2 * tick_s, tick_s / 4 / count
    with doors(tmp_path, zookeeper_tick_s=tick_s) as (_, at), contextlib.ExitStack() as stack:
        watcher = stack.enter_context(RawClient(at["a"], timeout_ms=20_000))
        clients = [stack.enter_context(RawClient(at["a"], timeout_ms=1)) for _ in range(count)]
        for number, client in enumerate(clients):
            assert client.create(b"/e%d" % number, b"", EPHEMERAL).error == 0
            assert watcher.exists(b"/e%d" % number, watch=True).error == 0
        begin_s = time.monotonic()
        said_s = dict[bytes, float]()
        for number, client in enumerate(clients):
            while time.monotonic() < begin_s + tick_s + number * apart_s:
                for each in clients[number:]:
                    before_s = time.monotonic()
                    each.call(PING, xid=PING_XID)
                    said_s[b"/e%d" % clients.index(each)] = before_s
            client.socket.close()
        lived_s = {}
        for _ in clients:
            kind, path = watcher.reply().event
            assert kind == DELETED
            lived_s[path] = time.monotonic() - said_s[path]
        assert min(lived_s.values()) >= timeout_s, lived_s


@pytest.mark.parametrize("last", ["a ping", "a new connection"])
def test_the_last_word_before_a_connection_closes_counts(tmp_path: Path, last: str) -> None:
    """A session that was silent says one thing, and its connection closes at once: it lasts for a whole time-out."""
    with (
        doors(tmp_path, zookeeper_tick_s=0.2) as (_, at),
        RawClient(at["a"]) as other,
        RawClient(at["a"], timeout_ms=1) as measure,
        RawClient(at["a"], timeout_ms=1000) as first,
    ):
        assert first.create(b"/e", b"", EPHEMERAL).error == 0
        other.call(SYNC, text(b"/"))
        assert other.exists(b"/e", watch=True).error == 0
        assert measure.is_closed()  # the others have been silent for 400 ms
        said_s = time.monotonic()
        if last == "a ping":
            assert first.call(PING, xid=PING_XID).error == 0
        else:
            with RawClient(at["a"], session=first.session, password=first.password) as second:
                assert (second.session, second.timeout_ms) == (first.session, 1000)
        first.socket.close()
        assert other.reply().event == (DELETED, b"/e")
        assert time.monotonic() - said_s > 0.9


def test_a_session_is_resumed_with_its_password_alone(door: tuple[raftmeta.Node, int]) -> None:
    """The new connection goes on, the old one is closed; a wrong password is told as an ended session."""
    with RawClient(door[1]) as first:
        assert first.create(b"/kept", b"", EPHEMERAL).error == 0
        with RawClient(door[1], session=first.session, password=b"x" * 16) as thief:
            assert (thief.session, thief.timeout_ms) == (0, 0)
        with RawClient(door[1], session=first.session, password=first.password) as second:
            assert second.session == first.session
            assert first.is_closed()
            assert second.exists(b"/kept").error == 0
            assert second.create(b"/more", b"", EPHEMERAL).error == 0


def test_a_client_of_another_cluster_is_sent_away(door: tuple[raftmeta.Node, int]) -> None:
    """It has seen a zxid that this cluster never had."""
    with pytest.raises(ConnectionError):
        RawClient(door[1], zxid=1 << 40)


def test_sequential_nodes_are_numbered_by_their_parent(door: tuple[raftmeta.Node, int]) -> None:
    """Ten digits, and pipelined creates get ascending numbers."""
    with RawClient(door[1]) as client:
        client.create(b"/q")
        for _ in range(50):
            client.ask(CREATE, text(b"/q/n-") + text(b"") + OPEN_ACL + struct.pack(">i", SEQUENTIAL))
        assert [client.reply().body[4:] for _ in range(50)] == [b"/q/n-%010d" % number for number in range(50)]


def test_a_number_is_never_given_twice(door: tuple[raftmeta.Node, int]) -> None:
    """Also if the node that had it is gone."""
    with RawClient(door[1]) as client:
        client.create(b"/r")
        for number in range(3):
            reply = client.create(b"/r/n-", b"", SEQUENTIAL)
            assert reply.body[4:] == b"/r/n-%010d" % number
            assert client.call(DELETE, reply.body + struct.pack(">i", -1)).error == 0


HOSTILE = {
    "a negative length": struct.pack(">i", -5),
    "a length beyond all bounds": struct.pack(">i", 1 << 30) + b"x" * 100,
    "an empty frame": struct.pack(">i", 0),
    "a frame without a header": text(b"abc"),
    "a request that does not exist": text(struct.pack(">ii", 1, 4711)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_frames_close_their_connection_alone(door: tuple[raftmeta.Node, int], kind: str) -> None:
    """Whatever a client sends, the others are served."""
    with RawClient(door[1]) as hostile, RawClient(door[1]) as other:
        hostile.socket.sendall(HOSTILE[kind])
        assert hostile.is_closed()
        assert other.create(b"/still-here").error == 0


def test_a_stranger_without_a_session_is_closed_in_time(tmp_path: Path) -> None:
    """One that says nothing, and one that says half of a connect request."""
    with doors(tmp_path, hello_timeout_s=0.3) as (_, at):
        for said in (b"", struct.pack(">i", 44) + b"half"):
            with socket.create_connection(("127.0.0.1", at["a"]), timeout=20) as stranger:
                stranger.sendall(said)
                assert stranger.recv(1) == b""


def test_words_of_four_letters_are_answered(door: tuple[raftmeta.Node, int]) -> None:
    """What operators and exporters ask."""
    with RawClient(door[1]) as client:
        client.create(b"/node")
        assert word(door[1], b"ruok") == b"imok"
        assert b"Mode: standalone" in word(door[1], b"srvr")
        assert word(door[1], b"isro") == b"rw"
        assert b"zookeeper.version=3.9" in word(door[1], b"envi")
        assert b"zk_znode_count" in word(door[1], b"mntr")
        assert f"{client.session:x}".encode() in word(door[1], b"cons")


def test_thousands_of_watches_of_one_client_fire(door: tuple[raftmeta.Node, int]) -> None:
    """Each is told once, and the node forgets them with the connection."""
    node, port = door
    with RawClient(port) as watcher, RawClient(port) as writer:
        for number in range(2000):
            watcher.ask(3, text(b"/many%d" % number) + b"\1")
        assert {watcher.reply().error for _ in range(2000)} == {NO_NODE}
        wait_until(lambda: node.metrics()["zookeeper_watches"] == 2000, timeout_s=20, what="the watches to be counted")
        for number in range(1000):
            writer.ask(CREATE, text(b"/many%d" % number) + text(b"") + OPEN_ACL + struct.pack(">i", 0))
        assert {watcher.reply().event for _ in range(1000)} == {
            (CREATED, b"/many%d" % number) for number in range(1000)
        }
    wait_until(lambda: node.metrics()["zookeeper_watches"] == 0, timeout_s=20, what="the watches to go")


def test_a_large_tree_is_counted_in_parts_and_whole(door: tuple[raftmeta.Node, int]) -> None:
    """More nodes than one part has; the first answer may show a part of them."""
    count = 4_500
    with RawClient(door[1]) as client:
        for number in range(count):
            client.ask(CREATE, text(b"/n%d" % number) + text(b"") + OPEN_ACL + struct.pack(">i", 0))
        assert {client.reply().error for _ in range(count)} == {0}
        whole = b"zk_znode_count\t%d\n" % (count + 4)
        wait_until(lambda: whole in word(door[1], b"mntr"), timeout_s=10, what="the count of the whole tree")
        client.call(DELETE, text(b"/n0") + struct.pack(">i", -1))
        assert whole in word(door[1], b"mntr")


def test_a_small_tree_is_counted_whenever_somebody_asks(door: tuple[raftmeta.Node, int]) -> None:
    """A count of a minute ago would show nothing of what was made since."""
    with RawClient(door[1]) as client:
        for number in range(1, 4):
            assert client.create(b"/n%d" % number).error == 0
            assert b"zk_znode_count\t%d\n" % (4 + number) in word(door[1], b"mntr")


def test_ephemerals_are_listed_by_the_beginning_of_their_paths(door: tuple[raftmeta.Node, int]) -> None:
    """The own ones, as ZooKeeper lists them: /ab begins with /a, and /b does not."""
    with RawClient(door[1]) as client, RawClient(door[1]) as other:
        assert client.create(b"/a").error == 0
        for path in (b"/0", b"/a/e", b"/ab", b"/b"):
            assert client.create(path, b"", EPHEMERAL).error == 0
        assert other.create(b"/a/other", b"", EPHEMERAL).error == 0
        assert client.call(GET_EPHEMERALS, text(b"/a")).body == strings(b"/a/e", b"/ab")
        assert client.call(GET_EPHEMERALS, text(b"/")).body == strings(b"/0", b"/a/e", b"/ab", b"/b")
        assert client.call(GET_EPHEMERALS, text(b"/c")).body == strings()


def test_a_native_key_at_the_root_is_told_as_what_is_wrong(door: tuple[raftmeta.Node, int]) -> None:
    """Writes have an error of their own until the key is gone; then the tree begins."""
    node, port = door
    node.put("zookeeper/", b"not a znode")
    with RawClient(port) as client:
        assert client.create(b"/a").error == DATA_INCONSISTENCY
        node.delete("zookeeper/")
        assert client.create(b"/a").error == 0
        assert client.children(b"/") == [b"a", b"zookeeper"]
