"""The audit trail of real nodes: who asked for what, what came of it, and nothing of values or passwords."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import aio, snapshot
from raftmeta.face.audit import trail_metrics
from raftmeta.operations import Get, Put, Version
from raftmeta.security.audit_trail import file_name, files_of, lines_of, verify
from tests.client.nodes import serving
from tests.client.raw import RawClient
from tests.faces import audit as face
from tests.processes.waiting import wait_until
from tests.replicated.machines import Board
from tests.security.nodes import CLIENT_PROTOCOL, PEER_PROTOCOL, Place, connect, context_of, refusal_of
from tests.security.test_audit_trail import on_full_disk

BOSS, USER = "of the house", "correct horse"
SECRET = "a-value-that-nobody-may-see"
SECRETS = (SECRET, BOSS, USER, "not-the-password", "another secret")


class Audited:
    """A node with TLS, rights and a trail: `boss` is an admin, `user` may do everything with keys below a/."""

    def __init__(self, folder: Path, place: Place, node: raftmeta.Node) -> None:
        self.folder = folder
        self.place = place
        self.node = node

    def settings(self, name: str = "user", password: str = USER) -> dict[str, Any]:
        return {"user": name, "password": password, "tls": self.place.client_tls()}

    def client(self, name: str = "user", password: str = USER) -> raftmeta.Client:
        return raftmeta.Client(self.place.url, **self.settings(name, password))

    def lines(self) -> list[dict[str, Any]]:
        return [line.facts for _, _, line in lines_of(self.folder) if line is not None]

    def told(self, **facts: Any) -> list[dict[str, Any]]:
        """Lines with these facts, waited for."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines() if all(line.get(name) == fact for name, fact in facts.items())]

        return wait_until(found, timeout_s=20, what=lambda: f"{facts} in {self.lines()[-8:]}")

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for _, path in files_of(self.folder))


@contextlib.contextmanager
def audited(folder: Path, **settings: Any) -> Iterator[Audited]:
    place = Place(folder, "a")
    trail = folder / "trail"
    audit = raftmeta.Audit(folder=trail, **settings)
    with place.node("a", place.tls("a"), audit=audit) as node:
        node.ready(30)
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        node.put("a/seen", SECRET)
        node.put("b/secret", SECRET)
        auth = node.auth
        auth.put_user("boss", BOSS)
        auth.put_user("user", USER)
        auth.put_role("all")
        auth.put_role("a")
        auth.grant("all", "admin")
        auth.grant("a", "read", "write", "watch", "lease", prefix="a/")
        auth.bind("boss", "all")
        auth.bind("user", "a")
        auth.enable()
        yield Audited(trail, place, node)
    assert verify(trail).is_whole and verify(trail).is_closed


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[Audited]:
    with audited(tmp_path, reads=True, writes=True) as made:
        yield made


# --- each verb --------------------------------------------------------------------------------------------------------


