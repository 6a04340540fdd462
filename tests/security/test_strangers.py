"""Who may not speak on the ports of a cluster with TLS: each is told why, is counted, and disturbs nobody.

Issue 19 "TLS cases", docs/security.md "Who is let in".
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import raftmeta
from raftmeta.bindings.requests import hello_frame
from tests.client.raw import RawClient
from tests.faces.wire import frame_encode, hello_encode
from tests.node.nodes import leader_of
from tests.processes.waiting import wait_until
from tests.security.certificates import DAY, Authority, Held
from tests.security.nodes import (
    CLIENT_PROTOCOL,
    PEER_PROTOCOL,
    Place,
    connect,
    context_of,
    refusal_of,
    secure_cluster,
    shake,
)
from tests.wire.names import FrameType

TLS_NAME = 90


class Running(NamedTuple):
    place: Place
    nodes: dict[str, raftmeta.Node]
    other: Authority


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("strangers")
    place = Place(folder, unbound_connections_max=16)
    other = Authority(folder / "other", "another authority")
    with secure_cluster(place, revoked=place.authority.revoked) as nodes:
        yield Running(place, nodes, other)


@pytest.fixture(autouse=True)
def goes_on(cluster: Running) -> Iterator[None]:
    """Around each test: the same leader in the same term, every node writes and is connected to all."""
    leader = leader_of(cluster.nodes)
    term = leader.status().term
    yield
    assert (leader.status().is_leader, leader.status().term) == (True, term)
    for name, node in cluster.nodes.items():
        node.put(f"after/{name}", b"still here")
        assert all(member.is_connected for member in node.status().members)


class Port(NamedTuple):
    """One of the two ports of node a. own and foreign: papers that it accepts, and that the other one accepts."""

    address: str
    protocol: str
    refused: str
    papers: Callable[..., Held]
    foreign: Callable[..., Held]


@pytest.fixture(params=["peers", "clients"])
def port(request: pytest.FixtureRequest, cluster: Running) -> Port:
    place = cluster.place
    authority = place.authority

    def node(cluster: str = "default", **options: object) -> Held:
        return authority.node("b", cluster, **options)

    def client(cluster: str = "default", **options: object) -> Held:
        return authority.client("app", cluster, **options)

    if request.param == "peers":
        return Port(place.peers["a"], PEER_PROTOCOL, "tls_handshakes_refused", node, client)
    return Port(place.clients["a"], CLIENT_PROTOCOL, "client_tls_handshakes_refused", client, node)


@contextlib.contextmanager
def counted(cluster: Running, name: str, count: int = 1) -> Iterator[None]:
    """So many more are counted on node a."""
    before = cluster.nodes["a"].metrics()[name]
    yield
    wait_until(
        lambda: cluster.nodes["a"].metrics()[name] == before + count,
        timeout_s=20,
        what=lambda: f"{name}: {cluster.nodes['a'].metrics()[name]} after {before}",
    )


def answer_to(cluster: Running, port: Port, held: Held | None, protocol: str | None = "", said: bytes = b"") -> str:
    protocol = port.protocol if protocol == "" else protocol
    with counted(cluster, port.refused):
        return refusal_of(port.address, context_of(cluster.place.authority, held, protocol), said)


# --- certificates -----------------------------------------------------------------------------------------------------


def test_the_right_papers_are_let_in(cluster: Running, port: Port) -> None:
    """The others of this file are refused for what they change, not for how they ask."""
    good = port.refused.removesuffix("_refused")
    with counted(cluster, good), shake(port.address, context_of(cluster.place.authority, port.papers(), port.protocol)):
        pass


def test_an_expired_certificate(cluster: Running, port: Port) -> None:
    held = port.papers(begin=-2 * DAY, end=-datetime.timedelta(seconds=5))
    assert "CERTIFICATE_EXPIRED" in answer_to(cluster, port, held)


def test_a_certificate_of_the_future(cluster: Running, port: Port) -> None:
    assert "BAD_CERTIFICATE" in answer_to(cluster, port, port.papers(begin=DAY, end=2 * DAY))


def test_a_certificate_of_another_authority(cluster: Running, port: Port) -> None:
    held = cluster.other.node("b") if port.protocol == PEER_PROTOCOL else cluster.other.client()
    assert "UNKNOWN_CA" in answer_to(cluster, port, held)


def test_a_self_signed_certificate(cluster: Running, port: Port) -> None:
    """It says that the cluster's authority signed it."""
    assert answer_to(cluster, port, port.papers(is_self_signed=True)) != "closed"


