"""An attacker's connections cannot change a state, stop an election, or grow memory beyond its cap.

Issue 19 "Must hold"; reliability.md section 5, A1 to A3 and A8. Real processes, real sockets, TLS and rights on, the
costly invariants checked in every node.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

import raftmeta
from raftmeta.bindings import verbs
from raftmeta.bindings.requests import RequestEncoder, hello_frame
from tests.client.raw import frame
from tests.faces.wire import frame_encode, hello_encode
from tests.node.nodes import QUICK
from tests.processes.cluster import status
from tests.processes.waiting import wait_until
from tests.security.certificates import Held
from tests.security.nodes import CLIENT_PROTOCOL, PEER_PROTOCOL, connect, context_of, shake
from tests.security.processes import SecureCluster, guard, metrics, records, resident_bytes
from tests.wire.names import FrameType

MIB = 1 << 20
PASSWORD = "of the house"
WRITES = 300
REQUEST_KINDS = 19  # one more than there are
BOUNDS: dict[str, Any] = {
    "client_bytes_max": 4 * MIB,
    "client_memory_bytes_max": 4 * MIB,
    "client_connections_max": 128,
    "client_unbound_connections_max": 32,
    "client_unbound_per_address_max": 16,
    "unbound_connections_max": 16,
    "hello_timeout_s": 1.0,
    "principal_requests_per_s": 5_000,
    "principal_connections_max": 64,
    "principal_sessions_max": 8,
    "principal_leases_max": 16,
    "principal_watches_max": 32,
    "principal_bytes_max": 512 << 10,
    "principal_write_bytes_per_s": MIB // 4,
    "history_bytes_max": 4 * MIB,
}
# Strangers on both ports in a handshake; three times the bytes under way; answers and events; connections.
MEMORY_CAP = (32 + 16) * (128 << 10) + 3 * 4 * MIB + 4 * MIB + 128 * (64 << 10)
ALLOCATOR = 16 * MIB  # what it keeps of memory that was given back, and the state that the honest client made
SETTINGS = {**QUICK, **BOUNDS, "election_timeout_s": 2.0, "heartbeat_s": 0.1}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SecureCluster]:
    with SecureCluster(tmp_path / "attacked", **SETTINGS) as running:
        prepare(running)
        yield running


def prepare(cluster: SecureCluster) -> None:
    for name in cluster.nodes:
        wait_until(
            lambda name=name: cluster.told(name, status)["feature_level"] >= 3,  # type: ignore[misc]
            timeout_s=30,
            what="the level of rights",
        )
    cluster.leader().call(guard, {"honest": [PASSWORD, ""], "tenant": [PASSWORD, "t/"]})


def client_of(cluster: SecureCluster, user: str, url: str = "") -> raftmeta.Client:
    return raftmeta.Client(url or cluster.url, tls=cluster.tls(user), user=user, password=PASSWORD)


def work(client: raftmeta.Client, goes_on: Callable[[], bool] = lambda: False) -> int:
    """The writes of the honest client, the same in every run; then reads while goes_on."""
    for number in range(WRITES):
        client.put(f"k/{number % 50}", b"%d" % number, timeout_s=20)
        if number % 10 == 0:
            client.add("count", number, timeout_s=20)
            client.delete(f"k/{number % 50}", timeout_s=20)
    while goes_on():
        assert client.get("count", timeout_s=20) is not None
    return int(client.put("end", "x", timeout_s=20))


# --- attacks: each is one round ---------------------------------------------------------------------------------------


class Attacker:
    """Has a valid certificate of a client that is no user, papers of its own making, and what it saw on the wire."""

    def __init__(self, cluster: SecureCluster) -> None:
        self.cluster = cluster
        authority = cluster.authority
        self.client = context_of(authority, authority.client("mallory"), CLIENT_PROTOCOL)
        self.nobody = context_of(authority, None, PEER_PROTOCOL)
        self.client_as_peer = context_of(authority, authority.client("mallory"), PEER_PROTOCOL)
        self.forged = context_of(authority, self._forged("b"), PEER_PROTOCOL)
        self.seen = {
            "clients": said(cluster.clients["a"], self.client, hello_frame("default", "mallory")),
            "peers": said(cluster.peers["a"], self.forged, b""),
        }
        self.source = random.Random(7)

    def _forged(self, name: str) -> Held:
        return self.cluster.authority.issue(
            f"forged-{name}", f"raftmeta://default/{name}/peer", common_name=name, is_self_signed=True
        )

    def port(self, node: str) -> str:
        return self.source.choice([self.cluster.peers, self.cluster.clients])[node]

    def garbage(self, node: str) -> None:
        with connect(self.port(node)) as plain:
            plain.sendall(self.source.randbytes(self.source.randrange(1, 40_000)))
            read_all(plain)

    def half_handshake(self, node: str) -> None:
        hello = self.seen["clients"]
        with connect(self.port(node)) as plain:
            plain.sendall(hello[: self.source.randrange(1, len(hello))])
            if self.source.random() < 0.2:
                read_all(plain)  # until its time is over

    def replay(self, node: str) -> None:
        """All that a client or a peer once said, again."""
        with connect(self.port(node)) as plain:
            plain.sendall(self.seen[self.source.choice(["clients", "peers"])])
            read_all(plain)

    def plain_hello(self, node: str) -> None:
        """A sound HELLO of member b, and a vote request behind it, without any TLS."""
        with connect(self.cluster.peers[node]) as plain:
            plain.sendall(peer_hello(self.cluster, "b") * 2)
            read_all(plain)

    def forged_peer(self, node: str) -> None:
        """HELLO of b under no certificate, under a client's, and under one that b's own name signed."""
        context = self.source.choice([self.nobody, self.client_as_peer, self.forged])
        with connect(self.cluster.peers[node]) as plain, context.wrap_socket(plain) as secured:
            secured.sendall(peer_hello(self.cluster, "b"))
            read_all(secured)

    def flood(self, node: str) -> None:
        """Every verb, sound and not, behind a valid certificate; none of it proves a password."""
        encoder = RequestEncoder(4 << 20)
        with shake(self.cluster.clients[node], self.client) as secured:
            secured.sendall(hello_frame("default", "mallory"))
            secured.sendall(encoder.open_session(1 << 63 | 99, 60_000, 1_000_000))
            encoder.session = 1 << 63 | 99
            asked = [verbs.put("k/1", "stolen"), verbs.add("count"), verbs.delete_range("k/", "k0", previous=True)]
            for command in asked:
                secured.sendall(encoder.command(command) * 20)
            secured.sendall(encoder.command(verbs.put("k/2", bytes(2 * MIB))))
            secured.sendall(b"".join(encoder.get("count", 0, True) for _ in range(500)))
            secured.sendall(encoder.watch(b"", b"", 1, 0) * 50 + encoder.range(b"", b"", 0, 0, False, False, True) * 50)
            for kind in range(1, REQUEST_KINDS + 1):
                secured.sendall(frame(msgpack.packb([kind, kind, b"k", 1, 1, 1][: self.source.randrange(3, 7)])))
                break_off = self.source.random() < 0.05
                if break_off:
                    return
            read_all(secured)

    def records_of_one_byte(self, node: str) -> None:
        said = hello_frame("default", "mallory") + RequestEncoder(1 << 20).get("count", 0, True)
        with shake(self.cluster.clients[node], self.client) as secured:
            for byte in said:
                secured.sendall(bytes([byte]))
            read_all(secured)


def read_all(connection: socket.socket) -> None:
    connection.settimeout(3.0)
    while connection.recv(1 << 16):
        pass


def said(address: str, context: ssl.SSLContext, words: bytes) -> bytes:
    """Every byte that a client of this context says to the port, with these words behind its handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = context.wrap_bio(incoming, outgoing)
    recorded = b""
    with connect(address) as plain:
        while True:
            try:
                secured.do_handshake()
                secured.write(words)
                is_done = True
            except ssl.SSLWantReadError:
                is_done = False
            except ssl.SSLError:
                return recorded
            part = outgoing.read()
            recorded += part
            plain.sendall(part)
            if is_done:
                return recorded
            incoming.write(plain.recv(1 << 16))


