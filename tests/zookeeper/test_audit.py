"""The audit trail of the ZooKeeper door: who asked for which znodes, what came of it, and nothing of values."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import raftmeta
from raftmeta.security.audit_trail import files_of, lines_of, verify
from tests.processes.waiting import wait_until
from tests.security.certificates import Authority
from tests.security.test_audit_trail import on_full_disk
from tests.zookeeper.nodes import CLOSE, CREATE, DELETE, OPEN_ACL, SET_DATA, RawClient, doors, text
from tests.zookeeper.test_rights import certified, kazoo, prove, see_refused

AUTH, MULTI, AUTH_XID = 100, 14, -4
ANY = struct.pack(">i", -1)
SECRETS = (b"a-value-that-nobody-may-see", b"correct-horse", b"bobsecret")
MINE = struct.pack(">i", 1) + struct.pack(">i", 31) + text(b"auth") + text(b"")
SYSTEM_ERROR, NO_AUTH, BAD_VERSION = -1, -102, -103
Line = dict[str, Any]


class Trail:
    """The lines of a node's trail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lines(self) -> list[Line]:
        return [line.facts for _, _, line in lines_of(self.folder) if line is not None]

    def told(self, **facts: Any) -> Line:
        """The first line with these facts, waited for."""

        def found() -> list[Line]:
            return [line for line in self.lines() if facts.items() <= line.items()]

        return wait_until(found, timeout_s=20, what=lambda: f"{facts} in {self.lines()[-8:]}")[0]


@contextlib.contextmanager
def audited(
    folder: Path, *, tls: raftmeta.Tls | None = None, config: dict[str, Any] | None = None, **settings: Any
) -> Iterator[tuple[raftmeta.Node, int, Trail]]:
    """A node with a door and a trail; at its end the trail is verified, and no secret stands in it."""
    trail = Trail(folder / "trail")
    audit = raftmeta.Audit(folder=trail.folder, **settings)
    with doors(folder, tls=tls, audit=audit, **(config or {})) as (nodes, at):
        yield nodes["a"], at["a"], trail
    assert verify(trail.folder).is_whole and verify(trail.folder).is_closed
    content = b"".join(path.read_bytes() for _, path in files_of(trail.folder))
    assert not [secret for secret in SECRETS if secret in content]


def operation(opcode: int, body: bytes) -> bytes:
    return struct.pack(">ibi", opcode, 0, -1) + body


def test_writes_are_lines_with_their_keys_and_their_user(tmp_path: Path) -> None:
    """By the name that the client proved, with the revision; an error is told, of a multi that of its operation."""
    with audited(tmp_path, writes=True) as (_, port, trail), RawClient(port) as client:
        assert client.create(b"/a", SECRETS[0]).error == 0
        nobody = trail.told(operation="create", key="zookeeper/a", principal="", proof="none", verdict="ok")
        assert nobody["peer"].startswith("127.0.0.1:")
        proof = struct.pack(">i", 0) + text(b"digest") + text(b"ann:" + SECRETS[1])
        assert client.call(AUTH, proof, xid=AUTH_XID).error == 0
        trail.told(operation="authenticate", principal="ann", proof="password", verdict="ok")
        reply = client.set_data(b"/a", SECRETS[0])
        changed = trail.told(operation="update", key="zookeeper/a", principal="ann", verdict="ok")
        assert changed["revision"] == reply.zxid
        assert client.set_data(b"/a", b"x", version=7).error == BAD_VERSION
        trail.told(operation="update", key="zookeeper/a", verdict="CompareFailed")
        create = operation(CREATE, text(b"/b") + text(SECRETS[0]) + OPEN_ACL + struct.pack(">i", 0))
        end = struct.pack(">ibi", -1, 1, -1)
        assert client.call(MULTI, create + operation(DELETE, text(b"/a") + ANY) + end).error == 0
        both = trail.told(operation="transaction", principal="ann", verdict="ok")
        assert both["operations"] == [
            {"operation": "create", "key": "zookeeper/b"},
            {"operation": "delete", "key": "zookeeper/a"},
        ]
        assert client.call(MULTI, operation(SET_DATA, text(b"/none") + text(b"x") + ANY) + end).error == 0
        trail.told(operation="transaction", verdict="KeyMissing")
        assert client.call(CLOSE).error == 0
        for word in ("session_open", "session_close"):
            assert trail.told(operation=word)["lease"] == client.session
        assert client.is_closed()
        assert "get" not in {line.get("operation") for line in trail.lines()}


