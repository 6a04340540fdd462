"""The bounds of strangers: who gives way to whom, in the small and on both ports of a running node.

Issue 19 item 6 "Bounds before trust"; docs/security.md "Before they prove who they are".
"""

from __future__ import annotations

import contextlib
import ipaddress
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raftmeta
from raftmeta.bindings import verbs
from raftmeta.bindings.requests import hello_frame
from tests.client.nodes import ServingCluster, serving
from tests.client.raw import RawClient
from tests.faces.bounds import Bucket, Strangers, address_from, address_of
from tests.processes.cluster import NodeProcess, open_node, put, ready, status
from tests.processes.load import start_again
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import wait_until
from tests.security.nodes import connect
from tests.security.processes import metrics
from tests.wire.names import Status

LOCAL = 0
LOOPBACK = 1 << 32 | 0x7F000001


# --- in the small -----------------------------------------------------------------------------------------------------


class Model:
    """The rules on the first page of net/unbound.pxd, by a list."""

    def __init__(self, most: int, most_of_address: int, grace_ns: int) -> None:
        self.most, self.most_of_address, self.grace_ns = most, most_of_address, grace_ns
        self.present: list[tuple[int, int, int]] = []  # address, place, since

    def count(self, address: int) -> int:
        return sum(one[0] == address for one in self.present)

    def oldest(self, address: int) -> tuple[int, int, int]:
        return next(one for one in self.present if one[0] == address)

    def arrive(self, address: int, place: int, now_ns: int) -> tuple[bool, int | None]:
        gone = None
        has_share = address != LOCAL and self.count(address) >= self.most_of_address
        if has_share or len(self.present) == self.most:
            loser = address if has_share else max((one[0] for one in self.present), key=self.count)
            oldest = self.oldest(loser)
            if self.count(loser) <= self.count(address) and now_ns - oldest[2] < self.grace_ns:
                return False, None
            self.present.remove(oldest)
            gone = oldest[1]
        self.present.append((address, place, now_ns))
        return True, gone


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.booleans()), max_size=80)


@settings(max_examples=300)
@given(most=st.integers(1, 6), most_of_address=st.integers(1, 6), grace_ns=st.integers(0, 60), steps=STEPS)
def test_strangers_give_way_as_the_rules_say(
    most: int, most_of_address: int, grace_ns: int, steps: list[tuple[int, int, bool]]
) -> None:
    """Against the dumb model, and the bounds hold after every step."""
    strangers, model = Strangers(most, most_of_address, grace_ns), Model(most, most_of_address, grace_ns)
    entries: dict[int, int] = {}
    now_ns = 1
    for place, (address, pause_ns, leaves) in enumerate(steps):
        now_ns += pause_ns
        if leaves and model.present:
            gone = model.present.pop(pause_ns % len(model.present))[1]
            strangers.leave(entries.pop(gone))
            continue
        was_let_in, gone_place = model.arrive(address, place, now_ns)
        found = strangers.arrive(address, place, now_ns)
        assert (found is not None) == was_let_in
        if found is not None:
            assert found[1] == gone_place
            if gone_place is not None:
                del entries[gone_place]
            entries[place] = found[0]
        assert strangers.present() == [one[:2] for one in model.present]
        assert len(model.present) <= most
        assert all(model.count(one) <= most_of_address for one in range(1, 5))


def test_an_address_with_one_connection_is_let_in_whatever_another_one_opens() -> None:
    strangers = Strangers(4, 4, 10**9)
    for place in range(4):
        assert strangers.arrive(7, place, 1) is not None
    assert strangers.arrive(7, 4, 2) is None
    found = strangers.arrive(8, 5, 2)
    assert found is not None and found[1] == 0
    assert [address for address, _ in strangers.present()] == [7, 7, 7, 8]


