"""Quotas of principals at the ZooKeeper door: what a client is told beyond each, and whose account it is."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import QuotaExceededError, ThrottledOpError
from kazoo.handlers.threading import KazooTimeoutError

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until
from tests.zookeeper.nodes import SET_WATCHES, SET_WATCHES_XID, RawClient, doors, strings

QUOTA_EXCEEDED, THROTTLED = -125, -127  # KeeperException.java of ZooKeeper 3.9
ANN, BOB = ("digest", "ann:secret"), ("digest", "bob:secret")
PATIENCE_S = 20.0


@contextlib.contextmanager
def door(folder: Path, **settings: Any) -> Iterator[tuple[raftmeta.Node, int]]:
    with doors(folder, **settings) as (nodes, ports):
        yield nodes["a"], ports["a"]


@contextlib.contextmanager
def session(port: int, *names: tuple[str, str], timeout_s: float = PATIENCE_S) -> Iterator[KazooClient]:
    """A session of kazoo that has proved these names."""
    client = KazooClient(f"127.0.0.1:{port}", auth_data=list(names), connection_retry={"max_tries": 0})
    try:
        client.start(timeout=timeout_s)
        if names:
            client.exists("/")  # kazoo has started before it proves a name
        yield client
    finally:
        client.stop()
        client.close()


@contextlib.contextmanager
def door_and_port(folder: Path, **settings: Any) -> Iterator[tuple[raftmeta.Node, str, int]]:
    """A node with a port for clients and a door; the clients' URL, the door's port. All are of one address."""
    peer, clients, port = free_ports(3)
    with raftmeta.Node(
        "a",
        peers={"a": f"127.0.0.1:{peer}"},
        data_dir=folder / "a",
        client_listen=f"127.0.0.1:{clients}",
        zookeeper_listen=f"127.0.0.1:{port}",
        config=raftmeta.Config(**{**QUICK, **settings}),
    ) as node:
        node.ready(30)
        yield node, f"raft://127.0.0.1:{clients}", port


def metric(node: raftmeta.Node, name: str) -> float:
    return node.metrics()[f"zookeeper_{name}"]


def refused(call: Callable[[], object], times: int = 200) -> int:
    """How many of so many calls were throttled."""
    count = 0
    for _ in range(times):
        try:
            call()
        except ThrottledOpError:
            count += 1
    return count


def patiently(call: Callable[[], Any]) -> Any:
    """Its result, once the rate allows it."""

    def attempt() -> list[Any]:
        with contextlib.suppress(ThrottledOpError):
            return [call()]
        return []

    return wait_until(attempt, timeout_s=20, what="the rate to allow it")[0]


def test_requests_beyond_the_rate_are_throttled_and_not_carried_out(tmp_path: Path) -> None:
    """Ann's burst is spent; what was refused changed nothing. Bob has an account of his own."""
    with door(tmp_path, principal_requests_per_s=20) as (node, port), session(port, ANN) as ann:
        ann.create("/n", b"")
        count = refused(lambda: ann.set("/n", b"x"))
        assert count > 0
        assert patiently(lambda: ann.get("/n"))[1].version == 200 - count
        with session(port, BOB) as bob:
            assert bob.exists("/n") is not None
        wait_until(lambda: metric(node, "requests_over_quota") >= count, timeout_s=20, what="refusals to count")


def test_bytes_beyond_the_rate_are_throttled(tmp_path: Path) -> None:
    """Reads write nothing, and pass; a write is throttled until the one before it is paid for."""
    with door(tmp_path, principal_write_bytes_per_s=50_000) as (_, port), session(port, ANN) as ann:
        ann.create("/n", bytes(200_000))
        with pytest.raises(ThrottledOpError):
            ann.set("/n", b"x")
        assert ann.get("/n")[1].version == 0
        wait_until(lambda: refused(lambda: ann.set("/n", b"y"), 1) == 0, timeout_s=30, what="the bytes to be paid for")
        assert ann.get("/n")[1].version == 1


def test_watches_beyond_the_quota_are_not_set(tmp_path: Path) -> None:
    """Ann has two in all her sessions; one that fired makes room."""
    told: list[object] = []
    with door(tmp_path, principal_watches_max=2) as (_, port), session(port, ANN) as ann, session(port, ANN) as other:
        for path in ("/a", "/b", "/c"):
            ann.create(path, b"")
        ann.get("/a", watch=told.append)
        other.get("/b", watch=told.append)
        for client in (ann, other):
            with pytest.raises(QuotaExceededError):
                client.get("/c", watch=told.append)
        ann.set("/a", b"x")
        wait_until(lambda: told, timeout_s=20, what="the watch to fire")
        ann.get("/c", watch=told.append)
        with session(port, BOB) as bob:
            bob.get("/c", watch=told.append)


