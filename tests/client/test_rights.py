"""Users and rights over a real node: proofs, reads, watches, and every other request."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import aio
from raftmeta.bindings import scram
from raftmeta.bindings.requests import VALUES
from raftmeta.operations import Get, Put, Version, ZnodeCheck, ZnodeCreate
from tests.client.nodes import serving
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    """One node with rights on: `boss` is an admin, `user` may do everything with keys below a/."""
    with serving(tmp_path, local_clients=True) as (nodes, url):
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        node.put("a/seen", "1")
        node.put("b/secret", "2")
        auth = node.auth
        auth.put_user("boss", "of the house")
        auth.put_user("user", "correct horse")
        auth.put_role("all")
        auth.put_role("a")
        auth.grant("all", "admin")
        auth.grant("a", "read", "write", "watch", "lease", prefix="a/")
        auth.bind("boss", "all")
        auth.bind("user", "a")
        auth.enable()
        yield node, url


def as_user(url: str, name: str = "user", password: str = "correct horse") -> raftmeta.Client:
    return raftmeta.Client(url, user=name, password=password)


def test_a_user_does_what_it_may(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    with as_user(url) as client:
        assert client.get("a/seen").value == b"1"  # type: ignore[union-attr]
        client.put("a/new", "3")
        assert node.get("a/new").value == b"3"  # type: ignore[union-attr]
        assert client.range(prefix="a/").count == 2
        lease = client.lease(5)
        client.put("a/leased", "4", lease=lease)
        lease.revoke()
        assert client.get("a/leased") is None
        assert client.txn([Version("a/seen") > 0], [Put("a/x", b"1")], []).succeeded
    wait_until(lambda: node.metrics()["client_authentications"], timeout_s=20, what="the proof to count")


def test_a_node_that_waits_for_its_cluster_calls_no_password_wrong(
    guarded: tuple[raftmeta.Node, str], tmp_path: Path
) -> None:
    """It knows no user yet. The client asks another node, and says what it waits for where there is none."""
    _, url = guarded
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    peers = {"x": addresses[0], "y": addresses[1]}
    config = raftmeta.Config(**QUICK)
    waiting = raftmeta.Node("x", peers=peers, data_dir=tmp_path / "x", client_listen=addresses[2], config=config)
    with contextlib.closing(waiting.start()):
        with as_user(f"raft://{addresses[2]}") as client, pytest.raises(raftmeta.NotReady):
            client.ready(2)
        for _ in range(4):  # the addresses are tried in any order
            with as_user(f"raft://{addresses[2]},{url.removeprefix('raft://')}") as client:
                client.put("a/x", "1", timeout_s=20)
        assert waiting.metrics()["client_authentications_failed"] == 0


def test_a_node_itself_may_do_everything(guarded: tuple[raftmeta.Node, str]) -> None:
    """Its session is known as its own, also when it is opened after rights were enabled."""
    node, _ = guarded
    node.put("b/secret", "3")
    with node.lease(5) as lease:
        node.put("c", "1", lease=lease)
    node.auth.disable()
    node.auth.enable()


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.get("b/secret"),
        lambda client: client.get("b/secret", local=True),
        lambda client: client.get("b/secret", revision=1),
        lambda client: client.range(),
        lambda client: client.range(count_only=True),
        lambda client: client.range("a/", "b0", keys_only=True),
        lambda client: client.range("a/", "b0", delimiter="/"),
        lambda client: client.range("a/", "b0", delimiter="/", local=True, count_only=True),
        lambda client: client.put("b/secret", "x"),
        lambda client: client.create("b/secret", "x"),
        lambda client: client.put("a/seen", "x", fence=raftmeta.Fence("b/secret", 1)),
        lambda client: client.delete_range(previous=True),
        lambda client: client.txn([Version("b/secret") > 0], [], []),
        lambda client: client.txn([], [raftmeta.Txn(then=(Get("b/secret"),))], []),
        lambda client: client.compact(1),
        lambda client: client.transfer(),
        lambda client: client.add_member("z", "127.0.0.1:9"),
        lambda client: client.fetch_snapshot(io.BytesIO()),
        lambda client: client.flight_recorder(),
        lambda client: client.auth.disable(),
        lambda client: client.auth.put_user("boss", "mine now"),
        lambda client: client.auth.bind("user", "all"),
        lambda client: next(iter(client.watch(prefix="b/"))),
        lambda client: next(iter(client.watch(prefix="", start_revision=1))),
    ],
)
def test_what_a_user_may_not_is_denied(guarded: tuple[raftmeta.Node, str], ask: Any) -> None:
    node, url = guarded
    before = node.range()
    with as_user(url) as client, pytest.raises(raftmeta.PermissionDenied) as denied:
        ask(client)
    assert denied.value.principal == "user" and isinstance(denied.value, raftmeta.NotExecuted)
    assert node.range().records == before.records


def test_requests_for_znodes_are_denied_by_keys_and_by_identities(guarded: tuple[raftmeta.Node, str]) -> None:
    """A znode is a key: rights on it decide. Whom a client claims to be nobody proved, so it may claim nobody."""
    with as_user(guarded[1]) as client:
        wait_until(lambda: client.status().feature_level >= 4, timeout_s=20, what="the level of znodes")
        assert client.znodes([ZnodeCreate("/z", b"1")], root="a").results[0].path == "/z"  # type: ignore[union-attr]
        assert client.znode("/z", root="a") is not None
        with pytest.raises(raftmeta.PermissionDenied) as denied:
            client.znodes([ZnodeCheck("/z"), ZnodeCreate("/z")], root="b")
        assert (denied.value.right, denied.value.start) == ("read", b"b/z")
        with pytest.raises(raftmeta.PermissionDenied):
            client.znodes([ZnodeCheck("/z")], root="a", identities=[("digest", "me:hash")])
        with pytest.raises(raftmeta.PermissionDenied):
            client.znode("/z", root="b")


def test_a_denial_names_what_is_missing(guarded: tuple[raftmeta.Node, str]) -> None:
    with as_user(guarded[1]) as client:
        with pytest.raises(raftmeta.PermissionDenied) as denied:
            client.put("b/secret", "x")
        assert (denied.value.right, denied.value.start, denied.value.end) == ("write", b"b/secret", None)
        assert str(denied.value) == "user has no right to write of b'b/secret'"
        with pytest.raises(raftmeta.PermissionDenied) as denied:
            client.delete_range("a/", "c", previous=True)
        assert (denied.value.right, denied.value.start, denied.value.end) == ("read", b"a/", b"c")


def test_status_tells_a_user_nothing_of_keys_that_it_may_not_read(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    with as_user(url) as client, as_user(url, "boss", "of the house") as boss:
        assert (client.status().keys, int(client.status().state_hash, 16)) == (0, 0)
        assert boss.status().keys == node.status().keys
        assert [member.name for member in client.members()] == ["a"]


@pytest.mark.parametrize(
    ("name", "password"), [("user", "wrong"), ("nobody", "correct horse"), ("user", "Correct horse")]
)
def test_a_wrong_proof_is_told_at_once(guarded: tuple[raftmeta.Node, str], name: str, password: str) -> None:
    """The client gives up, and does not try until the user is locked out. Nothing shows the password."""
    node, url = guarded
    with as_user(url, name, password) as client:
        with pytest.raises(raftmeta.AuthenticationFailed) as failed:
            client.get("a/seen", timeout_s=10)
        assert password not in str(failed.value) and password not in repr(client._client._credentials)
    wait_until(lambda: node.metrics()["client_authentications_failed"], timeout_s=20, what="the failure to count")


def test_who_proved_nothing_may_do_nothing(guarded: tuple[raftmeta.Node, str]) -> None:
    with raftmeta.Client(guarded[1]) as client:
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.get("a/seen")
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.put("a/seen", "x")
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.status()


def test_guessing_is_slowed_down(guarded: tuple[raftmeta.Node, str]) -> None:
    """After ten failures in a row a proof is not looked at until some have leaked away; then the user comes in."""
    _, url = guarded

    async def proof(password: str) -> Exception | None:
        client = aio.Client(url, user="user", password=password)
        try:
            await client.get("a/seen", timeout_s=1)
        except raftmeta.RaftmetaError as error:
            return error
        finally:
            await client.close()
        return None

    async def run() -> None:
        errors = await asyncio.gather(*(proof(f"wrong {number}") for number in range(14)))
        assert {type(error) for error in errors} == {raftmeta.AuthenticationFailed, raftmeta.Withdrawn}

    asyncio.run(run())
    with as_user(url) as client:
        assert client.get("a/seen", timeout_s=20) is not None


def test_a_watch_ends_when_its_right_goes(guarded: tuple[raftmeta.Node, str]) -> None:
    """One that waits for events, and one whose events are there: both are told why, and see nothing more."""
    node, url = guarded
    with as_user(url) as client, client.watch(prefix="a/") as watch:
        node.put("a/1", "1")
        assert next(iter(watch)).record.key == b"a/1"
        node.auth.revoke("a", "watch", prefix="a/")
        node.put("a/2", "2")
        with pytest.raises(raftmeta.PermissionDenied):
            for event in watch:
                assert event.record.key != b"a/2"


def test_a_changed_password_ends_what_the_old_one_proved(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    with as_user(url) as client:
        client.put("a/1", "1")
        node.auth.put_user("user", "another")
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.put("a/1", "2")
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.get("a/1")
    with as_user(url, password="another") as client:
        client.put("a/1", "3")


def test_a_one_time_user_sets_its_password_and_nothing_else(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    node.auth.put_user("new", "token", one_time=True)
    node.auth.bind("new", "a")
    with as_user(url, "new", "token") as client:
        for ask in (lambda: client.get("a/seen"), lambda: client.put("a/seen", "x")):
            with pytest.raises(raftmeta.PermissionDenied):
                ask()
        client.auth.put_user("new", "of my own")
    with as_user(url, "new", "of my own") as client:
        assert client.get("a/seen") is not None


async def leases_of(url: str, name: str, password: str) -> list[int]:
    async with aio.Client(url, user=name, password=password) as client:
        channel = client.channel
        frame = channel.encoder.leases(0)
        _, *page = await channel.submit(frame, VALUES, channel.deadline(10))
        return [lease[0] for lease in page]


def test_leases_are_listed_to_their_owner(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    other = node.lease(50)
    with as_user(url) as client:
        own = client.lease(50)
        assert asyncio.run(leases_of(url, "user", "correct horse")) == [own.id]
        assert set(asyncio.run(leases_of(url, "boss", "of the house"))) == {own.id, other.id}


# --- the proof --------------------------------------------------------------------------------------------------------
def test_a_proof_is_of_this_exchange_only() -> None:
    """A proof to one node proves nothing to another: both nonces are in it."""
    exchange = scram.Exchange(scram.Credentials("user", "pass"))
    proof = exchange.proof_for(b"answer", exchange.nonce + b"node", b"salt", 4096)
    other = scram.Exchange(scram.Credentials("user", "pass"))
    assert other.proof_for(b"answer", other.nonce + b"node", b"salt", 4096) != proof
    with pytest.raises(raftmeta.AuthenticationFailed):
        exchange.proof_for(b"answer", b"replayed", b"salt", 4096)
    with pytest.raises(raftmeta.AuthenticationFailed):
        exchange.proof_for(b"answer", exchange.nonce + b"node", b"salt", 4095)
    with pytest.raises(raftmeta.AuthenticationFailed):
        exchange.check(bytes(32))


def test_a_verifier_is_salted_and_a_password_has_one_form() -> None:
    assert scram.secret_of("pass") != scram.secret_of("pass")
    assert scram._prepared("\u212bngstr\u00f6m") == scram._prepared("A\u030angstro\u0308m")


def test_a_password_is_proved_only_where_nobody_can_listen(tmp_path: Path) -> None:
    """Over an address that is not loopback a node without TLS takes no proof."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect(("192.0.2.1", 9))
        host = probe.getsockname()[0]
    assert not host.startswith("127."), "this machine has only loopback"
    port, peer = free_ports(2)
    config = raftmeta.Config(**QUICK, local_clients=True, insecure=True)
    place = f"{host}:{port}"
    peers = {"a": f"127.0.0.1:{peer}"}
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path, client_listen=place, config=config) as node:
        node.ready(30)
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        node.auth.put_user("user", "correct horse")
        with as_user(f"raft://{place}") as client, pytest.raises(raftmeta.AuthenticationFailed):
            client.get("k")
        with as_user(f"raft+unix://{tmp_path}") as client:
            assert client.get("k") is None