def test_each_verb_of_a_client_has_its_line(trail: Audited) -> None:
    """Operation, key, who, from where, verdict, and the revision that the client was told."""
    with trail.client() as client:
        client.get("a/seen")
        client.get("a/seen", local=True)
        client.range(prefix="a/")
        revision = client.put("a/put", SECRET).revision
        client.create("a/new", SECRET)
        client.update("a/new", SECRET)
        client.add("a/count", 4)
        client.delete("a/put")
        client.delete_range("a/x", "a/y")
        client.txn([Version("a/seen") > 0], [Put("a/x", SECRET.encode()), Get("a/seen")], [])
        lease = client.lease(5)
        client.put("a/leased", SECRET, lease=lease)
        lease.revoke()
        with client.watch(prefix="a/"):
            pass
        client.members()
        client.status()
        with pytest.raises(raftmeta.KeyExists):
            client.create("a/new", SECRET)
        with pytest.raises(raftmeta.CompareFailed):
            client.update("a/new", SECRET, expected_revision=1)
        with pytest.raises(raftmeta.Fenced):
            client.put("a/put", SECRET, fence=raftmeta.Fence("a/none", 1))
    (put,) = trail.told(operation="put", key="a/put", verdict="ok")
    assert (put["revision"], put["principal"], put["proof"], put["certificate"]) == (
        revision,
        "user",
        "password",
        "app",
    )
    assert put["peer"].startswith("127.0.0.1:") and put["index"] > 0 and put["node"] == "a"
    assert len(trail.told(operation="get", key="a/seen", verdict="ok")) == 2
    assert trail.told(operation="range", key="a/", verdict="ok")[0]["end"] == "a0"
    for operation, key in [("create", "a/new"), ("update", "a/new"), ("add", "a/count"), ("delete", "a/put")]:
        assert trail.told(operation=operation, key=key, verdict="ok")
    assert trail.told(operation="delete_range", key="a/x", end="a/y", verdict="ok")
    (transaction,) = trail.told(operation="transaction", verdict="ok")
    assert transaction["operations"] == [
        {"operation": "compare", "key": "a/seen"},
        {"operation": "put", "key": "a/x"},
        {"operation": "get", "key": "a/seen"},
    ]
    granted = trail.told(operation="lease_grant", verdict="ok")
    assert granted and trail.told(operation="lease_revoke", lease=lease.id, verdict="ok")
    assert trail.told(operation="watch", key="a/", end="a0", verdict="ok") and trail.told(operation="unwatch")
    for operation in ("members", "status", "session_open", "authenticate"):
        assert trail.told(operation=operation, verdict="ok")
    assert trail.told(operation="create", key="a/new", verdict="KeyExists")
    assert trail.told(operation="update", key="a/new", verdict="CompareFailed")
    assert trail.told(operation="put", key="a/put", fence="a/none", verdict="Fenced")
    assert len({line["number"] for line in trail.lines()}) == len(trail.lines())


def test_an_asyncio_client_and_face_leave_the_same_lines(tmp_path: Path) -> None:
    """The node itself is started as raftmeta.aio.Node."""

    async def run() -> list[dict[str, Any]]:
        place = Place(tmp_path, "a")
        node = aio.Node(
            "a",
            peers=place.peers,
            data_dir=tmp_path / "a",
            client_listen=place.clients["a"],
            config=place.config,
            tls=place.tls("a"),
            audit=raftmeta.Audit(folder=tmp_path / "trail", writes=True),
        )
        async with node:
            await node.ready(30)
            async with aio.Client(place.url, tls=place.client_tls()) as client:
                await client.put("k", SECRET)
                await client.get("k")
            while node.status().feature_level < 3:
                await asyncio.sleep(0)
            await node.auth.put_role("r")
            with pytest.raises(raftmeta.CommandRefused):
                await node.auth.bind("nobody", "r")
            with pytest.raises(raftmeta.RaftmetaError):
                await node.remove_member("nobody", timeout_s=1)
        return [line.facts for _, _, line in lines_of(tmp_path / "trail") if line is not None]

    lines = asyncio.run(run())
    assert verify(tmp_path / "trail").is_closed
    by_operation = {line["operation"]: line for line in lines if "operation" in line}
    assert by_operation["put"]["principal"] == "app" and by_operation["put"]["proof"] == "certificate"
    assert "get" not in by_operation
    assert (by_operation["auth_role_put"]["principal"], by_operation["auth_role_put"]["name"]) == ("process", "r")
    assert (by_operation["auth_bind"]["verdict"], by_operation["auth_bind"]["role"]) == ("CommandRefused", "r")
    assert by_operation["member_change"]["verdict"] != "ok" and "nobody" in by_operation["member_change"]["change"]


