"""Who may do what through the door: kazoo's digests and certificates, DIGEST-MD5, `super`, and users of raftmeta."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, InvalidACLError, NoAuthError
from kazoo.security import make_acl, make_digest_acl

import raftmeta
from tests.processes.waiting import wait_until
from tests.security.certificates import Authority, Held
from tests.zookeeper import sasl
from tests.zookeeper.nodes import ADD_WATCH, CHANGED, CREATE, LEVEL_OF_ZNODES, PING, PING_XID, RawClient, doors, text

SASL, SASL_FAILED = 102, -115
START_S = 20.0
PERSISTENT = 0
SUPER_DIGEST = "super:" + base64.b64encode(hashlib.sha1(b"super:admin").digest()).decode()


@contextlib.contextmanager
def kazoo(port: int, **settings: Any) -> Iterator[KazooClient]:
    """A connected client."""
    client = KazooClient(hosts=f"127.0.0.1:{port}", timeout=10.0, **settings)
    client.start(timeout=START_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def certified(authority: Authority, held: Held) -> dict[str, Any]:
    """Settings of kazoo."""
    return {"use_ssl": True, "certfile": str(held.certificate), "keyfile": str(held.key), "ca": str(authority.path)}


def see_refused(node: raftmeta.Node, port: int, **settings: Any) -> None:
    """A client tries until the door says that it refused a connection, and it never had a session."""

    def refused() -> int:
        metrics = node.metrics()
        return int(metrics["zookeeper_connections_refused"] + metrics["zookeeper_tls_handshakes_refused"])

    before = refused()
    client = KazooClient(hosts=f"127.0.0.1:{port}", timeout=10.0, **settings)
    started = client.start_async()
    try:
        wait_until(lambda: refused() > before, timeout_s=START_S, what="the door to refuse a connection")
        assert not started.is_set()
    finally:
        client.stop()
        client.close()


# --- digest and super -------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("rights")
    users = folder / "users"
    users.write_text("bob:bobsecret\nsuper:chief\n")
    users.chmod(0o600)
    with doors(folder, zookeeper_super_digest=SUPER_DIGEST, zookeeper_users_file=str(users)) as (_, at):
        yield at["a"]


def test_a_digest_opens_what_it_guards(port: int) -> None:
    """kazoo with the password, without it, with another one, and with that of the super user."""
    mine = make_digest_acl("ann", "secret", all=True)
    with kazoo(port) as owner, kazoo(port) as stranger:
        owner.create("/digest", b"mine", acl=[mine])
        for ask in (stranger.get, stranger.exists, stranger.get_children, stranger.get_acls):
            with pytest.raises(NoAuthError):
                ask("/digest")
        stranger.add_auth("digest", "ann:guess")
        with pytest.raises(NoAuthError):
            stranger.set("/digest", b"theirs")
        owner.add_auth("digest", "ann:secret")
        assert owner.get("/digest")[0] == b"mine"
        assert owner.get_acls("/digest")[0] == [mine]
        stranger.add_auth("digest", "super:admin")
        assert stranger.set("/digest", b"of the super user").version == 1


def test_auth_without_a_proof_is_refused(port: int) -> None:
    """A list may name whoever was proved only if somebody was; and a scheme that nobody knows ends the connection."""
    everybody = [make_acl("auth", "", all=True)]
    with kazoo(port) as client:
        with pytest.raises(InvalidACLError):
            client.create("/auth", acl=everybody)
        client.add_auth("digest", "ann:secret")
        client.create("/auth", acl=everybody)
        assert [acl.id.id.split(":")[0] for acl in client.get_acls("/auth")[0]] == ["ann"]
        with pytest.raises(AuthFailedError):
            client.add_auth("nobody-knows-it", "x")


def test_an_event_is_told_to_those_alone_who_may_read_the_node(port: int) -> None:
    """CVE-2024-23944: a persistent watch needs no right, and what it would tell does."""
    secret = struct.pack(">i", 1) + struct.pack(">i", 31) + text(b"ip") + text(b"10.1.2.3")
    with RawClient(port) as owner, RawClient(port) as stranger:
        assert owner.create(b"/events").error == 0
        assert owner.call(CREATE, text(b"/events/secret") + text(b"") + secret + struct.pack(">i", 0)).error == 0
        assert owner.create(b"/events/public").error == 0
        for path in (b"/events/secret", b"/events/public"):
            assert stranger.call(ADD_WATCH, text(path) + struct.pack(">i", PERSISTENT)).error == 0
        with kazoo(port) as chief:
            chief.add_auth("digest", "super:admin")
            chief.set("/events/secret", b"x")
            chief.set("/events/public", b"x")
        assert stranger.reply().event == (CHANGED, b"/events/public")
        assert stranger.call(PING, xid=PING_XID).error == 0


# --- DIGEST-MD5 -------------------------------------------------------------------------------------------------------
def prove(client: RawClient, user: bytes, password: bytes) -> int:
    """SASL as kazoo and Java speak it; the error of the last answer."""
    challenge = client.call(SASL, text(b""))
    assert (challenge.error, challenge.zxid) == (0, 0)
    nonce = re.findall(b'nonce="([^"]+)"', challenge.body)[0]
    changed = {
        "nonce": b'"' + nonce + b'"',
        "response": sasl.proof(user, password, b"AUTHENTICATE", nonce=nonce),
    }
    last = client.call(SASL, text(sasl.response(user, password, **changed)))
    if last.error == 0:
        assert last.body[4:] == b"rspauth=" + sasl.proof(user, password, b"", nonce=nonce)
    return last.error


def test_a_user_of_sasl_is_who_it_proved(port: int) -> None:
    """A list names it; another user may not read, the super user may."""
    acl = struct.pack(">i", 1) + struct.pack(">i", 31) + text(b"sasl") + text(b"bob")
    with RawClient(port) as bob, RawClient(port) as chief, RawClient(port) as nobody:
        assert prove(bob, b"bob", b"bobsecret") == 0
        assert bob.call(CREATE, text(b"/sasl") + text(b"of bob") + acl + struct.pack(">i", 0)).error == 0
        assert bob.get_data(b"/sasl").body[4:10] == b"of bob"
        assert nobody.get_data(b"/sasl").error == -102
        assert prove(chief, b"super", b"chief") == 0
        assert chief.set_data(b"/sasl", b"x").error == 0


def test_a_wrong_proof_ends_the_connection(port: int) -> None:
    """It is told so, and the session may be resumed by who knows its password."""
    with RawClient(port) as client:
        assert prove(client, b"bob", b"guess") == SASL_FAILED
        assert client.is_closed()
        with RawClient(port, session=client.session, password=client.password) as again:
            assert again.session == client.session


# --- TLS and x509 -----------------------------------------------------------------------------------------------------
def test_a_certificate_names_its_subject(tmp_path: Path) -> None:
    """kazoo over TLS: a list of rights names the subject, `auth` stands for it, and other subjects are strangers."""
    authority = Authority(tmp_path / "authority")
    ann = authority.client("ann", common_name="ann")
    bob = authority.client("bob", common_name="bob")
    with (
        doors(tmp_path, tls=authority.tls(authority.node("a"))) as (_, at),
        kazoo(at["a"], **certified(authority, ann)) as owner,
        kazoo(at["a"], **certified(authority, bob)) as other,
    ):
        owner.create("/of-ann", b"1", acl=[make_acl("auth", "", all=True)])
        assert [(acl.id.scheme, acl.id.id) for acl in owner.get_acls("/of-ann")[0]] == [("x509", "CN=ann")]
        owner.create("/for-bob", b"2", acl=[make_acl("x509", "CN=bob", read=True)])
        with pytest.raises(NoAuthError):
            other.get("/of-ann")
        with pytest.raises(NoAuthError):
            owner.get("/for-bob")
        assert other.get("/for-bob")[0] == b"2"
        watched: list[Any] = []
        other.get("/for-bob", watch=watched.append)
        owner.delete("/for-bob")
        wait_until(lambda: len(watched) == 1, timeout_s=START_S, what="an event over TLS")


def test_who_has_no_certificate_of_the_cluster_gets_no_session(tmp_path: Path) -> None:
    """No TLS, another authority, another cluster, a node's certificate: each is refused, and others are served."""
    authority, strange = Authority(tmp_path / "authority"), Authority(tmp_path / "strange")
    with doors(tmp_path, tls=authority.tls(authority.node("a"))) as (nodes, at):
        for settings in (
            {},
            {**certified(authority, strange.client("ann")), "verify_certs": False},
            certified(authority, authority.client("ann", cluster="another")),
            certified(authority, authority.node("b")),
        ):
            see_refused(nodes["a"], at["a"], **settings)
        with kazoo(at["a"], **certified(authority, authority.client("ann"))) as client:
            assert client.create("/served") == "/served"


