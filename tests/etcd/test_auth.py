"""etcd's users, roles and tokens over the rights of the cluster.

Source: etcd server/auth store.go, api/v3rpc/rpctypes error.go.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from tests.etcd.client import EtcdClient, RpcError
from tests.etcd.conftest import Door
from tests.etcd.gateway import b64, doors
from tests.faces import etcd as face
from tests.processes.waiting import wait_until

INVALID, NOT_FOUND, DENIED, PRECONDITION, UNAUTHENTICATED = 3, 5, 7, 9, 16
READ, WRITE, READWRITE = 0, 1, 2
ROOT, SHOP = "the word of root", "the word of shop"
ANSWER_S = 20.0
SEED = bytes(range(32))
TOKEN_MS = 300_000


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Rights are on. `shop` may read and write below shop/, and `reader` may read there; both have a password."""
    door = Door(tmp_path_factory.mktemp("guarded"))
    with door.client() as client:
        client.ask("RoleAdd", name="root")
        client.ask("UserAdd", name="root", password=ROOT)
        client.ask("UserGrantRole", user="root", role="root")
        for name, kind in (("shop", READWRITE), ("reader", READ)):
            client.ask("RoleAdd", name=name)
            client.ask("RoleGrantPermission", name=name, perm=_permission(kind, b"shop/", b"shop0"))
            client.ask("UserAdd", name=name, password=SHOP)
            client.ask("UserGrantRole", user=name, role=name)
        client.ask("AuthEnable")
    yield door
    door.node.close()


def _permission(kind: int, key: bytes, range_end: bytes = b"") -> dict[str, object]:
    return {"permType": kind, "key": key, **({"range_end": range_end} if range_end else {})}


def signed_in(door: Door, name: str, password: str) -> EtcdClient:
    client = door.client()
    client.token = client.ask("Authenticate", name=name, password=password)["token"]
    return client


def refusal(client: EtcdClient, method: str, **values: object) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        client.ask(method, **values)
    return caught.value.code, caught.value.text.removeprefix("etcdserver: ")


def permissions(client: EtcdClient, role: str) -> list[tuple[int, bytes, bytes]]:
    told = client.ask("RoleGet", role=role).get("perm", [])
    return [(one.get("permType", READ), one.get("key", b""), one.get("range_end", b"")) for one in told]


# --- while rights are off ---------------------------------------------------------------------------------------------
def test_a_permission_takes_the_place_of_the_one_over_its_range(client: EtcdClient, door: Door) -> None:
    client.ask("RoleAdd", name="r")
    client.ask("RoleGrantPermission", name="r", perm=_permission(READ, b"a", b"c"))
    client.ask("RoleGrantPermission", name="r", perm=_permission(READWRITE, b"k"))
    client.ask("RoleGrantPermission", name="r", perm=_permission(WRITE, b"x", b"\0"))
    assert permissions(client, "r") == [(READ, b"a", b"c"), (READWRITE, b"k", b""), (WRITE, b"x", b"\0")]
    client.ask("RoleGrantPermission", name="r", perm=_permission(WRITE, b"a", b"c"))
    assert permissions(client, "r")[0] == (WRITE, b"a", b"c")
    (role,) = [role for role in door.node.auth.roles() if role.name == "r"]
    (grant,) = [grant for grant in role.grants if grant.start == b"k"]
    assert set(grant.rights) == {"read", "write", "watch", "lease"} and grant.end == b"k\0"
    client.ask("RoleRevokePermission", role="r", key=b"k")
    assert permissions(client, "r") == [(WRITE, b"a", b"c"), (WRITE, b"x", b"\0")]
    assert refusal(client, "RoleRevokePermission", role="r", key=b"k") == (
        PRECONDITION,
        "permission is not granted to the role",
    )
    client.ask("RoleDelete", role="r")
    assert "r" not in client.ask("RoleList").get("roles", [])