def test_a_large_transaction_names_some_operations_and_counts_the_others(trail: Audited) -> None:
    with trail.client() as client:
        client.txn([], [Put(f"a/{number:03}", SECRET.encode()) for number in range(500)], [])
        client.txn([], [Put(f"a/{number}{'k' * 470}", b"") for number in range(10)], [])
        client.txn([], [raftmeta.Txn(then=(Put("a/inner", b""),))], [])
    wait_until(lambda: len(trail.told(operation="transaction")) == 3, timeout_s=20, what="three lines")
    many, long, nested = trail.told(operation="transaction", verdict="ok")
    assert len(many["operations"]) == 32 and many["more"] == 468
    assert len(long["operations"]) + long["more"] == 10 and long["more"] > 0
    assert nested["operations"] == [{"operation": "put", "key": "a/inner"}]


DENIED: list[tuple[str, Callable[[raftmeta.Client], Any]]] = [
    ("get", lambda client: client.get("b/secret")),
    ("get", lambda client: client.get("b/secret", local=True)),
    ("range", lambda client: client.range()),
    ("put", lambda client: client.put("b/secret", SECRET)),
    ("create", lambda client: client.create("b/secret", SECRET)),
    ("delete_range", lambda client: client.delete_range(previous=True)),
    ("transaction", lambda client: client.txn([Version("b/secret") > 0], [], [])),
    ("compact", lambda client: client.compact(1)),
    ("transfer", lambda client: client.transfer()),
    ("member_meet", lambda client: client.add_member("z", "127.0.0.1:9")),
    ("snapshot", lambda client: client.fetch_snapshot(io.BytesIO())),
    ("flight_recorder", lambda client: client.flight_recorder()),
    ("auth_disable", lambda client: client.auth.disable()),
    ("auth_user_put", lambda client: client.auth.put_user("boss", "another secret")),
    ("auth_bind", lambda client: client.auth.bind("user", "all")),
    ("watch", lambda client: next(iter(client.watch(prefix="b/", start_revision=1)))),
]


def test_denied_requests_are_recorded_without_any_setting(tmp_path: Path) -> None:
    """Nothing else of reads and writes is; who is refused for a wrong password is recorded too."""
    with audited(tmp_path) as trail:
        for operation, ask in DENIED:
            before = len([line for line in trail.lines() if line.get("verdict") == "denied"])
            with trail.client() as client:
                client.put("a/may", SECRET)
                client.get("a/may")
                with pytest.raises(raftmeta.PermissionDenied):
                    ask(client)
            told = wait_until(
                lambda before=before: [line for line in trail.lines() if line.get("verdict") == "denied"][before:],
                timeout_s=20,
                what=operation,
            )
            assert {line["operation"] for line in told} == {operation} and told[0]["principal"] == "user"
        with trail.client("boss", "not-the-password") as client, pytest.raises(raftmeta.AuthenticationFailed):
            client.get("a/seen")
        (failed, *_) = trail.told(operation="authenticate", verdict="AuthenticationFailed")
        assert failed["name"] == "boss" and failed["principal"] == "app" and failed["proof"] == "certificate"
        assert not [line for line in trail.lines() if line.get("key") == "a/may"]


def test_administration_by_a_client_is_recorded_without_any_setting(tmp_path: Path) -> None:
    with audited(tmp_path) as trail, trail.client("boss", BOSS) as client:
        client.auth.put_role("new")
        client.auth.grant("new", "read", "watch", start="a", end="b")
        client.auth.put_user("guest", "another secret")
        client.auth.bind("guest", "new")
        client.fetch_snapshot(io.BytesIO())
        client.flight_recorder()
        client.compact(1)
        with pytest.raises(raftmeta.RaftmetaError):
            client.add_member("z", "127.0.0.1:9", timeout_s=1)
        with pytest.raises(raftmeta.RaftmetaError):
            client.transfer("nobody", timeout_s=1)
        (grant,) = trail.told(operation="auth_grant", principal="boss")
        facts = (grant["name"], grant["rights"], grant["key"], grant["end"], grant["verdict"])
        assert facts == ("new", "read,watch", "a", "b", "ok")
        assert trail.told(operation="auth_bind", principal="boss", name="guest", role="new", verdict="ok")
        assert trail.told(operation="auth_user_put", principal="boss", name="guest", verdict="ok")
        assert trail.told(operation="snapshot", principal="boss", verdict="ok")
        assert trail.told(operation="flight_recorder", principal="boss", verdict="ok")
        assert trail.told(operation="compact", principal="boss", to=1)
        assert trail.told(operation="member_meet", principal="boss", name="z", address="127.0.0.1:9")
        assert trail.told(operation="transfer", principal="boss", name="nobody")[0]["verdict"] != "ok"