def test_a_revoked_certificate(cluster: Running, port: Port) -> None:
    held = port.papers()
    cluster.place.authority.revoke(held)
    for node in cluster.nodes.values():
        node.reload_tls()
    wait_until(lambda: cluster.nodes["a"].metrics()["tls_readings"] >= 2, timeout_s=20, what="the list to be in force")
    wait_until(
        lambda: cluster.nodes["a"].metrics()["client_tls_readings"] == cluster.nodes["a"].metrics()["tls_readings"],
        timeout_s=20,
        what="the list to be in force on both ports",
    )
    assert "CERTIFICATE_REVOKED" in answer_to(cluster, port, held)


def test_a_certificate_of_another_cluster(cluster: Running, port: Port) -> None:
    assert "HANDSHAKE_FAILURE" in answer_to(cluster, port, port.papers("another"))


def test_a_certificate_of_the_other_role(cluster: Running, port: Port) -> None:
    """A client's opens no port for peers, and a node's none for clients (reliability.md A3)."""
    assert "HANDSHAKE_FAILURE" in answer_to(cluster, port, port.foreign())


@pytest.mark.parametrize(
    "uris",
    [
        (),
        ("raftmeta://default/*/peer",),
        ("raftmeta://*/b/peer",),
        ("raftmeta://default/b/peer", "raftmeta://default/client/app"),
        ("raftmeta://default/client/peer",),
        ("https://default/b/peer",),
    ],
)
def test_a_certificate_that_names_nobody(cluster: Running, port: Port, uris: tuple[str, ...]) -> None:
    """Neither a common name nor a DNS name stands in for the URI, and nothing is a wildcard."""
    held = cluster.place.authority.issue("nobody", *uris, common_name="b", dns=("localhost", "b"))
    assert "HANDSHAKE_FAILURE" in answer_to(cluster, port, held)


def test_no_certificate_at_all(cluster: Running, port: Port) -> None:
    assert "CERTIFICATE_REQUIRED" in answer_to(cluster, port, None)


def test_the_refusal_arrives_although_more_was_said(cluster: Running, port: Port) -> None:
    """Bytes that nobody reads must not turn the alert into a reset."""
    assert "CERTIFICATE_REQUIRED" in answer_to(cluster, port, None, said=b"x" * 20_000)


# --- versions and protocols -------------------------------------------------------------------------------------------


def test_tls_1_2_is_not_spoken(cluster: Running, port: Port) -> None:
    context = context_of(cluster.place.authority, port.papers(), port.protocol)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with counted(cluster, port.refused):
        assert "PROTOCOL_VERSION" in refusal_of(port.address, context)


def test_another_protocol_is_refused(cluster: Running, port: Port) -> None:
    protocol = CLIENT_PROTOCOL if port.protocol == PEER_PROTOCOL else PEER_PROTOCOL
    assert "NO_APPLICATION_PROTOCOL" in answer_to(cluster, port, port.papers(), protocol)


def test_no_protocol_is_refused(cluster: Running, port: Port) -> None:
    answer_to(cluster, port, port.papers(), None)


def test_plain_bytes_are_told_that_tls_is_wanted(cluster: Running, port: Port) -> None:
    """The alert protocol_version, which raftmeta's own plain ends know (docs/formats.md "TLS")."""
    with counted(cluster, port.refused), connect(port.address) as connection:
        connection.sendall(hello_frame("default", "stranger"))
        assert connection.recv(4096)[:7] == bytes([21, 3, 3, 0, 2, 2, 70])