def test_users_and_their_roles_are_listed(client: EtcdClient) -> None:
    for role in ("two", "one"):
        client.ask("RoleAdd", name=role)
    client.ask("UserAdd", name="u", options={"no_password": True})
    for role in ("two", "one", "one"):
        client.ask("UserGrantRole", user="u", role=role)
    assert client.ask("UserGet", name="u")["roles"] == ["one", "two"]
    client.ask("UserRevokeRole", name="u", role="one")
    assert client.ask("UserGet", name="u")["roles"] == ["two"]
    assert "u" in client.ask("UserList")["users"] and {"one", "two"} <= set(client.ask("RoleList")["roles"])
    client.ask("RoleDelete", role="two")
    assert "roles" not in client.ask("UserGet", name="u")
    client.ask("UserChangePassword", name="u", password="ignored: it has none")
    client.ask("UserDelete", name="u")
    assert "u" not in client.ask("UserList").get("users", [])


@pytest.mark.parametrize(
    ("method", "values", "code", "text"),
    [
        ("AuthEnable", {}, PRECONDITION, "root user does not exist"),
        ("Authenticate", {"name": "root", "password": "x"}, PRECONDITION, "authentication is not enabled"),
        ("UserAdd", {"name": "", "password": "x"}, INVALID, "user name is empty"),
        ("UserAdd", {"name": "known", "password": "x"}, PRECONDITION, "user name already exists"),
        ("UserGet", {"name": "none"}, PRECONDITION, "user name not found"),
        ("UserDelete", {"name": "none"}, PRECONDITION, "user name not found"),
        ("UserChangePassword", {"name": "none", "password": "x"}, PRECONDITION, "user name not found"),
        ("UserGrantRole", {"user": "none", "role": "known"}, PRECONDITION, "user name not found"),
        ("UserGrantRole", {"user": "known", "role": "none"}, PRECONDITION, "role name not found"),
        ("UserRevokeRole", {"name": "known", "role": "known"}, PRECONDITION, "role is not granted to the user"),
        ("RoleAdd", {"name": ""}, INVALID, "role name is empty"),
        ("RoleAdd", {"name": "known"}, PRECONDITION, "role name already exists"),
        ("RoleGet", {"role": "none"}, PRECONDITION, "role name not found"),
        ("RoleDelete", {"role": "none"}, PRECONDITION, "role name not found"),
        ("RoleGrantPermission", {"name": "known"}, INVALID, "permission not given"),
        ("RoleGrantPermission", {"name": "none", "perm": {"key": b"k"}}, PRECONDITION, "role name not found"),
        (
            "RoleGrantPermission",
            {"name": "known", "perm": {"key": b"b", "range_end": b"a"}},
            INVALID,
            "invalid auth management",
        ),
        ("RoleRevokePermission", {"role": "none", "key": b"k"}, PRECONDITION, "role name not found"),
    ],
)
def test_refusals_are_those_of_etcd(
    client: EtcdClient, method: str, values: dict[str, object], code: int, text: str
) -> None:
    if "known" not in client.ask("RoleList").get("roles", []):
        client.ask("RoleAdd", name="known")
        client.ask("UserAdd", name="known", password="x")
    assert refusal(client, method, **values) == (code, text)


# --- while they are on ------------------------------------------------------------------------------------------------
def test_a_token_speaks_for_its_user(guarded: Door) -> None:
    with signed_in(guarded, "shop", SHOP) as shop, signed_in(guarded, "reader", SHOP) as reader:
        shop.ask("Put", key=b"shop/k", value=b"v")
        assert reader.ask("Range", key=b"shop/k")["kvs"][0]["value"] == b"v"
        assert refusal(reader, "Put", key=b"shop/k") == (DENIED, "permission denied")
        assert refusal(shop, "Put", key=b"else/k") == (DENIED, "permission denied")
        assert refusal(shop, "UserAdd", name="more", password="x") == (DENIED, "permission denied")
        assert shop.ask("UserGet", name="shop")["roles"] == ["shop"]
        assert permissions(shop, "shop") == [(READWRITE, b"shop/", b"shop0")]
        assert refusal(shop, "UserGet", name="reader") == (DENIED, "permission denied")
        assert refusal(shop, "RoleGet", role="reader") == (DENIED, "permission denied")
        shop.token = ""
        assert refusal(shop, "Range", key=b"shop/k") == (INVALID, "user name is empty")