@pytest.mark.parametrize(
    ("family", "listens", "connects", "address"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", LOOPBACK),
        (socket.AF_INET, "127.0.0.9", "127.0.0.9", LOOPBACK),
        (socket.AF_INET6, "::1", "::1", LOOPBACK),
        (socket.AF_INET, "::", "127.0.0.1", LOOPBACK),  # as ::ffff:127.0.0.1
    ],
)
def test_the_address_of_a_socket(family: int, listens: str, connects: str, address: int) -> None:
    both = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with socket.socket(both) as server, socket.socket(family) as client:
        if both == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((listens, 0))
        server.listen()
        client.connect((connects, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            assert address_of(accepted.fileno()) == address
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert address_of(ours.fileno()) == LOCAL


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("127.0.0.1", "127.255.0.3", True),
        ("127.0.0.1", "::1", True),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),  # one network of 64 bits
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("2001:db8::1", "::ffff:32.1.13.184", False),
        ("fe80::1", "fe80::2", True),
    ],
)
def test_which_addresses_count_as_one(one: str, other: str, are_one: bool) -> None:
    first, second = (address_from(ipaddress.ip_address(text).packed) for text in (one, other))
    assert (first == second) == are_one
    assert LOCAL not in (first, second)


@settings(max_examples=200)
@given(
    per_s=st.integers(1, 10**6),
    burst_ns=st.integers(1, 10**10),
    steps=st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 10**9)), max_size=60),
)
def test_a_bucket_gives_no_more_than_its_rate_and_its_burst(
    per_s: int, burst_ns: int, steps: list[tuple[int, int]]
) -> None:
    """In every span, but for the last thing taken, which may be larger than all that is left.

    And what is told of the time to wait is true: after it, something is given.
    """
    bucket, taken, now_ns = Bucket(per_s, burst_ns), 0, 10**9
    began_ns = now_ns
    for cost, pause_ns in steps:
        now_ns += pause_ns
        wait_ns = bucket.take(cost, now_ns)
        if wait_ns == 0:
            assert taken <= per_s * (now_ns - began_ns + burst_ns) / 10**9 + len(steps)
            taken += cost
        else:
            now_ns += wait_ns
            assert bucket.take(cost, now_ns) == 0
            taken += cost


# --- on a running node ------------------------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    with serving(tmp_path, client_unbound_connections_max=6, client_unbound_per_address_max=4) as (nodes, url):
        yield nodes["a"], url


def is_closed(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass
    return True


def test_silent_clients_of_one_address_crowd_out_each_other_only(node: tuple[raftmeta.Node, str]) -> None:
    """Four of twenty are kept. A client from there is served after their grace; the others' places are free."""
    address = node[1].removeprefix("raft://")
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(connect(address)) for _ in range(20)]
        wait_until(
            lambda: node[0].metrics()["client_connections_turned_away"] == 16, timeout_s=20, what="the newest to go"
        )
        wait_until(lambda: node[0].metrics()["client_connections_unbound"] == 4, timeout_s=20, what="four to stay")
        with raftmeta.Client(node[1]) as client:
            client.ready(20)
            client.put("k", "v")
        assert is_closed(flood[0])
    wait_until(lambda: node[0].metrics()["client_connections_unbound"] == 0, timeout_s=20, what="all to be gone")