def peer_hello(cluster: SecureCluster, name: str) -> bytes:
    told = cluster.told(name, status)
    number = int(told["cluster_id"], 16)
    pair = (number & (2**64 - 1), number >> 64)
    _, body = hello_encode(
        {
            "purpose": 1,
            "version_min": 1,
            "version_max": 1,
            "genesis_state": 3,
            "cluster": pair,
            "id": told["id"],
            "boot": told["boot"] + 1,
            "membership": 0,
            "feature_level_max": 3,
            "name": name.encode(),
            "cluster_name": b"default",
            "address": cluster.peers[name].encode(),
        }
    )
    identity = {"cluster": pair, "self": told["id"], "peer": 0, "peer_boot": 0}
    return frame_encode(FrameType.FRAME_HELLO, identity, self_boot=told["boot"] + 1, sequence=1, body=body)


ATTACKS = ["garbage", "half_handshake", "replay", "plain_hello", "forged_peer", "flood", "records_of_one_byte"]
ROUNDS = 30  # of each attack, at least


def attack(attacker: Attacker, name: str, rounds: dict[str, int], is_over: threading.Event) -> None:
    """Again and again, on every node in turn, until it is over and each has had its rounds."""
    nodes = list(attacker.cluster.nodes)
    while not (is_over.is_set() and rounds[name] >= ROUNDS):
        with contextlib.suppress(OSError):  # refused, reset, cut: that is the point
            getattr(attacker, name)(nodes[rounds[name] % len(nodes)])
        rounds[name] += 1