def test_lists_and_tokens_are_recorded_and_a_token_is_another_proof(tmp_path: Path) -> None:
    """No line has the token."""
    with audited(tmp_path, writes=True) as trail:
        with trail.client("boss", BOSS) as client:
            assert [user.name for user in client.auth.users()] == ["boss", "user"]
            token = client.auth.token(60, user="user")
        with raftmeta.Client(trail.place.url, tls=trail.place.client_tls(), token=token) as client:
            client.put("a/by-token", SECRET)
            client.auth.revoke_token(token)
        (put,) = trail.told(operation="put", key="a/by-token", verdict="ok")
        assert (put["principal"], put["proof"]) == ("user", "token")
        assert trail.told(operation="auth_show", principal="boss", verdict="ok")
        assert trail.told(operation="auth_token_put", principal="boss", name="user", verdict="ok")
        assert trail.told(operation="auth_token_remove", principal="user", verdict="ok")
        assert token.encode() not in trail.content()


def test_what_is_refused_for_a_quota_is_recorded(tmp_path: Path) -> None:
    """Reads and writes alike: three requests at once, then one a second."""
    audit = raftmeta.Audit(folder=tmp_path / "trail", reads=True, writes=True)
    limits = {"principal_requests_per_s": 1, "principal_burst_s": 3.0}
    with serving(tmp_path, audit=audit, **limits) as (_, url), raftmeta.Client(url) as client:

        def refused(ask: Callable[[], object]) -> None:
            with pytest.raises(raftmeta.QuotaExceeded):
                for _ in range(60):
                    with contextlib.suppress(raftmeta.OutcomeTimeout, raftmeta.Withdrawn, raftmeta.ReadyTimeout):
                        ask()  # no time to wait for the quota, and on a busy machine none for an answer

        refused(lambda: client.put("a", SECRET, timeout_s=0.01))
        refused(lambda: client.get("b", timeout_s=0.01))
    lines = [line.facts for _, _, line in lines_of(tmp_path / "trail") if line]
    verdicts = {(line["operation"], line.get("key")) for line in lines if line.get("verdict") == "QuotaExceeded"}
    assert {("put", "a"), ("get", "b")} <= verdicts


def test_changes_of_members_say_who_comes_and_goes(tmp_path: Path) -> None:
    """By a client, on the node that it asks."""
    place = Place(tmp_path, "ab")
    with contextlib.ExitStack() as stack:
        nodes = []
        for name in "ab":
            audit = raftmeta.Audit(folder=tmp_path / f"trail-{name}")
            nodes.append(stack.enter_context(place.node(name, place.tls(name), audit=audit)))
        for node in nodes:
            node.ready(30)
        url = f"raft://{place.clients['a']}"
        with raftmeta.Client(url, tls=place.client_tls()) as client:
            client.remove_member("b", timeout_s=30)
    changes = [
        line.facts
        for name in "ab"
        for _, _, line in lines_of(tmp_path / f"trail-{name}")
        if line and line.facts.get("operation") == "member_change"
    ]
    steps = [step["operation"] for change in changes for step in change["operations"] if step["name"] == "b"]
    assert "member_remove" in steps and {change["verdict"] for change in changes if change["operations"]} >= {"ok"}


