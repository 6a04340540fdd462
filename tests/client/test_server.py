"""The node's side, asked by hand: nonsense, silence, greed, and the same command twice."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import raftmeta
from raftmeta.bindings import verbs
from raftmeta.bindings.requests import hello_frame
from raftmeta.operations import Put
from tests.client.nodes import serving
from tests.client.raw import ANSWER, EVENTS, PING, REFUSED, SESSION, RawClient, frame, is_read_whole
from tests.faces.bindings import decode_values, encode_operation
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until
from tests.wire.guarded import flipped_bits
from tests.wire.names import Status

LAGGED = 3  # kind of a watch's last item


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, str]]:
    """A patient node, shared by the tests that only talk nonsense to it."""
    with serving(tmp_path_factory.mktemp("n")) as (nodes, url):
        yield nodes["a"], url


# --- exactly once -----------------------------------------------------------------------------------------------------


def test_the_same_command_through_two_connections_is_applied_once(served: tuple[raftmeta.Node, str]) -> None:
    """Both get the answer of the one application, to the byte; the counter moved once."""
    with RawClient(served[1]) as first, RawClient(served[1]) as second:
        first.open_session()
        command = first.encoder.command(verbs.add("once"))
        answers = [first.ask(command)]
        second.encoder.id = first.encoder.id
        answers.append(second.ask(command))
        assert answers[0][0] == answers[1][0] == Status.OK and answers[0][3] == answers[1][3]
        assert served[0].add("once", 0).result == 1


def test_a_command_of_a_closed_session_is_not_applied(served: tuple[raftmeta.Node, str]) -> None:
    with RawClient(served[1]) as client:
        client.open_session(SESSION + 1)
        assert client.ask(client.encoder.close_session())[0] == Status.OK
        assert client.ask(client.encoder.command(verbs.put("closed", "1")))[0] == Status.SESSION_UNKNOWN
        assert client.ask(client.encoder.open_session(SESSION + 1, 60_000, 1000))[0] == Status.SESSION_UNKNOWN
        assert served[0].get("closed") is None


# --- nonsense ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=200), is_greeted=st.booleans(), is_framed=st.booleans())
def test_anything_that_is_no_request_closes_its_connection_only(
    served: tuple[raftmeta.Node, str], data: bytes, is_greeted: bool, is_framed: bool
) -> None:
    """Whatever came, the node answers the next client."""
    with RawClient(served[1], greets=is_greeted) as client:
        client.send(frame(data) if is_framed else data)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()
    with RawClient(served[1]) as client:
        assert client.ask(client.encoder.ping())[0] == Status.OK


def test_every_flipped_bit_of_a_request_is_refused(served: tuple[raftmeta.Node, str]) -> None:
    """No bit of header or body can change without closing the connection, or making the node wait for more."""
    with RawClient(served[1]) as client:
        whole = client.encoder.get("k", 0, True)
    before = served[0].get("k")
    for flipped in flipped_bits(whole):
        with RawClient(served[1]) as client:
            client.send(flipped)
            client.socket.shutdown(socket.SHUT_WR)
            messages = []
            with pytest.raises(ConnectionError):
                while True:
                    messages.append(client.next())
            assert all(message[0] == REFUSED for message in messages)
    assert served[0].get("k") == before


@pytest.mark.parametrize(
    "payload",
    [
        b"\x95\x05\x01\x01\x01\xc0\x90",  # a lease's expiry, which only a leader proposes
        encode_operation(Put("k", "1")),  # no session
        encode_operation(Put("k", "1"), session=SESSION),  # no sequence
    ],
)
def test_commands_that_are_not_a_clients_enter_no_log(served: tuple[raftmeta.Node, str], payload: bytes) -> None:
    """Answered as refused, or the connection is closed; the log did not grow by it."""
    last = served[0].status().last
    with RawClient(served[1]) as client:
        client.send(frame(msgpack.packb([1, 77, payload])))
        message = client.next()
        assert message[0] == REFUSED or (message[0], message[2]) == (ANSWER, Status.COMMAND_INVALID)
    assert served[0].status().last <= last + 1  # a keep-alive of the node's own may have come


def test_a_foreign_cluster_is_told_why(served: tuple[raftmeta.Node, str]) -> None:
    with RawClient(served[1], greets=False) as client:
        client.send(hello_frame("other", ""))
        kind, _, status, _, _, text = client.next()
        assert (kind, status) == (REFUSED, Status.FOREIGN_CLUSTER) and b"cluster" in text
        assert client.is_closed()


# --- silence and greed ------------------------------------------------------------------------------------------------


def test_who_says_nothing_is_asked_then_disconnected(tmp_path: Path) -> None:
    """Without HELLO after hello_timeout_s; after it, a ping, and without an answer to that the end."""
    with serving(tmp_path, hello_timeout_s=0.2, client_idle_s=0.3) as (nodes, url):
        with RawClient(url, greets=False) as silent:
            assert silent.is_closed()
        with RawClient(url) as dead, RawClient(url) as alive:
            assert alive.next()[0] == PING
            alive.send(alive.encoder.ping(is_answer=True))
            assert dead.next()[0] == PING and dead.is_closed()
            assert alive.ask(alive.encoder.ping())[0] == Status.OK
        wait_until(lambda: nodes["a"].metrics()["client_connections"] == 0, timeout_s=30, what="all to be gone")
        wait_until(lambda: nodes["a"].metrics()["client_connections_evicted"] >= 2, timeout_s=20, what="both to count")


@pytest.mark.uninstrumented  # a sanitizer keeps what was freed
def test_who_does_not_read_is_disconnected_and_delays_nobody(tmp_path: Path) -> None:
    """It asks for 2 GiB and reads none: the node makes a few answers, stops reading it, and lets it go."""
    with serving(tmp_path, client_idle_s=0.5) as (nodes, url), RawClient(url) as greedy, RawClient(url) as other:
        nodes["a"].put("large", bytes(1 << 20))
        before = resident_bytes()
        for _ in range(2000):
            greedy.send(greedy.encoder.get("large", 0, True))
        for _ in range(20):
            assert other.ask(other.encoder.get("large", 0, False))[0] == Status.OK
        assert resident_bytes() - before < 64 << 20
        wait_until(lambda: nodes["a"].metrics()["client_connections"] < 2, timeout_s=15, what="the greedy one to go")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_slow_watcher_lags_alone(tmp_path: Path) -> None:
    """Its queue ends with one LAGGED that says where to go on; another watcher gets everything meanwhile."""
    rounds, each = 12, 20
    with serving(tmp_path, watch_queue_bytes_max=1 << 20, client_idle_s=3600.0) as (nodes, url), RawClient(url) as slow:
        slow.socket.settimeout(60)
        slow.send(slow.encoder.watch(b"", b"", 1, 0))
        with raftmeta.Client(url) as client, client.watch(prefix="", start_revision=1, timeout_s=60) as watch:
            for number in range(rounds):
                nodes["a"].txn(then=[Put(f"{number}/{key}", bytes(32_768)) for key in range(each)], timeout_s=60)
            events = iter(watch)
            seen = [next(events).revision for _ in range(rounds * each)]  # type: ignore[union-attr]
            assert seen == [revision for revision in range(1, rounds + 1) for _ in range(each)]
        items: list[Any] = []
        while not items or items[-1][0] != LAGGED:
            kind, _, _, _, _, body = slow.next()
            items += decode_values(body) if kind == EVENTS else []
        revisions = [item[1] for item in items]
        assert revisions == list(range(1, len(items) + 1))  # the last one is where to go on: nothing is missing


def test_halves_of_large_requests_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Each claims 6 MiB and sends most of it: beyond client_bytes_max and one request such a connection is let go."""
    with serving(tmp_path, client_bytes_max=2 << 20, client_idle_s=2.0) as (nodes, url):
        half = (6 << 20).to_bytes(4, "little") + bytes(5 << 20)
        clients = [RawClient(url) for _ in range(6)]
        before = resident_bytes()
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.send(half)
        # One that is refused is told so, and counts until it is gone or was silent for client_idle_s.
        wait_until(lambda: nodes["a"].metrics()["client_connections"] <= 1, timeout_s=40, what="all but one to go")
        assert resident_bytes() - before < 48 << 20
        for client in clients:
            client.socket.close()
        wait_until(lambda: nodes["a"].metrics()["client_connections"] == 0, timeout_s=40, what="the last one to go")
        with RawClient(url) as other:
            other.open_session()
            assert other.ask(other.encoder.command(verbs.put("k", bytes(1 << 20))))[0] == Status.OK