# --- a cluster --------------------------------------------------------------------------------------------------------
def test_every_member_decides_alike(tmp_path: Path) -> None:
    """Three members; ask through each, also for what is denied. All have one state afterwards."""
    with serving(tmp_path, names="abc") as (nodes, url):
        wait_until(
            lambda: all(node.status().feature_level >= 3 for node in nodes.values()),
            timeout_s=20,
            what="the level of rights",
        )
        auth = nodes["b"].auth
        auth.put_user("user", "correct horse")
        auth.put_role("a")
        auth.grant("a", "read", "write", "lease", prefix="a/")
        auth.bind("user", "a")
        auth.enable()
        for place in url.removeprefix("raft://").split(","):
            with as_user(f"raft://{place}") as client:
                client.put("a/1", place)
                with pytest.raises(raftmeta.PermissionDenied):
                    client.put("b/1", "x")
        for node in nodes.values():
            node.put("b/own", node.identity.name)
        wait_until(
            lambda: len({(node.status().revision, node.status().state_hash) for node in nodes.values()}) == 1,
            timeout_s=20,
            what="one state",
        )


def test_a_restart_forgets_nothing_of_rights(tmp_path: Path) -> None:
    """Users, grants and that rights are on come back from the folder; the node opens its session as its own."""
    with serving(tmp_path) as (nodes, _):
        wait_until(lambda: nodes["a"].status().feature_level >= 3, timeout_s=20, what="the level of rights")
        auth = nodes["a"].auth
        auth.put_user("user", "correct horse")
        auth.put_role("a")
        auth.grant("a", "read", "write", prefix="a/")
        auth.bind("user", "a")
        auth.enable()
    with serving(tmp_path) as (nodes, url):
        nodes["a"].put("b/own", "1")
        with as_user(url) as client:
            client.put("a/1", "1")
            with pytest.raises(raftmeta.PermissionDenied):
                client.get("b/own")
        with raftmeta.Client(url) as client, pytest.raises(raftmeta.AuthenticationFailed):
            client.get("a/1")