def test_root_may_do_everything_and_stays(guarded: Door) -> None:
    with signed_in(guarded, "root", ROOT) as root:
        status = root.ask("AuthStatus")
        assert status["enabled"] and status["authRevision"] > 1
        assert permissions(root, "root") == [(READWRITE, b"", b"\0")]
        root.ask("Put", key=b"anything", value=b"v")
        root.ask("AuthEnable")
        for method, values in (
            ("UserDelete", {"name": "root"}),
            ("RoleDelete", {"role": "root"}),
            ("UserRevokeRole", {"name": "root", "role": "root"}),
        ):
            assert refusal(root, method, **values) == (INVALID, "invalid auth management")


def test_a_wrong_password_and_a_wrong_name_are_told_alike(guarded: Door) -> None:
    told = (INVALID, "authentication failed, invalid user ID or password")
    with guarded.client() as client:
        for name in ("shop", "nobody", ""):
            assert refusal(client, "Authenticate", name=name, password="a guess") == told


def test_a_token_ends_with_the_password_that_was_proved(guarded: Door) -> None:
    with signed_in(guarded, "root", ROOT) as root:
        root.ask("UserAdd", name="passing", password=SHOP)
        with guarded.client() as other:
            other.token = root.ask("Authenticate", name="passing", password=SHOP)["token"]
            assert other.ask("UserGet", name="passing")["header"]
            root.ask("UserChangePassword", name="passing", password="another one")
        with guarded.client() as again:
            again.token = other.token
            assert refusal(again, "Range", key=b"shop/k") == (UNAUTHENTICATED, "invalid auth token")
            again.token = other.token[:-1] + ("0" if other.token[-1] != "0" else "1")
            assert refusal(again, "Range", key=b"shop/k") == (UNAUTHENTICATED, "invalid auth token")
        root.ask("Authenticate", name="passing", password="another one")