def test_halves_of_large_requests_take_no_room_of_others(tmp_path: Path) -> None:
    """Two leave 5 MiB of a request half said: more than all requests may have. Others are served, the older one let go.
    5 MiB alone press nobody, so the younger one goes only if it is looked at in the same sweep.
    """
    with serving(tmp_path, client_bytes_max=8 << 20) as (nodes, url), RawClient(url) as other:
        other.open_session()
        half = (6 << 20).to_bytes(4, "little") + bytes(5 << 20)
        with RawClient(url) as first, RawClient(url) as second:
            first.send(half)
            second.send(half)
            wait_until(lambda: is_read_whole(first.socket), timeout_s=20, what="the first half to be read")
            wait_until(lambda: is_read_whole(second.socket), timeout_s=20, what="the second half to be read")
            for number in range(20):
                command = other.encoder.command(verbs.put("k", b"%d" % number))
                assert other.ask(command)[0] == Status.OK
            assert first.is_closed()
        wait_until(lambda: nodes["a"].metrics()["client_connections_evicted"] >= 1, timeout_s=20, what="it to count")


def test_one_large_request_is_taken_however_little_room_there_is(tmp_path: Path) -> None:
    """It has more bytes than all requests may have: it is no reason to refuse itself, and comes in pieces."""
    with serving(tmp_path, client_bytes_max=1 << 20) as (_, url), RawClient(url) as client:
        client.open_session()
        command = client.encoder.command(verbs.put("k", bytes(1 << 20)))
        client.send(command[:-1])
        wait_until(lambda: is_read_whole(client.socket), timeout_s=20, what="all but a byte to be read")
        assert client.ask(command[-1:])[0] == Status.OK