# --- what holds -------------------------------------------------------------------------------------------------------


def elections(cluster: SecureCluster) -> dict[str, tuple[Any, ...]]:
    """Of each node: who leads, in which term, and how many elections it began."""
    found = {}
    for name in cluster.nodes:
        told = cluster.told(name, status)
        found[name] = (told["leader"], told["term"], cluster.told(name, metrics)["elections"])
    return found


def equal_hash(cluster: SecureCluster) -> str | None:
    """The state hash, once all nodes have applied the same entry; None: not now."""
    told = [cluster.told(name, status) for name in cluster.nodes]
    if len({one["applied"] for one in told}) > 1:
        return None
    hashes = {one["state_hash"] for one in told}
    assert len(hashes) == 1, hashes
    return hashes.pop()


@contextlib.contextmanager
def undisturbed(cluster: SecureCluster, memory_cap: int) -> Iterator[Callable[[], None]]:
    """Around an attack: no election was begun, memory stayed below the cap, all nodes have one state hash.

    What is yielded looks at the memory, and is called again and again.
    """
    before = elections(cluster)
    memory = {name: resident_bytes(node.pid) for name, node in cluster.nodes.items()}
    highest = dict(memory)

    def look() -> None:
        for name, node in cluster.nodes.items():
            highest[name] = max(highest[name], resident_bytes(node.pid))

    yield look
    look()
    assert elections(cluster) == before
    grown = {name: highest[name] - memory[name] for name in memory}
    assert max(grown.values()) < memory_cap, grown
    wait_until(lambda: equal_hash(cluster), timeout_s=30, what="all nodes to have applied the same")


@contextlib.contextmanager
def at_once(*tasks: Callable[[], None]) -> Iterator[None]:
    """These run on threads of their own; the block says when they are over."""
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def honest_records(folder: Path) -> list[list[Any]]:
    """Of a cluster that only the honest client ever met."""
    with SecureCluster(folder, names="a", **SETTINGS) as quiet:
        prepare(quiet)
        with client_of(quiet, "honest") as client:
            work(client)
        found: list[list[Any]] = quiet.told("a", records)
        return found