# --- connections that break -------------------------------------------------------------------------------------------


def cut_after(port: Port, context: ssl.SSLContext, most: int) -> bool:
    """Shake hands by at most so many bytes, then end, and wait for the node to end. True: all bytes were said."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = context.wrap_bio(incoming, outgoing)
    left = most
    with connect(port.address) as connection:
        while True:
            try:
                secured.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                is_done = False
            said = outgoing.read()[:left]
            left -= len(said)
            connection.sendall(said)
            if is_done or left == 0:
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(65536):
                        pass
                return is_done and left > 0
            incoming.write(connection.recv(65536))


def test_a_handshake_cut_at_every_byte(cluster: Running, port: Port) -> None:
    """Each of them is counted once, as refused, but for the last ones: signatures differ by a few bytes in length."""
    context = context_of(cluster.place.authority, port.papers(), port.protocol)
    good = port.refused.removesuffix("_refused")
    before = cluster.nodes["a"].metrics()
    most = 1
    while not cut_after(port, context, most):
        most += 1

    def told() -> tuple[int, int]:
        now = cluster.nodes["a"].metrics()
        return now[port.refused] - before[port.refused], now[good] - before[good]

    wait_until(lambda: sum(told()) == most, timeout_s=20, what=lambda: f"{most} to be counted, not {told()}")
    assert most > 1000  # a handshake with a certificate
    assert told()[1] < 8


def test_a_connection_that_says_nothing(tmp_path: Path) -> None:
    """The time for the handshake is that for HELLO, and neither port waits longer."""
    place = Place(tmp_path, "a", hello_timeout_s=0.5)
    with secure_cluster(place), connect(place.peers["a"]) as peer, connect(place.clients["a"]) as client:
        for connection in (peer, client):
            connection.sendall(b"\x16\x03\x01")
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(4096) == b""


def test_a_hello_of_endless_length(cluster: Running, port: Port) -> None:
    """A handshake message that claims more than a certificate can have is not waited for."""
    with counted(cluster, port.refused), connect(port.address) as connection, contextlib.suppress(OSError):
        for _ in range(20):
            record = b"\x01\x01\xff\xff" + bytes(16380) if _ == 0 else bytes(16384)
            connection.sendall(b"\x16\x03\x01" + struct.pack(">H", 16384) + record)
        while connection.recv(4096):
            pass


# --- after the handshake ----------------------------------------------------------------------------------------------


def secured_client(cluster: Running) -> ssl.SSLSocket:
    place = cluster.place
    return shake(place.clients["a"], context_of(place.authority, place.authority.client(), CLIENT_PROTOCOL))


def test_a_handshake_message_in_the_clear_ends_the_connection(cluster: Running) -> None:
    """TLS 1.3 has no renegotiation (RFC 8446 4.1.2): nobody begins again on a connection that stands."""
    secured = secured_client(cluster)
    with counted(cluster, "client_tls_handshakes_refused"), socket.socket(fileno=secured.detach()) as connection:
        connection.settimeout(10)
        connection.sendall(b"\x16\x03\x03\x00\x04\x01\x00\x00\x00")
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass


class SecureRaw(RawClient):
    """The client protocol by hand, over TLS."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        from raftmeta.bindings.requests import MessageDecoder, RequestEncoder

        self.socket = secured
        self.encoder = RequestEncoder(1 << 22)
        self._decoder = MessageDecoder()
        self._messages = []


def test_records_of_one_byte(cluster: Running) -> None:
    """A HELLO in as many records as it has bytes is a HELLO."""
    with SecureRaw(secured_client(cluster)) as raw:
        for byte in hello_frame("default", "slow"):
            raw.send(bytes([byte]))
        assert raw.next()[0] == 4  # LEADER
        raw.open_session()