def test_a_watch_whose_right_goes_is_recorded(trail: Audited) -> None:
    with trail.client() as client, client.watch(prefix="a/") as watch:
        trail.told(operation="watch", verdict="ok")
        trail.node.auth.revoke("a", "watch", prefix="a/")
        with pytest.raises(raftmeta.PermissionDenied):
            next(iter(watch))
    (ended,) = trail.told(operation="watch_ended", verdict="denied")
    assert (ended["principal"], ended["key"], ended["end"]) == ("user", "a/", "a0")


def test_metrics_count_lines_and_records(trail: Audited) -> None:
    before = trail.node.metrics()
    with trail.client() as client:
        client.put("a/x", "1")
    trail.told(operation="put", key="a/x")
    after = trail.node.metrics()
    assert after["audit_lines"] > before["audit_lines"] and after["audit_records"] > before["audit_records"]
    assert after["audit_dropped"] == after["audit_suppressed"] == after["audit_failing"] == 0
    assert set(trail_metrics(None)) == {name for name in after if name.startswith("audit_")}


def test_what_the_process_itself_administers_is_recorded(trail: Audited) -> None:
    snapshot.save(trail.node, trail.folder.parent / "saved")
    with pytest.raises(raftmeta.RaftmetaError):
        trail.node.transfer("nobody", timeout_s=1)
    with pytest.raises(raftmeta.RaftmetaError):
        trail.node.remove_member("nobody", timeout_s=1)
    trail.node.report_dead(trail.node.status().id + 1, 1)
    assert trail.told(principal="process", operation="snapshot", verdict="ok")
    assert trail.told(principal="process", operation="process_end", member=str(trail.node.status().id + 1), boot="1")
    assert trail.told(principal="process", operation="transfer", name="nobody")[0]["verdict"] != "ok"
    assert "nobody" in trail.told(principal="process", operation="member_change")[0]["change"]
    assert trail.told(principal="process", operation="auth_enable", verdict="ok")
    assert not [line for line in trail.lines() if line["number"] and line.get("key") == "b/secret"]


def test_an_admin_alone_ends_a_process_by_a_client_and_the_trail_tells_who(trail: Audited) -> None:
    """The lease of the node's own process goes with its key, and another user ends nothing."""
    told = trail.node.status()
    wait_until(lambda: trail.node.status().feature_level >= 7, timeout_s=30, what="the level of processes")
    process = {"member": str(told.id), "boot": str(told.boot)}
    trail.node.create("a/place", b"held", lease=trail.node.lease(600))
    with trail.client() as client, pytest.raises(raftmeta.PermissionDenied):
        client.report_dead(told.id, told.boot)
    assert trail.node.get("a/place") is not None
    with trail.client("boss", BOSS) as boss:
        boss.report_dead(told.id, told.boot)
        assert boss.get("a/place") is None

    async def awaited() -> None:
        async with aio.Client(trail.place.url, **trail.settings("boss", BOSS)) as client:
            await client.report_dead(told.id + 1, 1)

    asyncio.run(awaited())
    (denied,) = trail.told(operation="process_end", principal="user", verdict="denied")
    assert len(trail.told(operation="process_end", principal="boss", verdict="ok", **process)) == 1
    assert (denied["member"], denied["boot"]) == (process["member"], process["boot"])
    assert trail.told(operation="process_end", principal="boss", member=str(told.id + 1), boot="1")


