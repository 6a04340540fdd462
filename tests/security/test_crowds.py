"""Many connections at once and one after the other: what they cost, and that nothing of them is left.

Issue 19 item 6 and "TLS cases".
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta.bindings.requests import hello_frame
from tests.client.crowd import raise_descriptor_limit
from tests.processes.waiting import wait_until
from tests.security.nodes import CLIENT_PROTOCOL, connect, context_of, shake
from tests.security.processes import SecureCluster, descriptors, metrics, resident_bytes, threads

MIB = 1 << 20
SLOW = 2000
SECURED = 200  # of them by TLS
CONNECTS = 10_000
AT_ONCE = 50
BYTES_PLAIN = 4096  # of a connection that says little
BYTES_SECURED = 128 << 10
SETTINGS = {"wal_bytes_max": 1 << 28, "hello_timeout_s": 10.0}


@pytest.fixture
def one(tmp_path: Path) -> Iterator[SecureCluster]:
    with SecureCluster(tmp_path, names="a", **SETTINGS) as cluster:
        yield cluster


def context(cluster: SecureCluster) -> ssl.SSLContext:
    return context_of(cluster.authority, cluster.authority.client("slow"), CLIENT_PROTOCOL)


def said_hello(connection: socket.socket) -> socket.socket:
    connection.sendall(hello_frame("default", "slow"))
    assert connection.recv(4096)
    return connection


def serve_others(cluster: SecureCluster, tls: raftmeta.Tls | None, slow: list[socket.socket], name: str) -> None:
    """A client puts and reads 100 times; each slow one says a byte of a frame between every ten of them."""
    frame = itertools.cycle((1 << 20).to_bytes(4, "little") + bytes(60))
    with raftmeta.Client(cluster.url, tls=tls) as client:
        for number in range(100):
            if number % 10 == 0:
                byte = bytes([next(frame)])
                for connection in slow:
                    connection.sendall(byte)
            client.put(f"{name}/{number}", b"x" * 100)
            assert client.get(f"{name}/{number}") is not None


@pytest.mark.uninstrumented
@pytest.mark.parametrize(("is_plain", "count"), [(True, SLOW), (False, SECURED)], ids=["plain", "tls"])
def test_slow_connections_take_nothing_from_others(tmp_path: Path, is_plain: bool, count: int) -> None:
    """Init: so many clients that have said HELLO. Act: each sends a byte of a megabyte now and then, while one client
    works. Check: it is served, all stay, and memory is that of so many structs."""
    raise_descriptor_limit()
    with (
        SecureCluster(tmp_path, names="a", is_plain=is_plain, **SETTINGS) as cluster,
        contextlib.ExitStack() as stack,
    ):
        node, address = cluster.nodes["a"], cluster.clients["a"]
        tls = None if is_plain else cluster.tls()
        serve_others(cluster, tls, [], "before")
        before = resident_bytes(node.pid)
        papers = context(cluster)
        slow = [
            stack.enter_context(said_hello(connect(address) if is_plain else shake(address, papers)))
            for _ in range(count)
        ]
        serve_others(cluster, tls, slow, "meanwhile")
        wait_until(
            lambda: node.call(metrics)["client_connections"] == count,
            timeout_s=20,
            what="only the slow ones to be left",
        )
        assert node.call(metrics)["client_connections_evicted"] == 0
        grown = resident_bytes(node.pid) - before
        assert grown < count * (BYTES_PLAIN if is_plain else BYTES_SECURED) + 16 * MIB


@pytest.mark.uninstrumented
def test_strangers_that_send_a_byte_now_and_then_leave_their_places_to_others(tmp_path: Path) -> None:
    """Init: 2,000 connections open the clients' port, and never end their HELLO. Check: those beyond their address's
    share are gone, and a client that comes after them is served."""
    raise_descriptor_limit()
    with SecureCluster(tmp_path, names="a", **SETTINGS) as cluster, contextlib.ExitStack() as stack:
        node = cluster.nodes["a"]
        before = resident_bytes(node.pid)
        slow = [stack.enter_context(connect(cluster.clients["a"])) for _ in range(SLOW)]
        for connection in slow:
            with contextlib.suppress(OSError):
                connection.sendall(b"\x16")
        serve_others(cluster, cluster.tls(), [], "meanwhile")
        now = node.call(metrics)
        assert now["client_connections_unbound"] <= 256
        assert now["client_connections_turned_away"] + now["client_connections_evicted"] >= SLOW - 256
        assert resident_bytes(node.pid) - before < 256 * BYTES_SECURED + 16 * MIB


def connect_many(cluster: SecureCluster, papers: ssl.SSLContext, count: int) -> None:
    """A handshake, a HELLO, its answer, the end; every tenth without a goodbye."""
    hello = hello_frame("default", "one of many")
    for number in range(count):
        secured = shake(cluster.clients["a"], papers)
        secured.sendall(hello)
        assert secured.recv(4096)
        if number % 10:
            secured.close()
        else:
            socket.socket(fileno=secured.detach()).close()


@pytest.mark.uninstrumented
def test_ten_thousand_connects_leave_nothing_behind(one: SecureCluster) -> None:
    """Half of them one after the other, half by fifty at once. Descriptors, threads and memory are those of before."""
    node, papers = one.nodes["a"], context(one)
    connect_many(one, papers, 200)  # what is made once and kept is there afterwards

    def are_gone() -> bool:
        return bool(node.call(metrics)["client_connections"] == 0)

    wait_until(are_gone, timeout_s=20, what="the first to be gone")
    before = descriptors(node.pid), threads(node.pid), resident_bytes(node.pid)
    handshakes = node.call(metrics)["client_tls_handshakes"]
    connect_many(one, papers, CONNECTS // 2)
    crowd = [
        threading.Thread(target=connect_many, args=(one, papers, CONNECTS // 2 // AT_ONCE)) for _ in range(AT_ONCE)
    ]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    wait_until(are_gone, timeout_s=20, what="all to be gone")
    counted = node.call(metrics)  # of one turn of the clients' thread, after the last has gone
    assert (counted["client_tls_handshakes"], counted["client_connections_unbound"]) == (handshakes + CONNECTS, 0)
    # Each call of the test is answered by a thread of its own, which ends a little behind its answer.
    wait_until(
        lambda: descriptors(node.pid) <= before[0] and threads(node.pid) <= before[1],
        timeout_s=20,
        what=lambda: f"{descriptors(node.pid)} descriptors and {threads(node.pid)} threads to be {before[:2]}",
    )
    assert resident_bytes(node.pid) - before[2] < 16 * MIB  # 1.6 KiB for each that was here
