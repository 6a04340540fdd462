"""A protected tree is moved over TLS, by a migrator that proves itself by SASL DIGEST-MD5, and back again.

The ensemble is a real ZooKeeper 3.9 with a secure port. Nodes belong to a SASL user; some are containers, some have a
time to live (docs/migration-live.md "Protected trees").
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

import raftmeta
from raftmeta.migrate import ZooKeeperSource
from raftmeta.migrate.live import Access, Move
from raftmeta.migrate.live.requests import Kind, Right, created
from raftmeta.migrate.live.tree import Tree
from tests.doors.servers import ZooKeeperServers
from tests.migrate.zookeeper_server import classpath, logging_folder
from tests.processes.program import Program
from tests.processes.waiting import free_ports
from tests.security.certificates import Authority
from tests.zookeeper.nodes import doors

SUPER, BOB = ("sasl", "super:chief"), ("sasl", "bob:bobsecret")
OF_BOB = [make_acl("sasl", "bob", all=True)]
HOUR_MS = 3_600_000
STEP_S = 60.0


class Sides(NamedTuple):
    old: str
    new: str
    access: Access  # of the superuser, to both
    files: Path
    node: raftmeta.Node
    folder: Path


def settings_of(folder: Path, authority: Authority, port: int) -> dict[str, object]:
    """Lines of zoo.cfg: a port for TLS, at which clients need certificates."""
    held = authority.node("zookeeper")
    both = folder / "server.pem"
    both.write_bytes(held.key.read_bytes() + held.certificate.read_bytes())
    trusted = folder / "trusted.pem"
    trusted.write_bytes(authority.path.read_bytes())
    return {
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": both,
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": trusted,
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
        "ssl.hostnameVerification": "false",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("secure")
    authority = Authority(folder / "authority")
    (port,) = free_ports(1)
    (folder / "jaas.conf").write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        'user_super="chief" user_bob="bobsecret"; };\n'
    )
    (folder / "users").write_text("super:chief\nbob:bobsecret\n")
    (folder / "users").chmod(0o600)
    (folder / "doors").mkdir()
    held = authority.client("migrator")
    access = Access([SUPER], authority.path, held.certificate, held.key)
    with (
        ZooKeeperServers(
            folder / "zookeeper",
            members=1,
            class_path=classpath(logging_folder(folder)),
            settings=settings_of(folder, authority, port),
            properties={
                "java.security.auth.login.config": folder / "jaas.conf",
                "zookeeper.superUser": "super",
            },
        ),
        doors(
            folder / "doors",
            tls=authority.tls(authority.node("a")),
            zookeeper_users_file=str(folder / "users"),
            zookeeper_extended_types=True,
        ) as (nodes, at),
    ):
        files = folder / "zookeeper" / "zookeeper0"
        yield Sides(f"127.0.0.1:{port}", f"127.0.0.1:{at['a']}", access, files, nodes["a"], folder)


@contextmanager
def client_of(hosts: str, access: Access) -> Iterator[KazooClient]:
    client = KazooClient(hosts, sasl_options=access.sasl, **access.tls)
    client.start(STEP_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def kinds_in(files: Path) -> dict[str, tuple[bool, int]]:
    with ZooKeeperSource(files) as source:
        return {node.path.decode(): (node.is_container, node.ttl_ms) for node in source.nodes()}


def test_a_protected_tree_goes_there_and_back(sides: Sides) -> None:
    """Init: nodes of a SASL user, a container, a time to live. Act: move, make more of each kind, and go back. Check:
    the user has its nodes on each side, nobody else does, and all kinds are what they were."""
    of_bob = replace(sides.access, auth=[BOB])
    state = sides.folder / "state"
    with client_of(sides.old, of_bob) as bob, Tree(sides.old, "source", access=of_bob) as raw:
        rights = [Right(31, "sasl", "bob")]
        bob.create("/mine", b"1", acl=OF_BOB)
        raw.write([created("/box", b"c", rights, Kind.CONTAINER), created("/box/in", b"", rights, Kind.PERSISTENT)])
        raw.write([created("/timed", b"t", rights, Kind.TTL, HOUR_MS)])
        with Move(
            sides.old, sides.new, state, old_access=sides.access, new_access=sides.access, files=sides.files
        ) as move:
            move.cut_over()
        with pytest.raises(NoAuthError):
            bob.set("/mine", b"late")
    with client_of(sides.new, of_bob) as bob, Tree(sides.new, "target", access=of_bob) as raw:
        assert bob.get("/mine")[0] == b"1" and bob.get_acls("/mine")[0] == OF_BOB
        bob.set("/mine", b"2")
        raw.write([created("/box2", b"", rights, Kind.CONTAINER), created("/box2/in", b"", rights, Kind.PERSISTENT)])
        raw.write([created("/timed2", b"", rights, Kind.TTL, 2 * HOUR_MS)])
        with client_of(sides.new, sides.access.of_stranger()) as stranger, pytest.raises(NoAuthError):
            stranger.get("/mine")
    found = {path: sides.node.znode(path) for path in ("/box", "/timed")}
    assert [(one.znode.kind, one.znode.ttl_ms) for one in found.values() if one] == [("container", 0), ("ttl", HOUR_MS)]
    with Move(
        sides.old,
        sides.new,
        state,
        is_back=True,
        old_access=sides.access,
        new_access=sides.access,
        store=sides.node,
    ) as move:
        move.cut_over()
    with client_of(sides.old, of_bob) as bob:
        assert bob.get("/mine")[0] == b"2" and bob.get_acls("/mine")[0] == OF_BOB
        bob.set("/mine", b"3")
    kinds = kinds_in(sides.files)
    assert kinds["/box"] == kinds["/box2"] == (True, 0)
    assert kinds["/timed"] == (False, HOUR_MS) and kinds["/timed2"] == (False, 2 * HOUR_MS)


def test_a_wrong_password_is_told(sides: Sides, tmp_path: Path) -> None:
    """By the command line, on the side that the migrator reads."""
    (tmp_path / "wrong").write_text("sasl:bob:guess\n")
    words = [sys.executable, "-m", "raftmeta.cli", "--json", "migrate", "zookeeper", "live", "--from", sides.new]
    words += ["--to", sides.old, "--state", str(tmp_path / "state"), "--from-auth", str(tmp_path / "wrong")]
    for side in ("from", "to"):
        words += [f"--{side}-tls-ca", str(sides.access.authorities), f"--{side}-tls-key", str(sides.access.key)]
        words += [f"--{side}-tls-cert", str(sides.access.certificate)]
    program = Program([*words, "verify"], log=tmp_path / "log").start()
    assert program.wait(timeout_s=STEP_S) != 0
    assert "refused the credentials" in program.log.read_text()


@pytest.mark.parametrize(
    ("auth", "files", "wrong"),
    [
        ([("sasl", "bob")], {}, "name:password"),
        ([("sasl", "bob:1"), ("sasl", "ann:1")], {}, "one name"),
        ([], {"certificate": Path("c.pem")}, "come together"),
        ([], {"certificate": Path("c.pem"), "key": Path("k.pem")}, "authorities"),
    ],
)
def test_a_way_that_cannot_be_gone_is_refused(auth: list[tuple[str, str]], files: dict[str, Path], wrong: str) -> None:
    with pytest.raises(raftmeta.ConfigError, match=wrong):
        Access(auth, **files)