def test_a_write_whose_client_goes_away_is_recorded(tmp_path: Path) -> None:
    """Each of many that were sent before the client left: by its answer, or as one that nobody was told of."""
    count = 200
    with audited(tmp_path, writes=True) as (node, port, trail):
        with RawClient(port) as client:
            for number in range(count):
                client.ask(CREATE, text(b"/left%d" % number) + text(b"") + OPEN_ACL + struct.pack(">i", 0))
            wait_until(lambda: node.get("zookeeper/left0"), timeout_s=20, what="the first write")
        wait_until(lambda: node.metrics()["zookeeper_connections"] == 0, timeout_s=20, what="the connection to end")
        done = [record.key.decode() for record in node.range("zookeeper/left", "zookeeper/lefu").records]
        for key in done:
            assert trail.told(operation="create", key=key)["verdict"] in ("ok", "OutcomeUnknown")


def test_what_is_denied_is_recorded_always_and_reads_if_asked_for(tmp_path: Path) -> None:
    """A read that a list of rights refuses, a wrong password; a read that is allowed only with the setting."""
    users = tmp_path / "users"
    users.write_text("bob:bobsecret\n")
    users.chmod(0o600)
    config = {"zookeeper_users_file": str(users)}
    for reads in (False, True):
        folder = tmp_path / str(reads)
        folder.mkdir()
        with (
            audited(folder, reads=reads, config=config) as (_, port, trail),
            RawClient(port) as bob,
            RawClient(port) as other,
            RawClient(port) as thief,
        ):
            assert prove(bob, b"bob", SECRETS[2]) == 0
            trail.told(operation="authenticate", principal="bob", verdict="ok")
            assert bob.call(CREATE, text(b"/of-bob") + text(b"") + MINE + struct.pack(">i", 0)).error == 0
            assert bob.get_data(b"/of-bob").error == 0
            assert other.get_data(b"/of-bob").error == NO_AUTH
            trail.told(operation="get", key="zookeeper/of-bob", principal="", verdict="denied")
            assert prove(thief, b"bob", b"guess") != 0
            trail.told(operation="authenticate", verdict="AuthenticationFailed")
            allowed = [line for line in trail.lines() if line.get("operation") == "get" and line["verdict"] == "ok"]
            assert bool(allowed) == reads


def test_the_name_in_a_certificate_is_the_principal_and_others_are_refused(tmp_path: Path) -> None:
    """A connection that TLS refuses is a line of the door's port."""
    authority, strange = Authority(tmp_path / "authority"), Authority(tmp_path / "strange")
    with audited(tmp_path, tls=authority.tls(authority.node("a")), writes=True) as (node, port, trail):
        with kazoo(port, **certified(authority, authority.client("ann"))) as client:
            client.create("/by-ann")
        line = trail.told(operation="create", key="zookeeper/by-ann")
        assert (line["principal"], line["proof"], line["certificate"]) == ("ann", "certificate", "ann")
        see_refused(node, port, **{**certified(authority, strange.client("ann")), "verify_certs": False})
        trail.told(operation="connection", port="zookeeper")


def test_no_write_is_done_without_a_record_where_records_are_required(tmp_path: Path) -> None:
    """While the trail's disk is full, a write is refused and a read is answered."""
    with audited(tmp_path, writes=True, required=True) as (node, port, trail), RawClient(port) as client:
        assert client.create(b"/first").error == 0
        trail.told(operation="create", key="zookeeper/first")
        with on_full_disk(node.trail):  # type: ignore[arg-type]
            client.create(b"/notices")
            wait_until(lambda: node.metrics()["audit_failing"], timeout_s=20, what="the trail to fail")
            assert client.create(b"/refused").error == SYSTEM_ERROR
            assert client.exists(b"/first").error == 0
        wait_until(lambda: not node.metrics()["audit_failing"], timeout_s=20, what="the trail to be written again")
        assert client.create(b"/again").error == 0
        assert b"refused" not in client.children(b"/")
