"""What reaches the port from outside: nonsense closes its connection, is counted, and does nothing else."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.faces.wire import frame_encode, hello_encode
from tests.node.nodes import QUICK, leader_of, make_nodes, one_node, running
from tests.processes.waiting import free_ports, wait_until
from tests.wire.names import FrameType, Status

LINKS_MAX = 32


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Node]:
    with one_node(tmp_path_factory.mktemp("network"), hello_timeout_s=0.5, unbound_connections_max=8) as made:
        yield made


def connect(node: raftmeta.Node) -> socket.socket:
    address = node.identity.listen
    return socket.create_connection((address.host, address.port), timeout=5)


def is_closed(connection: socket.socket) -> bool:
    """The other side ended it, whatever it said before."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def refused(node: raftmeta.Node) -> int:
    return node.metrics()["connections_refused"]


def test_random_bytes_are_refused_by_their_first(node: raftmeta.Node) -> None:
    source = random.Random(1)
    before = refused(node)
    for _ in range(50):
        with connect(node) as connection:
            connection.sendall(bytes([source.randrange(1, 256) & 0x7E]) + source.randbytes(source.randrange(1, 200)))
            assert is_closed(connection)
    wait_until(lambda: refused(node) == before + 50, timeout_s=20, what="the refusals to be counted")
    node.put("k", b"still here")


def test_an_http_request_is_refused(node: raftmeta.Node) -> None:
    before = refused(node)
    with connect(node) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
        assert is_closed(connection)
    wait_until(lambda: refused(node) == before + 1, timeout_s=20, what="the refusal to be counted")


def test_a_connection_that_says_nothing_is_closed_after_a_while(node: raftmeta.Node) -> None:
    before = node.metrics()["connections_evicted"]
    with connect(node) as silent, connect(node) as half:
        half.sendall(b"RFTM"[::-1][:2])
        assert is_closed(silent)
        assert is_closed(half)
    wait_until(
        lambda: node.metrics()["connections_evicted"] >= before + 1, timeout_s=20, what="the eviction to be counted"
    )


def test_a_flood_of_silent_connections_is_bounded(node: raftmeta.Node) -> None:
    """The oldest go: a peer that comes after the flood is heard."""
    flood = [connect(node) for _ in range(40)]
    try:
        assert all(is_closed(connection) for connection in flood[:30])
        node.put("k", b"still here")
    finally:
        for connection in flood:
            connection.close()


# --- a peer that misbehaves -------------------------------------------------------------------------------------------


class Wiretap:
    """A listener in place of member b: what member a sends it first, and what a hears back."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.server = socket.create_server((host, int(port)))
        self.server.settimeout(5)

    def hello(self) -> tuple[socket.socket, bytes]:
        """A connection of a's and the HELLO frame on it."""
        connection, _ = self.server.accept()
        connection.settimeout(5)
        frame = b""
        while len(frame) < 96 or len(frame) < 96 + struct.unpack_from("<I", frame, 20)[0]:
            frame += connection.recv(4096)
        return connection, frame


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, Wiretap]]:
    nodes = make_nodes(tmp_path, names="ab")
    tap = Wiretap(str(nodes["b"].identity.listen))
    with tap.server, nodes["a"] as node:
        yield node, tap


def flip(frame: bytes, bit: int) -> bytes:
    changed = bytearray(frame)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_of_a_hello_is_refused(tapped: tuple[raftmeta.Node, Wiretap]) -> None:
    """reliability.md I19: bad magic, version, length, CRC: closed and counted, nothing else."""
    node, tap = tapped
    connection, frame = tap.hello()
    connection.close()
    before = refused(node)
    bits = range(0, len(frame) * 8, 7)
    for bit in bits:
        with connect(node) as other:
            other.sendall(flip(frame, bit))
            other.shutdown(socket.SHUT_WR)
            assert is_closed(other)
    wait_until(lambda: refused(node) == before + len(bits), timeout_s=20, what="the refusals to be counted")
    assert all(not member.is_connected or member.is_self for member in node.status().members)


