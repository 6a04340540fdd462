"""The parts of etcd:// and consul:// that need no server: fates of requests, names of keys, and what a watch tells."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raftmeta import errors
from raftmeta.backends import consul, etcd
from raftmeta.backends.http_servers import Answer, HttpServers
from raftmeta.backends.plugin import PolledWatch, record_of
from raftmeta.conformance.kit import eventually
from raftmeta.recipes.deadline import Deadline
from raftmeta.results import WatchBatch, WatchReset
from tests.processes.waiting import free_ports

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def scripted(*acts: Callable[[socket.socket], object]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that treats its connections by turns as told; gives its address and what it was sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def serve() -> None:
        for act in acts:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(65536))
                act(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
    finally:
        listener.close()


def answers(connection: socket.socket) -> None:
    connection.sendall(ANSWER)


def hangs_up(connection: socket.socket) -> None:
    """Nothing: its connection is closed behind it."""


def ask(*addresses: str, is_repeatable: bool, timeout_s: float = 5.0, judge: Any = lambda answer: None) -> Answer:
    servers = HttpServers(addresses, None, name="test")
    try:
        deadline = Deadline(timeout_s)
        return servers.call("PUT", "/", b"x", {}, judge=judge, is_repeatable=is_repeatable, deadline=deadline)
    finally:
        servers.close()


def test_a_request_that_nobody_took_goes_to_the_next_server() -> None:
    with scripted(answers) as (address, received):
        nobody = f"127.0.0.1:{free_ports(1)[0]}"
        assert ask(nobody, address, is_repeatable=False).body == b"ok"
        assert len(received) == 1


def test_a_write_whose_connection_breaks_is_not_sent_again() -> None:
    with scripted(hangs_up, answers) as (address, received):
        with pytest.raises(errors.OutcomeUnknown):
            ask(address, is_repeatable=False)
        assert len(received) == 1
    with scripted(hangs_up, answers) as (address, received):
        assert ask(address, is_repeatable=True).body == b"ok"
        assert len(received) == 2


def test_a_server_without_a_leader_is_left_and_nothing_was_done() -> None:
    def judge(answer: Answer) -> None:
        raise errors.NoLeader("none")

    with scripted(*[answers] * 20) as (address, _), pytest.raises(errors.NoLeader):
        ask(address, is_repeatable=False, timeout_s=0.3, judge=judge)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("etcdserver: no leader", errors.NoLeader),
        ("etcdserver: request timed out", errors.OutcomeUnknown),
        ("etcdserver: leader changed", errors.OutcomeUnknown),
        ("etcdserver: mvcc: database space exceeded", errors.NoSpace),
        ("etcdserver: permission denied", errors.PermissionDenied),
        ("etcdserver: requested lease not found", errors.LeaseExpired),
        ("something new", errors.OutcomeUnknown),
    ],
)
def test_an_error_of_etcd_tells_the_fate(message: str, kind: type[errors.RaftmetaError]) -> None:
    assert type(etcd.error_of(message)) is kind


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (500, "No cluster leader", errors.NoLeader),
        (500, "leadership lost while committing log", errors.OutcomeUnknown),
        (500, "rpc error making call: EOF", errors.OutcomeUnknown),
        (403, "Permission denied: token lacks it", errors.PermissionDenied),
        (403, "ACL not found", errors.AuthenticationFailed),
        (413, "too large", errors.InvalidArgument),
        (429, "slow down", errors.Overloaded),
    ],
)
def test_an_error_of_consul_tells_the_fate(status: int, text: str, kind: type[errors.RaftmetaError]) -> None:
    assert type(consul.error_of(status, text)) is kind


def test_names_in_consul_are_paths_that_stay_as_they_are() -> None:
    """No "..", no "//", no percent encoding; and the name of a prefix is a prefix of the name."""
    for text in ("a/b", "..", "a//b", "/a", "a/", "ä ö", "%2E%2E", "=41", "a/../b"):
        key = text.encode()
        name = consul.name_of(key)
        assert consul.key_of(name) == key
        assert not {"..", "//", "%", " "} & {name[at : at + size] for at in range(len(name)) for size in (1, 2)}
        assert all(name.startswith(consul.name_of(key[:size])) for size in range(len(key)))
    assert consul.name_of(b"topics/t") == "topics/t"


def test_a_polled_watch_tells_states_as_gaps_and_nothing_twice() -> None:
    states: list[tuple[int, list[Any]]] = []
    told: list[Any] = []

    def record(key: bytes, revision: int) -> Any:
        return record_of(key, b"", created=revision, modified=revision)

    base = [record(b"a", 5)]
    script = [(5, base), (6, [record(b"a", 6)]), (6, [record(b"a", 6)]), (4, [record(b"a", 6), record(b"b", 7)])]
    may_look = threading.Event()

    def look(former: int, keys_only: bool) -> tuple[int, list[Any]]:
        if len(states) == len(script):
            may_look.wait(20)
            raise errors.NodeClosed("the end of the script")
        states.append(script[len(states)])
        return states[-1]

    watch = PolledWatch(b"", is_prefix=True, base=(5, base, False), look=look, tell=told.append, end=told.append)
    watch.start()
    eventually(lambda: len(told) == 2, "the two changes")
    update, reset = told
    assert isinstance(update, WatchBatch) and [event.key for event in update.events] == [b"a"]
    assert isinstance(reset, WatchReset) and [one.key for one in reset.records] == [b"a", b"b"]
    assert reset.revision > update.revision == 6
    may_look.set()
    eventually(lambda: len(told) == 3 and isinstance(told[2], errors.NodeClosed), "the end")