def test_watches_that_a_client_sets_anew_beyond_the_quota_close_its_connection(tmp_path: Path) -> None:
    """No client looks at the error of setWatches: it would wait for events that never come."""
    none = strings()
    with door(tmp_path, principal_watches_max=2) as (node, port):
        for count, is_closed in ((2, False), (3, True)):
            with RawClient(port) as client:
                names = strings(*[b"/%d" % number for number in range(count)])
                client.ask(SET_WATCHES, struct.pack(">q", 0) + none + names + none, xid=SET_WATCHES_XID)
                if is_closed:
                    assert client.is_closed()
                else:
                    assert client.reply().error == 0
            wait_until(lambda: metric(node, "watches") == 0, timeout_s=20, what="the watches to go")
        wait_until(lambda: metric(node, "requests_over_quota") == 1, timeout_s=20, what="refusals to count")


def test_sessions_are_leases_of_who_proved_a_name(tmp_path: Path) -> None:
    """Ann's session is no longer her address's: another one fits. A second one of hers is told so."""
    with door(tmp_path, principal_leases_max=1) as (node, port):
        with session(port, ANN), session(port), pytest.raises(KazooTimeoutError), session(port, timeout_s=1.0):
            raise AssertionError("a second session of the address")
        with session(port, ANN), RawClient(port) as second:
            body = struct.pack(">i", 0) + strings(b"digest")[4:] + strings(b"ann:secret")[4:]
            second.ask(100, body, xid=-4)
            assert second.reply().error == QUOTA_EXCEEDED
            assert second.is_closed()
        wait_until(lambda: metric(node, "requests_over_quota") >= 2, timeout_s=20, what="refusals to count")


def test_connections_beyond_the_quota_are_closed(tmp_path: Path) -> None:
    with door(tmp_path, principal_connections_max=1) as (node, port), RawClient(port) as first:
        with pytest.raises(ConnectionError):
            RawClient(port)
        assert first.create(b"/n").error == 0
        wait_until(lambda: metric(node, "requests_over_quota") == 1, timeout_s=20, what="refusals to count")


def test_a_client_that_goes_on_asking_is_not_read_for_a_while(tmp_path: Path) -> None:
    """Refusals have a rate, too. Every request gets its answer, in order, and another principal is served meanwhile."""
    with door(tmp_path, principal_requests_per_s=100, principal_burst_s=0.1) as (_, port), RawClient(port) as flood:
        for _ in range(400):
            flood.ask(3, strings(b"/zookeeper")[4:] + b"\0")
        with session(port, BOB) as bob:
            assert bob.exists("/zookeeper") is not None
        replies = [flood.reply() for _ in range(400)]
        assert [reply.xid for reply in replies] == list(range(1, 401))
        assert {reply.error for reply in replies} == {0, THROTTLED}


# --- one account over all listeners -----------------------------------------------------------------------------------


def granted(client: raftmeta.Client) -> bool:
    with contextlib.suppress(raftmeta.QuotaExceeded):
        client.lease(60.0)
        return True
    return False


def test_a_lease_and_a_session_of_one_principal_are_of_one_account(tmp_path: Path) -> None:
    """Init: a principal may have two. Act: one lease by the clients' port, one session at the door. Check: there is
    room for no lease; when the session has ended, there is room for one."""
    with door_and_port(tmp_path, principal_leases_max=2) as (node, url, port), raftmeta.Client(url) as client:
        client.lease(60.0)
        with session(port):
            with pytest.raises(raftmeta.QuotaExceeded) as caught:
                client.lease(60.0)
            assert caught.value.quota == "leases"
            wait_until(lambda: metric(node, "principals") == 1, timeout_s=20, what="a sweep to count one account")
        wait_until(lambda: granted(client), timeout_s=20, what="the session to give its lease back")
        assert not granted(client)


def test_a_proved_name_takes_its_session_along(tmp_path: Path) -> None:
    """Init: one lease a principal. Act: a session of the address becomes ann's. Check: the address has room again at
    the clients' port, for one lease."""
    with door_and_port(tmp_path, principal_leases_max=1) as (_, url, port), raftmeta.Client(url) as client:
        with session(port):
            assert not granted(client)
        with session(port, ANN):
            wait_until(lambda: granted(client), timeout_s=20, what="the address to have room")
            assert not granted(client)


def test_requests_at_the_door_spend_what_the_clients_port_spends(tmp_path: Path) -> None:
    """61 requests at once and one a second, wherever they come. Ann at the door goes on."""
    settings = {"principal_requests_per_s": 1, "principal_burst_s": 60.0}
    with (
        door_and_port(tmp_path, **settings) as (_, url, port),
        raftmeta.Client(url) as client,
        session(port, ANN) as ann,
        session(port) as nobody,
    ):
        with pytest.raises(raftmeta.QuotaExceeded):
            for _ in range(100):
                client.put("k", "v")
        assert refused(lambda: nobody.set("/zookeeper", b""), times=2) > 0
        assert ann.exists("/zookeeper") is not None


def test_connections_to_all_listeners_are_counted_together(tmp_path: Path) -> None:
    with (
        door_and_port(tmp_path, principal_connections_max=1) as (_, url, port),
        RawClient(port),
        raftmeta.Client(url) as client,
        pytest.raises(raftmeta.ReadyTimeout, match="as many connections of this client"),
    ):
        client.ready(1.0)