@pytest.mark.uninstrumented
@pytest.mark.timeout(600)
def test_an_attacker_changes_no_state_stops_no_election_and_takes_no_memory(
    cluster: SecureCluster, tmp_path: Path
) -> None:
    """Init: three nodes with TLS and rights, one honest client. Act: all attacks at once on all nodes, while the client
    writes. Check: the keys and their revisions are those of a cluster that only the honest client ever met; all nodes
    have one state hash; no election was begun; memory stayed below its cap; no session or lease is left."""
    rounds = dict.fromkeys(ATTACKS, 0)
    is_over = threading.Event()
    attacker = Attacker(cluster)
    attacks = [partial(attack, attacker, name, rounds, is_over) for name in ATTACKS]
    with undisturbed(cluster, MEMORY_CAP + ALLOCATOR) as look, at_once(*attacks):
        try:
            with client_of(cluster, "honest") as client:

                def goes_on() -> bool:
                    look()
                    return min(rounds.values()) < ROUNDS

                work(client, goes_on)
        finally:
            is_over.set()
    for name in cluster.nodes:
        counted = cluster.told(name, metrics)
        assert (counted["sessions"], counted["leases"]) == (len(cluster.nodes), 0)
        assert counted["client_requests_denied"] > 0 and counted["client_requests_over_quota"] > 0
        assert counted["tls_handshakes_refused"] > 0 and counted["client_tls_handshakes_refused"] > 0
    expected = honest_records(tmp_path / "quiet")
    assert all(cluster.told(name, records) == expected for name in cluster.nodes)


def tenant_floods(cluster: SecureCluster, name: str, is_over: threading.Event) -> None:
    """Everything that a user may, as fast as it can, on one node, and what it may not."""
    asks: list[Callable[[raftmeta.Client, int], object]] = [
        lambda client, number: client.put(f"t/{number % 20}", bytes(30_000)),
        lambda client, number: client.put("k/1", b"stolen"),
        lambda client, number: client.delete_range("", "", previous=True),
        lambda client, number: client.add("t/count", number),
        lambda client, number: client.lease(60.0),
        lambda client, number: client.put("t/leased", "x", lease=client.lease(1.0)),
        lambda client, number: client.range(prefix="t/"),
        lambda client, number: client.range(),
        lambda client, number: client.compact(1),
        lambda client, number: client.transfer(),
        lambda client, number: client.auth.disable(),
        lambda client, number: next(iter(client.watch(prefix="t/", start_revision=1))),
    ]
    number = 0
    with client_of(cluster, "tenant", f"raft://{cluster.clients[name]}") as client:
        while not is_over.is_set():
            with contextlib.suppress(raftmeta.RaftmetaError):
                asks[number % len(asks)](client, number)
            number += 1
            if number % 50 == 0:
                with contextlib.suppress(raftmeta.RaftmetaError), client_of(cluster, "tenant") as another:
                    another.put("t/another", "x")


@pytest.mark.uninstrumented
@pytest.mark.timeout(600)
def test_a_tenant_that_floods_changes_only_what_is_its_own(cluster: SecureCluster, tmp_path: Path) -> None:
    """Init: as before; a second user may do everything below t/. Act: three clients of that user ask for all that they
    may and may not, while the honest one writes. Check: as before, but for the user's own keys and the revisions; what
    it holds is within its quotas."""
    is_over = threading.Event()
    floods = [partial(tenant_floods, cluster, name, is_over) for name in cluster.nodes]
    # Beside the bounds of all clients: history and keys, each kept up to three times (docs/operations.md "Sizes").
    cap = MEMORY_CAP + ALLOCATOR + 3 * (4 * MIB + 20 * 30_000)
    with undisturbed(cluster, cap) as look, at_once(*floods):
        try:
            with client_of(cluster, "honest") as client:
                work(client)
            look()
            counted = [cluster.told(name, metrics) for name in cluster.nodes]
        finally:
            is_over.set()
    assert counted[0]["leases"] <= 3 * 16 and counted[0]["sessions"] <= 3 + 3 * 8 + 1
    assert sum(one["client_requests_over_quota"] for one in counted) > 0
    assert sum(one["client_watches"] for one in counted) <= 3 * 32
    expected = [[key, value, version] for key, value, _, _, version in honest_records(tmp_path / "quiet")]
    for name in cluster.nodes:
        found = [[key, value, version] for key, value, _, _, version in cluster.told(name, records)]
        assert [one for one in found if not bytes.fromhex(one[0]).startswith(b"t/")] == expected
        assert any(bytes.fromhex(one[0]).startswith(b"t/") for one in found)