def test_a_hello_that_comes_a_byte_at_a_time_ends_with_its_time(tmp_path: Path) -> None:
    """The time is for all of it: a byte now and then keeps no connection open."""
    with serving(tmp_path, hello_timeout_s=0.3) as (nodes, url), connect(url.removeprefix("raft://")) as slow:
        slow.settimeout(0.02)
        slow.sendall(hello_frame("default", "slow")[:4])  # the length, which is never reached

        def is_over() -> bool:
            try:
                slow.send(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True

        wait_until(is_over, timeout_s=20, what="the node to end it")
        wait_until(lambda: nodes["a"].metrics()["client_connections_evicted"] == 1, timeout_s=20, what="it to count")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    """A node with rights on, whose clients must prove a password."""
    with serving(tmp_path, hello_timeout_s=2.0) as (nodes, url):
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        node.auth.put_user("boss", "of the house")
        node.auth.put_role("all")
        node.auth.grant("all", "admin")
        node.auth.bind("boss", "all")
        node.auth.enable()
        yield node, url


def test_a_client_without_a_proof_is_a_stranger_until_its_time_is_over(guarded: tuple[raftmeta.Node, str]) -> None:
    """It may ask, and is told that it must prove who it is; HELLO alone keeps it no place."""
    node, url = guarded
    with RawClient(url) as stranger:
        assert stranger.ask(stranger.encoder.get("k", 0, False))[0] == Status.AUTHENTICATION_FAILED
        wait_until(lambda: node.metrics()["client_connections_unbound"] == 1, timeout_s=1, what="a stranger")
        assert stranger.is_closed()
    with raftmeta.Client(url, user="boss", password="of the house") as client:
        client.put("k", "v")
        wait_until(lambda: node.metrics()["client_connections_unbound"] == 0, timeout_s=20, what="the proof to count")
        evicted = node.metrics()["client_connections_evicted"]
        with RawClient(url) as other:  # when its time is over, so would be that of the client, which is older
            assert other.is_closed()
        client.put("k", "w")
        wait_until(
            lambda: node.metrics()["client_connections_evicted"] == evicted + 1,
            timeout_s=20,
            what="the other one to count",
        )


def test_a_long_frame_of_a_stranger_is_thrown_away_and_answered(guarded: tuple[raftmeta.Node, str]) -> None:
    """A megabyte before the proof is never kept, and its sender learns that it was not executed."""
    node, url = guarded
    with RawClient(url) as stranger:
        stranger.encoder.session = 77
        long = stranger.encoder.command(verbs.put("k", bytes(1 << 20)))
        assert stranger.ask(long)[0] == Status.AUTHENTICATION_FAILED
        for at in range(0, len(long), 1000):  # also in pieces
            stranger.send(long[at : at + 1000])
        assert stranger.next()[2] == Status.AUTHENTICATION_FAILED
        assert stranger.ask(stranger.encoder.ping())[0] == Status.OK
    with raftmeta.Client(url) as client, pytest.raises(raftmeta.AuthenticationFailed):
        client.put("k", bytes(1 << 19))
    assert node.get("k") is None


# --- descriptors ------------------------------------------------------------------------------------------------------

DESCRIPTORS = 256  # of the process; a quarter of them is kept


def open_node_with_few_descriptors(peers: dict[str, str], folder: str, client_listen: str) -> raftmeta.Node:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    return open_node("a", peers, folder, {}, client_listen=client_listen)


def test_clients_leave_descriptors_to_peers(tmp_path: Path) -> None:
    """Init: a member of three that may have 256 descriptors. Act: as many clients connect as may; then another member
    is killed and started again. Check: the links to it come back, and the rest of the clients was turned away."""
    with ServingCluster(tmp_path) as cluster, contextlib.ExitStack() as stack:
        cluster.nodes["a"].kill()
        arguments = (cluster.peers, str(cluster.nodes["a"].folder), cluster.clients["a"])
        few = RemoteProcess(open_node_with_few_descriptors, *arguments, log=tmp_path / "few.log")
        stack.callback(few.kill)
        few.start()
        few.call(ready, 30.0)

        def is_full() -> bool:
            stack.enter_context(connect(cluster.clients["a"])).sendall(hello_frame("default", "one of many"))
            return bool(few.call(metrics)["client_connections_turned_away"])

        wait_until(is_full, timeout_s=60, what="a client to be turned away")
        assert 100 < few.call(metrics)["client_connections"] < DESCRIPTORS - DESCRIPTORS // 4
        start_again_after_kill(cluster.nodes["b"])
        wait_until(
            lambda: all(one["is_connected"] for one in few.call(status)["members"] if one["role"]),
            timeout_s=30,
            what="the links to come back",
        )
        assert few.call(put, "k", b"v") > 0


def start_again_after_kill(node: NodeProcess) -> None:
    node.kill()
    start_again(node)