def test_records_of_the_greatest_size(cluster: Running) -> None:
    """16,384 bytes in each record; a megabyte goes in and comes back."""
    value = bytes(range(256)) * 4000
    with raftmeta.Client(cluster.place.url, tls=cluster.place.client_tls()) as client:
        client.ready(10)
        client.put("large", value)
        record = client.get("large")
        assert record is not None and record.value == value


def test_an_end_without_goodbye(cluster: Running) -> None:
    """close_notify is missing: the connection is gone all the same, and no more than that."""
    before = cluster.nodes["a"].metrics()["client_connections"]
    secured = secured_client(cluster)
    secured.sendall(hello_frame("default", "rude"))
    assert secured.recv(4096)
    wait_until(
        lambda: cluster.nodes["a"].metrics()["client_connections"] == before + 1, timeout_s=20, what="it to be counted"
    )
    socket.socket(fileno=secured.detach()).close()
    wait_until(lambda: cluster.nodes["a"].metrics()["client_connections"] == before, timeout_s=20, what="it to be gone")


def test_a_goodbye_without_an_end(cluster: Running) -> None:
    """close_notify, and the socket stays open: the node ends it."""
    with secured_client(cluster) as secured:
        secured.sendall(hello_frame("default", "polite"))
        assert secured.recv(4096)
        with secured.unwrap() as plain:
            assert plain.recv(4096) == b""


def test_many_connections_one_after_another(cluster: Running) -> None:
    before = cluster.nodes["a"].metrics()
    context = context_of(cluster.place.authority, cluster.place.authority.client(), CLIENT_PROTOCOL)
    for _ in range(300):
        with SecureRaw(shake(cluster.place.clients["a"], context)) as raw:
            raw.send(hello_frame("default", "one of many"))
            assert raw.next()[0] == 4  # LEADER
    wait_until(
        lambda: cluster.nodes["a"].metrics()["client_tls_handshakes"] == before["client_tls_handshakes"] + 300,
        timeout_s=20,
        what="all to be counted",
    )
    wait_until(
        lambda: cluster.nodes["a"].metrics()["client_connections"] == before["client_connections"],
        timeout_s=20,
        what="all to be gone",
    )


# --- the name in HELLO ------------------------------------------------------------------------------------------------


def test_a_node_that_takes_another_name_is_refused(cluster: Running) -> None:
    """The certificate is b's, HELLO says c: it is told so before any byte of Raft."""
    node = cluster.nodes["c"].status()
    number = int(node.cluster_id, 16)
    pair = (number & (2**64 - 1), number >> 64)
    _, body = hello_encode(
        {
            "purpose": 1,
            "version_min": 1,
            "version_max": 1,
            "genesis_state": 3,
            "cluster": pair,
            "id": node.id,
            "boot": node.boot,
            "membership": 0,
            "feature_level_max": 2,
            "name": b"c",
            "cluster_name": b"default",
            "address": cluster.place.peers["c"].encode(),
        }
    )
    identity = {"cluster": pair, "self": node.id, "peer": 0, "peer_boot": 0}
    frame = frame_encode(FrameType.FRAME_HELLO, identity, self_boot=node.boot, sequence=1, body=body)
    context = context_of(cluster.place.authority, cluster.place.authority.node("b"), PEER_PROTOCOL)
    with counted(cluster, "connections_refused"), shake(cluster.place.peers["a"], context) as secured:
        secured.sendall(frame)
        answer = secured.recv(4096)
    assert answer[9] == FrameType.FRAME_REFUSED
    assert answer[97] == TLS_NAME


def test_refusals_are_told_as_events(cluster: Running) -> None:
    """With the reason in one word."""
    refusal_of(cluster.place.peers["a"], context_of(cluster.place.authority, None, PEER_PROTOCOL))
    reasons: list[object] = []

    def is_told() -> bool:
        reasons[:] = [event.facts.get("reason") for event in cluster.nodes["a"].events(timeout_s=0)]
        return "no_certificate" in reasons

    wait_until(is_told, timeout_s=20, what=lambda: f"the event; {reasons}")