def test_a_node_that_says_it_is_us_is_refused(tapped: tuple[raftmeta.Node, Wiretap]) -> None:
    """A HELLO with our own incarnation comes back to us as FRAME_REFUSED and the connection ends."""
    node, tap = tapped
    connection, frame = tap.hello()
    connection.close()
    with connect(node) as other:
        other.sendall(frame)
        answer = b""
        while part := other.recv(4096):
            answer += part
    assert answer[:4] == frame[:4]
    assert answer[9] == 5  # FRAME_REFUSED
    told = [event for event in node.events(timeout_s=0) if event.name == "peer_refused"]
    assert told


def test_a_hello_that_comes_byte_by_byte_is_a_hello(tapped: tuple[raftmeta.Node, Wiretap]) -> None:
    node, tap = tapped
    connection, frame = tap.hello()
    connection.close()
    with connect(node) as other:
        other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(frame)):
            other.sendall(frame[i : i + 1])
        assert other.recv(4096)[9] == 5  # it was read whole, and refused only for what it says


def test_half_a_frame_waits_for_its_rest_and_then_for_its_end(tapped: tuple[raftmeta.Node, Wiretap]) -> None:
    node, tap = tapped
    connection, frame = tap.hello()
    connection.close()
    before = refused(node)
    for length in (1, 50, 96, len(frame) - 1):
        with connect(node) as other:
            other.sendall(frame[:length])
            other.shutdown(socket.SHUT_WR)
            assert is_closed(other)
    assert refused(node) == before  # nothing was wrong with what came


def test_a_peer_that_answers_nonsense_is_tried_again(tapped: tuple[raftmeta.Node, Wiretap]) -> None:
    node, tap = tapped
    for answer in (b"nonsense" * 20, b"", bytes(96)):
        connection, _ = tap.hello()
        connection.sendall(answer)
        connection.close()
    assert node.metrics()["connections_refused"] >= 1
    assert not node.status().members[1].is_connected


# --- names and links --------------------------------------------------------------------------------------------------


def test_host_names_are_resolved(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path)
    peers = {name: f"localhost:{node.identity.listen.port}" for name, node in nodes.items()}
    named = {
        name: raftmeta.Node(name, peers=peers, data_dir=tmp_path / name, config=node.config)
        for name, node in nodes.items()
    }
    try:
        for node in named.values():
            node.start()
        for node in named.values():
            node.ready(30)
        named["a"].put("k", b"v")
    finally:
        for node in named.values():
            node.close(transfer=False)


def test_a_name_that_nobody_knows_is_an_unreachable_peer(tmp_path: Path) -> None:
    made = make_nodes(tmp_path, names="ab")
    peers = {"a": str(made["a"].identity.listen), "b": "no-such-host.invalid:7001"}
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", config=made["a"].config) as node:
        with pytest.raises(raftmeta.ReadyTimeout) as caught:
            node.ready(0.1)
        assert caught.value.unreachable == ("b",)


def test_a_peer_that_is_gone_is_noticed_by_the_refused_reconnect(tmp_path: Path) -> None:
    """Reset and refused reconnect clear the leader at once, long before the election time-out."""
    with running(tmp_path, election_timeout_s=1.5) as nodes:
        leader = leader_of(nodes)
        rest = {name: node for name, node in nodes.items() if node is not leader}
        leader.close(transfer=False)
        for node in rest.values():
            node.put("k", b"v", timeout_s=1)
        names = [event.name for node in rest.values() for event in node.events(timeout_s=0)]
        assert "leader_lost" in names