def test_a_token_is_a_header_of_the_gateway(guarded: Door) -> None:
    connection = http.client.HTTPConnection(guarded.address, timeout=ANSWER_S)

    def ask(path: str, body: dict[str, object], token: str = "") -> tuple[int, dict[str, object]]:
        connection.request("POST", f"/v3/{path}", json.dumps(body), {"Authorization": token} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    status, told = ask("auth/authenticate", {"name": "reader", "password": SHOP})
    assert status == http.client.OK
    assert ask("kv/range", {"key": b64(b"shop/k")}, str(told["token"]))[0] == http.client.OK
    assert ask("kv/range", {"key": b64(b"shop/k")})[0] == http.client.BAD_REQUEST
    assert ask("kv/range", {"key": b64(b"shop/k")}, "77")[0] == http.client.UNAUTHORIZED
    role = ask("auth/role/get", {"role": "reader"}, str(told["token"]))[1]
    assert role["perm"] == [{"key": b64(b"shop/"), "range_end": b64(b"shop0")}]
    connection.close()


def test_a_token_counts_at_every_member(tmp_path_factory: pytest.TempPathFactory) -> None:
    with doors(tmp_path_factory.mktemp("members"), names="abc") as (_, ports):
        with EtcdClient(f"127.0.0.1:{ports['a']}") as client:
            client.ask("UserAdd", name="root", password=ROOT)
            client.ask("UserGrantRole", user="root", role="root")
            client.ask("AuthEnable")
        with EtcdClient(f"127.0.0.1:{ports['b']}") as client:
            token = client.ask("Authenticate", name="root", password=ROOT)["token"]

        def is_welcome() -> bool:
            try:
                with EtcdClient(f"127.0.0.1:{ports['c']}") as other:
                    other.token = token
                    return bool(other.ask("UserList")["users"] == ["root"])
            except RpcError:
                return False  # it has not applied yet that rights are on

        wait_until(is_welcome, timeout_s=ANSWER_S, what="the token at c")


def test_rights_that_are_turned_off_ask_nobody(tmp_path_factory: pytest.TempPathFactory) -> None:
    door = Door(tmp_path_factory.mktemp("off"))
    try:
        with door.client() as client:
            client.ask("UserAdd", name="root", password=ROOT)
            assert refusal(client, "AuthEnable") == (PRECONDITION, "root user does not have root role")
            client.ask("UserGrantRole", user="root", role="root")
            client.ask("AuthEnable")
        with signed_in(door, "root", ROOT) as root:
            root.ask("AuthDisable")
        with door.client() as client:
            assert "enabled" not in client.ask("AuthStatus")
            client.ask("Put", key=b"k", value=b"v")
    finally:
        door.node.close()


def test_a_lease_is_revoked_by_those_who_may_delete_its_keys(guarded: Door) -> None:
    with signed_in(guarded, "root", ROOT) as root, signed_in(guarded, "shop", SHOP) as shop:
        root.ask("LeaseGrant", TTL=600, ID=11)
        root.ask("Put", key=b"else/leased", lease=11)
        shop.ask("Put", key=b"shop/leased", lease=shop.ask("LeaseGrant", TTL=600, ID=12)["ID"])
        assert shop.ask("LeaseTimeToLive", ID=12, keys=True)["keys"] == [b"shop/leased"]
        assert "keys" not in shop.ask("LeaseTimeToLive", ID=11)
        for method, values in (("LeaseTimeToLive", {"ID": 11, "keys": True}), ("LeaseRevoke", {"ID": 11})):
            assert refusal(shop, method, **values) == (DENIED, "permission denied")
        assert root.ask("Range", key=b"else/leased")["count"] == 1
        shop.ask("LeaseRevoke", ID=12)
        assert "count" not in shop.ask("Range", key=b"shop/leased")
        root.ask("LeaseRevoke", ID=11)
        assert refusal(shop, "LeaseRevoke", ID=12) == (NOT_FOUND, "requested lease not found")


# --- tokens alone -----------------------------------------------------------------------------------------------------
def test_a_token_says_who_and_since_when() -> None:
    token = face.token(SEED, b"shop", 7, 1_000)
    assert face.read_token(SEED, token, 1_000) == (b"shop", 7)
    assert face.read_token(SEED, token, 1_000 + TOKEN_MS - 1) == (b"shop", 7)
    assert face.read_token(SEED, token, 1_000 + TOKEN_MS) is None
    assert face.read_token(bytes(32), token, 1_000) is None


def test_no_other_text_is_a_token() -> None:
    token = face.token(SEED, b"n" * 64, 7, 1_000)
    for place in range(len(token)):
        other = token[:place] + (b"0" if token[place : place + 1] != b"0" else b"1") + token[place + 1 :]
        assert face.read_token(SEED, other, 1_000) is None
    for text in (b"", b"0", token[:-1], token[:-2], token + b"00", token.upper(), b"zz" * 60, b"00" * 48, b"00" * 49):
        assert face.read_token(SEED, text, 1_000) is None


def test_ten_wrong_guesses_close_a_name_for_seconds() -> None:
    """One of them is forgotten a second."""
    second_ns = 1_000_000_000
    assert face.guesses([0] * 11) == [True] * 10 + [False]
    assert face.guesses([0] * 10 + [second_ns, second_ns]) == [True] * 11 + [False]
    assert face.guesses([number * second_ns for number in range(40)]) == [True] * 40