def test_neither_values_nor_passwords_stand_in_a_trail(trail: Audited) -> None:
    """In no form: as they are, escaped, in hexadecimal, in base64; nor what a password becomes."""
    test_each_verb_of_a_client_has_its_line(trail)
    with trail.client("boss", BOSS) as boss, trail.client("user", "not-the-password") as wrong:
        boss.auth.put_user("guest", "another secret")
        with pytest.raises(raftmeta.AuthenticationFailed):
            wrong.put("a/x", SECRET)
    trail.told(operation="auth_user_put", name="guest", principal="boss")
    content = trail.content()
    for secret in SECRETS:
        raw = secret.encode()
        for form in (raw, raw.hex().encode(), base64.b64encode(raw)[:-4], secret.replace(" ", "%20").encode()):
            assert form not in content, form


def test_user_machines_and_leases_have_lines(tmp_path: Path) -> None:
    """The name of the machine, never a call."""
    audit = raftmeta.Audit(folder=tmp_path / "trail", reads=True, writes=True)
    with serving(tmp_path, audit=audit) as (nodes, url):
        nodes["a"].replicated("board", Board)
        with raftmeta.Client(url) as client:
            board = client.replicated("board", Board)
            board.move(SECRET, 3)
            with pytest.raises(raftmeta.Rejected):
                board.move("other", 3)
            board.standing()
        with RawClient(url) as raw:
            raw.open_session()
            assert raw.ask(raw.encoder.leases(0))[0] == 0
    lines = [line.facts for _, _, line in lines_of(tmp_path / "trail") if line and "operation" in line.facts]
    by_machine = [(line["operation"], line["machine"]) for line in lines if "machine" in line]
    assert by_machine.count(("machine_command", "board")) == 2 and ("machine_read", "board") in by_machine
    assert [line["verdict"] for line in lines if line["operation"] == "lease_list"] == ["ok"]
    assert SECRET.encode() not in b"".join(path.read_bytes() for _, path in files_of(tmp_path / "trail"))


# --- connections ------------------------------------------------------------------------------------------------------


def test_refused_connections_are_recorded_with_their_reason(trail: Audited) -> None:
    """On both ports: no certificate, another cluster's, the wrong port's, no TLS at all."""
    authority = trail.place.authority
    clients, peers = trail.place.clients["a"], trail.place.peers["a"]
    refusal_of(clients, context_of(authority, None, CLIENT_PROTOCOL))
    assert trail.told(operation="connection", port="clients", verdict="no_certificate")[0]["peer"].startswith(
        "127.0.0.1:"
    )
    refusal_of(clients, context_of(authority, authority.client("x", cluster="other"), CLIENT_PROTOCOL))
    assert trail.told(operation="connection", port="clients", verdict="wrong_identity")
    refusal_of(peers, context_of(authority, authority.client("app"), PEER_PROTOCOL))
    assert trail.told(operation="connection", port="peers", verdict="wrong_identity")[0]["peer"].startswith(
        "127.0.0.1:"
    )
    with connect(clients) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(OSError):
            plain.recv(100)
    assert trail.told(operation="connection", port="clients", verdict="no_tls")


def test_a_flood_of_refused_connections_gets_few_lines_and_a_count(trail: Audited) -> None:
    for _ in range(140):
        with connect(trail.place.clients["a"]) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(OSError):
                plain.recv(100)
    counted = trail.told(audit="suppressed")
    assert counted[0]["refusals"] >= 1
    assert 100 <= len(trail.told(operation="connection")) < 140


def test_a_client_for_whom_no_place_is_free_is_recorded(tmp_path: Path) -> None:
    audit = raftmeta.Audit(folder=tmp_path / "trail")
    with (
        serving(tmp_path, audit=audit, client_connections_max=1) as (_, url),
        RawClient(url),
        RawClient(url, greets=False) as second,
    ):
        assert second.is_closed()
    lines = [line.facts for _, _, line in lines_of(tmp_path / "trail") if line]
    assert [line["verdict"] for line in lines if line.get("operation") == "connection"] == ["Overloaded"]