def test_large_values_cross_the_links(tmp_path: Path) -> None:
    """Frames larger than a receive chunk, several at once, in both directions of forwarding."""
    with running(tmp_path, checks=False) as nodes:  # the costly checks read all of the log each time
        values = {name: name.encode() * (900 * 1024) for name in nodes}

        def write(name: str) -> None:
            for i in range(4):
                nodes[name].put(f"{name}/{i}", values[name], timeout_s=20)

        threads = [threading.Thread(target=write, args=(name,)) for name in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, value in values.items():
            assert {record.value for record in nodes["a"].range(prefix=f"{name}/").records} == {value}


class ClosesAfterHello:
    """In front of a node: each connection is passed through until the node has answered its HELLO, then closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.arrivals_s: list[float] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.arrivals_s.append(time.monotonic())
            with connection, socket.create_connection(("127.0.0.1", self.port), timeout=5) as node:
                node.sendall(connection.recv(4096))
                connection.sendall(node.recv(4096))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def test_a_peer_that_ends_each_connection_is_asked_again_with_growing_pauses(tmp_path: Path) -> None:
    """Its HELLO is welcome, so it was asked again at once: 6,000 times a second, where it refused what followed."""
    a_port, b_port = free_ports(2)
    a_address, b_address = f"127.0.0.1:{a_port}", f"127.0.0.1:{b_port}"
    config = raftmeta.Config(**QUICK, reconnect_min_s=0.2, reconnect_max_s=2.0)
    between = ClosesAfterHello(b_port)
    with contextlib.ExitStack() as stack:
        stack.callback(between.close)
        peers = {"a": a_address, "b": between.address}
        for name, address in (("b", b_address), ("a", a_address)):
            node = raftmeta.Node(name, peers=peers, data_dir=tmp_path / name, config=config, listen=address)
            stack.callback(node.close, transfer=False)
            node.start()
        wait_until(lambda: len(between.arrivals_s) >= 5, timeout_s=60, what="five connections")
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(between.arrivals_s)]
    assert gaps_s[3] >= 0.8, gaps_s


# --- places among the links -------------------------------------------------------------------------------------------


class Stranger:
    """A blank node that nobody named: it says HELLO on a connection of its own, and nobody can reach it."""

    def __init__(self, node: raftmeta.Node, number: int) -> None:
        told = node.status()
        self.cluster = (int(told.cluster_id[16:], 16), int(told.cluster_id[:16], 16))
        self.id, self.node_id, self.node_boot = 1000 + number, told.id, told.boot
        self.connection = connect(node)
        status, body = hello_encode(
            {
                "purpose": 1,
                "version_min": 1,
                "version_max": 2,
                "genesis_state": 1,
                "cluster": (0, 0),
                "id": self.id,
                "boot": 1,
                "feature_level_max": 1000,
                "name": b"stranger-%d" % number,
                "cluster_name": node.identity.cluster.encode(),
                "address": b"",
                "membership": 0,
            }
        )
        assert status == Status.OK
        self._say(FrameType.FRAME_HELLO, 1, body)

    def _say(self, type: int, sequence: int, body: bytes) -> None:
        own = {"cluster": self.cluster, "peer": self.node_id, "self": self.id, "peer_boot": self.node_boot}
        if type == FrameType.FRAME_HELLO:
            own |= {"cluster": (0, 0), "peer": 0, "peer_boot": 0}
        self.connection.sendall(frame_encode(type, own, self_boot=1, sequence=sequence, body=body))

    def ping(self) -> None:
        self._say(FrameType.FRAME_PING, 2, b"")

    def heard(self) -> int:
        """The type of the frame that answers."""
        data = b""
        while len(data) < 96 or len(data) < 96 + struct.unpack_from("<I", data, 16)[0]:
            more = self.connection.recv(4096)
            if not more:
                return 0
            data += more
        return data[9]


def test_a_connection_ends_whose_place_went_to_another_name(tmp_path: Path) -> None:
    """A node has 32 places. A frame of the former name counted for the other: its bytes, and its word of a death."""
    with one_node(tmp_path) as node, contextlib.ExitStack() as stack:
        strangers = []
        for number in range(LINKS_MAX + 1):
            strangers.append(Stranger(node, number))
            stack.callback(strangers[-1].connection.close)
            assert strangers[-1].heard() == FrameType.FRAME_HELLO
        strangers[-1].ping()
        strangers[0].ping()
        assert is_closed(strangers[0].connection)
        node.put("k", b"still here")