def test_users_of_raftmeta_open_the_door_with_all_of_the_tree(tmp_path: Path) -> None:
    """While rights are on, a connection needs READ, WRITE, WATCH of the tree and LEASE; it ends when they go."""
    authority = Authority(tmp_path / "authority")
    may, may_not = (certified(authority, authority.client(name)) for name in ("may", "may_not"))
    with doors(tmp_path, tls=authority.tls(authority.node("a"))) as (nodes, at):
        wait_until(
            lambda: nodes["a"].status().feature_level >= LEVEL_OF_ZNODES, timeout_s=START_S, what="the level of rights"
        )
        auth = nodes["a"].auth
        for name, rights in (("may", ("read", "write", "watch", "lease")), ("may_not", ("read", "watch"))):
            auth.put_role(name)
            auth.grant(name, *rights, prefix="zookeeper/")
            auth.put_user(name)
            auth.bind(name, name)
        auth.enable()
        see_refused(nodes["a"], at["a"], **may_not)
        with kazoo(at["a"], **may) as client:
            assert client.create("/by-right", b"", ephemeral=True) == "/by-right"
            auth.revoke("may", "write", prefix="zookeeper/")
            wait_until(lambda: not client.connected, timeout_s=START_S, what="the connection to end with the right")


def test_a_door_that_served_before_there_were_rights_goes_on_at_once(tmp_path: Path) -> None:
    """Init: the door has a session with its node, which is renewed every 150 s, and a client. Act: turn rights on.
    Check: the client goes on. The session of the door had no owner, so its commands were refused until the renewal."""
    authority = Authority(tmp_path / "authority")
    may = certified(authority, authority.client("may"))
    with doors(tmp_path, tls=authority.tls(authority.node("a")), session_ttl_s=600.0) as (nodes, at):
        with kazoo(at["a"], **may) as client:
            client.create("/before", b"")
            auth = nodes["a"].auth
            auth.put_role("may")
            auth.grant("may", "read", "write", "watch", "lease", prefix="zookeeper/")
            auth.put_user("may")
            auth.bind("may", "may")
            auth.enable()
            assert client.retry(client.set, "/before", b"after").version > 0
        with kazoo(at["a"], **may) as client:
            client.create("/with-rights", b"")