def test_a_client_by_the_local_socket_and_one_without_tls_are_told_apart(tmp_path: Path) -> None:
    with serving(tmp_path, local_clients=True, audit=raftmeta.Audit(folder=tmp_path / "trail", writes=True)) as (
        _,
        url,
    ):
        for where in (url, f"raft+unix://{tmp_path / 'a'}"):
            with raftmeta.Client(where) as client:
                client.put("k", SECRET)
    puts = [line.facts for _, _, line in lines_of(tmp_path / "trail") if line and line.facts.get("operation") == "put"]
    assert [put["peer"].split(":")[0] for put in puts] == ["127.0.0.1", "unix"]
    assert {(put["principal"], put["proof"]) for put in puts} == {("", "none")}


# --- fates ------------------------------------------------------------------------------------------------------------


def test_a_write_whose_client_went_away_is_recorded(tmp_path: Path) -> None:
    """It waits for a quorum that does not come. Its client leaves, then its node ends: nobody knows its fate."""
    settings = {"a": raftmeta.Audit(folder=tmp_path / "trail", writes=True)}
    with serving(tmp_path, names="abc", audits=settings) as (nodes, _):
        with raftmeta.Client(f"raft://{nodes['a'].identity.client_listen}") as client:
            client.put("before", SECRET)
            for name in "bc":
                nodes[name].close(transfer=False)
            with pytest.raises(raftmeta.RaftmetaError):
                client.put("lost", SECRET, timeout_s=1)
        nodes["a"].close(transfer=False)
    lost = [line.facts for _, _, line in lines_of(tmp_path / "trail") if line and line.facts.get("key") == "lost"]
    assert lost and lost[0]["operation"] == "put" and lost[0]["verdict"] != "ok"


def test_a_required_trail_refuses_what_it_cannot_record(tmp_path: Path) -> None:
    """Writes and administration are refused with NoSpace; reads, which need no line, go on; so do writes afterwards."""
    with audited(tmp_path, writes=True, required=True) as trail, trail.client("boss", BOSS) as client:
        client.put("a/x", "1")
        with on_full_disk(trail.node.trail):  # type: ignore[arg-type]
            with contextlib.suppress(raftmeta.NoSpace):
                client.put("a/y", "1")  # if not a line before, its line shows that the disk is full
            wait_until(lambda: trail.node.trail.failure, timeout_s=20, what="the full disk")  # type: ignore[union-attr]
            with pytest.raises(raftmeta.NoSpace):
                client.put("a/x", "2")
            with pytest.raises(raftmeta.NoSpace):
                client.auth.put_role("none")
            assert client.get("a/x").value == b"1"  # type: ignore[union-attr]
            assert "audit_unwritable" in {problem.kind for problem in trail.node.status().problems}
            assert trail.node.metrics()["audit_failing"] == 1
            trail.node.put("a/own", "1")  # of the process itself: no client
        wait_until(lambda: not trail.node.trail.failure, timeout_s=20, what="the room")  # type: ignore[union-attr]
        client.put("a/x", "3")
        assert trail.told(operation="put", key="a/x", verdict="NoSpace")
        assert trail.node.metrics()["audit_failing"] == 0