def test_connections_beyond_the_limit_are_turned_away(tmp_path: Path) -> None:
    with serving(tmp_path, client_connections_max=2) as (nodes, url), RawClient(url), RawClient(url):
        with RawClient(url, greets=False) as third:
            assert third.is_closed()
        wait_until(
            lambda: nodes["a"].metrics()["client_connections_turned_away"] == 1, timeout_s=20, what="it to be counted"
        )


def test_overload_is_answered_at_once(tmp_path: Path) -> None:
    """Without a quorum nothing is decided: beyond client_bytes_max every command is told so."""
    with serving(tmp_path, names="abc", client_bytes_max=1 << 20) as (nodes, url), RawClient(url) as client:
        client.open_session()
        nodes["b"].close(transfer=False)
        nodes["c"].close(transfer=False)
        wait_until(lambda: not nodes["a"].status().leader, timeout_s=30, what="the last member to notice")
        for _ in range(20):
            client.send(client.encoder.command(verbs.put("k", bytes(100_000))))
        answers = [message for message in (client.next() for _ in range(9)) if message[0] == ANSWER]
        assert {message[2] for message in answers} == {Status.OVERLOADED}


# --- listening --------------------------------------------------------------------------------------------------------


def make(folder: Path, **arguments: Any) -> raftmeta.Node:
    settings = arguments.pop("settings", {})
    peers = {"a": f"127.0.0.1:{free_ports(1)[0]}"}
    return raftmeta.Node(
        "a", peers=peers, data_dir=folder, config=raftmeta.Config(**{**QUICK, **settings}), **arguments
    )


def test_an_address_that_others_reach_needs_consent(tmp_path: Path) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        make(tmp_path, client_listen="0.0.0.0:7100")
    assert caught.value.field == "client_listen"


def test_an_address_in_use_is_named_and_nothing_runs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        node = make(tmp_path, client_listen=address)
        with pytest.raises(raftmeta.AddressInUse) as caught:
            node.start()
        assert caught.value.address == address and not node.is_running


def test_a_stale_socket_is_replaced_and_a_long_path_explained(tmp_path: Path) -> None:
    """The folder is locked: whoever left the socket is gone."""
    folder = tmp_path / "n"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "clients.sock"))
    with make(folder, settings={"local_clients": True}) as node:
        node.ready(30)
        with raftmeta.Client(f"raft+unix://{folder}") as client:
            client.put("k", "1")
    deep = tmp_path / ("d" * 100)
    with pytest.raises(raftmeta.ConfigError, match="at most 107"):
        make(deep, settings={"local_clients": True}).start()
