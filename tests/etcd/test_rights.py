"""TLS and rights at the etcd door: a certificate names the user."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.security.audit_trail import files_of, lines_of
from raftmeta.security.pki import Pki
from tests.etcd.client import EtcdClient, RpcError
from tests.etcd.conftest import READY_S
from tests.processes.cluster import tls_of
from tests.processes.waiting import free_addresses, wait_until

PERMISSION_DENIED, INVALID_ARGUMENT = 7, 3
ANSWER_S = 20.0


class SecuredDoor:
    """Only clients with a certificate are let in. The user `shop` may write below shop/, and read everything."""

    def __init__(self, folder: Path) -> None:
        self.trail = folder / "trail"
        self.pki = Pki.found(folder / "pki", "default")
        peer, self.address = free_addresses(2)
        self.node = raftmeta.Node(
            "a",
            peers={"a": peer},
            data_dir=folder / "a",
            etcd_listen=self.address,
            tls=tls_of(self.pki.issue("node", "a", hosts=("127.0.0.1",))),
            audit=raftmeta.Audit(folder=folder / "trail", writes=True),
        )
        self.node.start()
        self.node.ready(timeout_s=READY_S)
        self.folders = {name: self.pki.issue("client", name) for name in ("shop", "stranger")}

    def enable_rights(self) -> None:
        auth = self.node.auth
        auth.put_role("shop")
        auth.grant("shop", "read", "write", "lease", prefix="shop/")
        auth.put_role("admin")
        auth.grant("admin", "admin")
        for name, role in (("shop", "shop"), ("boss", "admin")):
            auth.put_user(name, "a password of some length")
            auth.bind(name, role)
        auth.enable()

    def client(self, name: str, protocol: str = "h2") -> EtcdClient:
        folder = self.folders[name]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        context.load_verify_locations(folder / "authorities.pem")
        context.set_alpn_protocols([protocol])
        return EtcdClient(self.address, context)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDoor]:
    door = SecuredDoor(tmp_path_factory.mktemp("secured"))
    yield door
    door.node.close()


def test_http2_is_agreed_on_by_alpn(door: SecuredDoor) -> None:
    with door.client("shop") as client:
        assert isinstance(client.socket, ssl.SSLSocket) and client.socket.selected_alpn_protocol() == "h2"
        assert client.ask("Range", key=b"k")["header"]
    with pytest.raises(ssl.SSLError):
        door.client("shop", "spdy/1").ask("Range", key=b"k")


def test_a_user_may_do_what_its_roles_say(door: SecuredDoor) -> None:
    """A change of rights holds for the connections that are open."""
    door.enable_rights()
    with door.client("shop") as client:
        wait_until(
            lambda: _code(client, "Range", key=b"else/k") == PERMISSION_DENIED, timeout_s=ANSWER_S, what="denied"
        )
        assert client.ask("Put", key=b"shop/k", value=b"v")["header"]
        assert client.ask("Range", key=b"shop/", range_end=b"shop0")["count"] == 1
        for name, values in (
            ("Put", {"key": b"else/k"}),
            ("DeleteRange", {"key": b"shop/", "range_end": b"\0"}),
            ("Range", {"key": b"shop/", "range_end": b"shop1"}),
            ("Txn", {"compare": [{"key": b"else/k"}]}),
            ("Txn", {"success": [{"put": {"key": b"shop/k"}}], "failure": [{"put": {"key": b"else/k"}}]}),
            ("Compaction", {"revision": 3}),
            ("HashKV", {}),
        ):
            assert _code(client, name, **values) == PERMISSION_DENIED, (name, values)
        assert client.ask("Status")["version"]
        assert client.ask("Range", key=b"shop/k")["kvs"][0]["version"] == 1
    with door.client("stranger") as client:
        with pytest.raises(RpcError, match="user name is empty") as caught:
            client.ask("Range", key=b"shop/k")
        assert caught.value.code == INVALID_ARGUMENT


def test_a_change_is_a_line_of_the_audit_trail(door: SecuredDoor) -> None:
    """While rights are on: who, what, and whether it was let; no value stands there."""
    with door.client("shop") as client:
        client.ask("Put", key=b"shop/told", value=b"a-value-of-a-client")
        client.ask("DeleteRange", key=b"shop/told", range_end=b"shop/tolf")
        assert _code(client, "Put", key=b"else/k") == PERMISSION_DENIED
        client.ask("LeaseGrant", TTL=60, ID=5)
        held = client.ask("Lock", name=b"shop/lock", lease=5)["key"]
        client.ask("Unlock", key=held)
        client.ask("LeaseRevoke", ID=5)
        assert _code(client, "RoleAdd", name="more") == PERMISSION_DENIED

    def missing() -> list[dict[str, Any]]:
        lines = [line.facts for _, _, line in lines_of(door.trail) if line is not None]
        return [facts for facts in wanted if not any(facts.items() <= line.items() for line in lines)]

    wanted: list[dict[str, Any]] = [
        {"operation": "put", "principal": "shop", "key": "shop/told", "verdict": "ok"},
        {"operation": "delete_range", "principal": "shop", "key": "shop/told", "verdict": "ok"},
        {"operation": "put", "principal": "shop", "key": "else/k", "verdict": "denied"},
        {"operation": "lease_grant", "principal": "shop", "verdict": "ok"},
        {"operation": "create", "principal": "shop", "key": held.decode(), "verdict": "ok"},
        {"operation": "delete", "principal": "shop", "key": held.decode(), "verdict": "ok"},
        {"operation": "lease_revoke", "principal": "shop", "verdict": "ok"},
        {"operation": "auth_role_put", "principal": "shop", "verdict": "denied"},
    ]
    wait_until(lambda: not missing(), timeout_s=ANSWER_S, what=lambda: f"{missing()}")
    content = b"".join(path.read_bytes() for _, path in files_of(door.trail))
    assert b"a-value-of-a-client" not in content


def _code(client: EtcdClient, name: str, /, **values: object) -> int:
    try:
        client.ask(name, **values)
    except RpcError as error:
        return error.code
    return 0