def test_a_required_trail_refuses_what_its_full_queue_has_no_room_for(tmp_path: Path) -> None:
    """The writer hangs on its disk. Each put that was acknowledged has its line later; refused ones changed nothing.

    Administration has room of its own in the queue, and reads need none.
    """
    goes_on = threading.Event()
    with audited(tmp_path, writes=True, required=True) as trail, trail.client("boss", BOSS) as client:
        writer = trail.node.trail
        assert writer is not None
        turn = writer._turn
        writer._turn = lambda: goes_on.wait() and turn()  # type: ignore[method-assign]
        done, refused = [], []

        def put(number: int) -> None:
            key = f"a/{number:05}/{'k' * 460}"
            try:
                client.put(key, "1", timeout_s=60)
                done.append(key)
            except raftmeta.NoSpace:
                refused.append(key)

        try:
            with ThreadPoolExecutor(16) as pool:  # so that many puts have their room before they have their line
                for first in range(0, 20_000, 64):
                    list(pool.map(put, range(first, first + 64)))
                    if refused:
                        break
            assert refused and done
            assert client.range("a/", "b", count_only=True).count == len(done) + 1  # and a/seen
            client.auth.put_role("another")
            assert not writer.failure
        finally:
            goes_on.set()

        def has_room() -> bool:
            try:
                client.put("a/after", "1")
            except raftmeta.NoSpace:
                return False
            return True

        wait_until(has_room, timeout_s=20, what="room in the queue")
        assert trail.told(operation="put", key="a/after", verdict="ok")
        told = {line["key"] for line in trail.lines() if line.get("operation") == "put" and line["verdict"] == "ok"}
        assert told >= set(done)
        assert trail.told(operation="auth_role_put", verdict="ok", name="another")
        # A refused put may have no line: its NoSpace is all that the full queue can tell of it.
        assert writer.dropped <= len(refused)


def test_a_full_disk_stops_no_request_of_a_trail_that_is_not_required(tmp_path: Path) -> None:
    with audited(tmp_path, writes=True) as trail, trail.client() as client:
        with on_full_disk(trail.node.trail):  # type: ignore[arg-type]
            client.put("a/x", "1")
            wait_until(lambda: trail.node.trail.failure, timeout_s=20, what="the full disk")  # type: ignore[union-attr]
            for number in range(20):
                client.put(f"a/{number}", "1")
            # The ring of the loop, which has nothing to tell here.
            while face.push(trail.node.trail.handle, 1, 1, key=b"k" * 400, by_loop=True):  # type: ignore[union-attr]
                pass
        assert trail.told(operation="put", key="a/19", verdict="ok")
        assert trail.told(audit="dropped", dropped=1)
        assert "audit_dropped" in {problem.kind for problem in trail.node.status().problems}
        assert trail.node.metrics()["audit_dropped"] == 1


def test_a_node_does_not_start_without_the_trail_that_it_should_keep(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = Place(tmp_path, "a")
    for folder in (tmp_path / "file", tmp_path / "none" / "trail"):
        node = place.node("a", place.tls("a"), audit=raftmeta.Audit(folder=folder))
        with pytest.raises(raftmeta.ConfigError) as wrong:
            node.start()
        assert wrong.value.field == "audit.folder"
    with place.node("a", place.tls("a")) as node:
        node.ready(30)


def test_a_restart_goes_on_with_the_trail_under_the_next_boot(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(tmp_path, audit=raftmeta.Audit(folder=tmp_path / "trail")):
            pass
    found = verify(tmp_path / "trail")
    assert found.is_whole and found.is_closed and not found.notes
    boots = [line.facts["boot"] for _, _, line in lines_of(tmp_path / "trail") if line and "boot" in line.facts]
    assert boots == [1, 2] and [path.name for _, path in files_of(tmp_path / "trail")] == [file_name(1)]


def test_a_fork_child_leaves_the_trail_alone(tmp_path: Path) -> None:
    with audited(tmp_path, writes=True) as trail:
        child = os.fork()
        if child == 0:
            os._exit(0 if trail.node.trail._file == -1 else 1)  # type: ignore[union-attr]
        assert os.waitpid(child, 0)[1] == 0
        with trail.client() as client:
            client.put("a/after", "1")
        assert trail.told(operation="put", key="a/after")


def test_bytes_that_are_no_request_are_recorded_as_a_refused_connection(tmp_path: Path) -> None:
    with serving(tmp_path, audit=raftmeta.Audit(folder=tmp_path / "trail")) as (_, url):
        host, _, port = url.removeprefix("raft://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
            while stranger.recv(4096):
                pass
    lines = [json.dumps(line.facts) for _, _, line in lines_of(tmp_path / "trail") if line]
    assert any('"connection"' in line and '"clients"' in line for line in lines)
