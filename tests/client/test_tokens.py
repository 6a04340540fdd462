"""Tokens, the founding and lists of rights over a real node, by both faces."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import aio
from raftmeta.bindings.requests import VALUES, authenticate_frame
from raftmeta.bindings.scram import credentials_of, token_id
from raftmeta.client.connection import Connection
from raftmeta.client.endpoints import parse_url
from raftmeta.results import Grant, Role, User
from tests.client.nodes import serving
from tests.processes.waiting import wait_until


def level(node: raftmeta.Node) -> None:
    wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    """One node with rights on: `boss` is an admin, `user` may read and write keys below a/."""
    with serving(tmp_path) as (nodes, url):
        node = nodes["a"]
        level(node)
        node.put("a/seen", "1")
        auth = node.auth
        auth.put_user("boss", "of the house")
        auth.put_user("user", "correct horse")
        auth.put_role("all")
        auth.put_role("a")
        auth.grant("all", "admin")
        auth.grant("a", "read", "write", prefix="a/")
        auth.bind("boss", "all")
        auth.bind("user", "a")
        auth.enable()
        yield node, url


def token_for(url: str, ttl_s: float = 3600, name: str = "user", password: str = "correct horse") -> str:
    with raftmeta.Client(url, user=name, password=password) as client:
        return client.auth.token(ttl_s)


# --- tokens -----------------------------------------------------------------------------------------------------------
def test_a_token_speaks_for_its_user(guarded: tuple[raftmeta.Node, str]) -> None:
    _, url = guarded
    token = token_for(url)
    with raftmeta.Client(url, token=token) as client:
        assert client.auth.status() == raftmeta.results.RightsStatus(True, "user")
        assert client.get("a/seen").value == b"1"  # type: ignore[union-attr]
        client.put("a/1", "x")
        with pytest.raises(raftmeta.PermissionDenied):
            next(iter(client.watch(prefix="b/")))
        with pytest.raises(raftmeta.PermissionDenied) as denied:
            client.put("b", "x")
        assert "bearer of a token" in str(denied.value)
        for ask in (lambda: client.auth.token(5), lambda: client.auth.put_user("user", "mine")):
            with pytest.raises(raftmeta.PermissionDenied):
                ask()
        assert token.rpartition(".")[2] not in repr(client._client._credentials) + str(denied.value)


def test_a_token_ends_by_itself_and_its_connection_with_it(guarded: tuple[raftmeta.Node, str]) -> None:
    """Reads, writes and the next connection: nothing is left when its time is over."""
    _, url = guarded
    token = token_for(url, ttl_s=1)

    def is_refused() -> bool:
        try:
            client.get("a/seen")
        except raftmeta.AuthenticationFailed:
            return True
        return False

    with raftmeta.Client(url, token=token) as client:
        wait_until(is_refused, timeout_s=20, what="the end of the token")
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.put("a/seen", "x")
    with raftmeta.Client(url, token=token) as client, pytest.raises(raftmeta.AuthenticationFailed):
        client.get("a/seen")


def test_a_watch_ends_with_its_token(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    node.auth.grant("a", "watch", prefix="a/")
    token = token_for(url)
    with raftmeta.Client(url, token=token) as client, client.watch(prefix="a/") as watch:
        node.put("a/1", "1")
        assert next(iter(watch)).record.key == b"a/1"
        node.auth.revoke_token(token)
        node.put("a/2", "2")
        with pytest.raises(raftmeta.PermissionDenied):
            for event in watch:
                assert event.record.key != b"a/2"


@pytest.mark.parametrize("by", ["password", "removal", "revoked"])
def test_a_token_is_ended_early(guarded: tuple[raftmeta.Node, str], by: str) -> None:
    node, url = guarded
    token = token_for(url)
    with raftmeta.Client(url, token=token) as client:
        client.put("a/1", "x")
        if by == "password":
            node.auth.put_user("user", "another")
        elif by == "removal":
            node.auth.remove_user("user")
        else:
            client.auth.revoke_token(token)
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.put("a/1", "y")
    assert not node.auth.users()[-1].tokens


def test_a_token_survives_another_leader(tmp_path: Path) -> None:
    with serving(tmp_path, names="abc") as (nodes, url):
        level(nodes["a"])
        auth = nodes["a"].auth
        auth.put_user("user", "correct horse")
        auth.put_role("a")
        auth.grant("a", "read", "write", prefix="a/")
        auth.bind("user", "a")
        auth.enable()
        token = token_for(url)
        with raftmeta.Client(url, token=token) as client:
            client.put("a/1", "1")
            next(node for node in nodes.values() if node.status().is_leader).transfer()
            client.put("a/1", "2")


def test_a_token_survives_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as (nodes, url):
        level(nodes["a"])
        auth = nodes["a"].auth
        auth.put_user("user", "correct horse")
        auth.put_role("a")
        auth.grant("a", "write", prefix="a/")
        auth.bind("user", "a")
        auth.enable()
        token = token_for(url)
    with serving(tmp_path) as (nodes, url), raftmeta.Client(url, token=token) as client:
        client.put("a/1", "3", timeout_s=20)


def test_what_is_no_token_is_refused_without_showing_it(guarded: tuple[raftmeta.Node, str]) -> None:
    _, url = guarded
    with pytest.raises(raftmeta.InvalidArgument) as wrong:
        raftmeta.Client(url, token="hunter2")
    assert "hunter2" not in str(wrong.value)
    with pytest.raises(raftmeta.ConfigError):
        raftmeta.Client(url, user="user", password="correct horse", token=token_for(url))
    guess = raftmeta.Client(url, token="raftmeta-token.77.guessed")
    with guess as client, pytest.raises(raftmeta.AuthenticationFailed) as failed:
        client.get("a/seen")
    assert "guessed" not in str(failed.value)
    for ttl_s in (0, 700_000, True):
        user = raftmeta.Client(url, user="user", password="correct horse")
        with user, pytest.raises(raftmeta.InvalidArgument):
            user.auth.token(ttl_s)


def test_asyncio_has_the_same_verbs(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded

    async def run() -> None:
        async with aio.Client(url, user="boss", password="of the house") as boss:
            token = await boss.auth.token(60, user="user")
            user = await boss.auth.user("user")
            assert user == User("user", ("a",), True, False, (token_id(token),))
            assert [one.name for one in await boss.auth.users()] == ["boss", "user"]
            assert [one.name for one in await boss.auth.roles()] == ["a", "all"]
            async with aio.Client(url, token=token) as client:
                await client.put("a/1", "x")
                assert (await client.auth.status()).user == "user"
        face = node.aio()
        assert await face.auth.role("a") == Role("a", (Grant(("read", "write"), b"a/", b"a0"),))
        assert await face.auth.founding_token() is None
        await face.close()

    asyncio.run(run())


# --- lists ------------------------------------------------------------------------------------------------------------
def test_an_admin_and_a_node_list_everything(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    node.auth.put_user("certified")
    node.auth.put_user("new", "once", one_time=True)
    node.auth.grant("a", "lease", start="z")
    with raftmeta.Client(url, user="boss", password="of the house") as boss:
        for auth in (boss.auth, node.auth):
            assert auth.users() == [
                User("boss", ("all",), True, False, ()),
                User("certified", (), False, False, ()),
                User("new", (), True, True, ()),
                User("user", ("a",), True, False, ()),
            ]
            assert auth.roles() == [
                Role("a", (Grant(("read", "write"), b"a/", b"a0"), Grant(("lease",), b"z", b""))),
                Role("all", (Grant(("admin",), b"", b""),)),
            ]
            assert auth.user("nobody") is None and auth.role("b") is None
    assert not node.auth.status().user


def test_lists_have_as_many_pages_as_they_need(guarded: tuple[raftmeta.Node, str]) -> None:
    """1,024 grants of 400 bytes in each of eight roles: more than a page of a node, and of a client."""
    node, url = guarded
    for number in range(8):
        node.auth.put_role(f"r{number}")
        for grant in range(130):
            node.auth.grant(f"r{number}", "read", start=f"{grant:04}".encode() * 100)
    with raftmeta.Client(url, user="boss", password="of the house") as boss:
        assert boss.auth.roles() == node.auth.roles()
    assert sum(len(role.grants) for role in node.auth.roles()) == 8 * 130 + 2


def test_a_user_sees_itself_and_its_roles_only(guarded: tuple[raftmeta.Node, str]) -> None:
    node, url = guarded
    node.auth.put_user("usher")
    with raftmeta.Client(url, user="user", password="correct horse") as client:
        assert client.auth.user("user") == User("user", ("a",), True, False, ())
        assert client.auth.role("a") == Role("a", (Grant(("read", "write"), b"a/", b"a0"),))
        for ask in (
            client.auth.users,
            client.auth.roles,
            lambda: client.auth.user("boss"),
            lambda: client.auth.user("use"),
            lambda: client.auth.role("all"),
            lambda: client.auth.role("nothing"),
        ):
            with pytest.raises(raftmeta.PermissionDenied):
                ask()
    with raftmeta.Client(url) as nobody, pytest.raises(raftmeta.AuthenticationFailed):
        nobody.auth.user("user")


def test_while_rights_are_off_everybody_lists(tmp_path: Path) -> None:
    with serving(tmp_path) as (nodes, url), raftmeta.Client(url) as client:
        assert (client.auth.users(), client.auth.roles(), client.auth.status().is_enabled) == ([], [], False)
        level(nodes["a"])
        client.auth.put_user("user", "correct horse")
        assert [user.name for user in client.auth.users()] == ["user"]


# --- the founding -----------------------------------------------------------------------------------------------------
def test_the_founding_token_makes_the_first_admin_once(tmp_path: Path) -> None:
    """Before that no client does anything, although rights were never set up."""
    with serving(tmp_path, rights_required=True) as (nodes, url):
        node = nodes["a"]
        level(node)
        with raftmeta.Client(url) as client:
            for ask in (
                lambda: client.get("k"),
                lambda: client.put("k", "v"),
                lambda: client.auth.put_user("me", "me"),
            ):
                with pytest.raises(raftmeta.AuthenticationFailed):
                    ask()
        token = node.auth.founding_token()
        assert token is not None and node.auth.founding_token() is None
        with raftmeta.Client(url, token=token) as founder:
            for ask in (lambda: founder.get("k"), lambda: founder.put("k", "v"), founder.auth.users):
                with pytest.raises(raftmeta.PermissionDenied):
                    ask()
            founder.auth.claim("boss", "of the house")
            with pytest.raises(raftmeta.AuthenticationFailed):
                founder.auth.claim("other", "of the mouse")
        with raftmeta.Client(url, token=token) as founder, pytest.raises(raftmeta.AuthenticationFailed):
            founder.auth.claim("other", "of the mouse")
        with raftmeta.Client(url, user="boss", password="of the house") as boss:
            assert boss.auth.users() == [User("boss", ("admin",), True, False, ())]
            boss.put("k", "v")
            boss.auth.disable()
        with raftmeta.Client(url) as client, pytest.raises(raftmeta.AuthenticationFailed):
            client.get("k")


def test_a_lost_founding_token_is_replaced_by_a_node(tmp_path: Path) -> None:
    with serving(tmp_path) as (nodes, url):
        node = nodes["a"]
        level(node)
        lost, token = node.auth.founding_token(), node.auth.founding_token(renew=True)
        with raftmeta.Client(url, token=lost) as founder, pytest.raises(raftmeta.AuthenticationFailed):
            founder.auth.claim("boss", "of the house")
        with raftmeta.Client(url, token=token) as founder:
            founder.auth.claim("boss", "of the house")
        assert [user.name for user in node.auth.users()] == ["boss"]


# --- salts of users that do not exist ---------------------------------------------------------------------------------
def test_all_nodes_make_up_the_same_salt_for_a_name_that_no_user_has(tmp_path: Path) -> None:
    """So nobody learns from two nodes which names are users; and a user has one salt everywhere, too."""
    with serving(tmp_path, names="abc") as (nodes, url):
        level(nodes["a"])
        nodes["a"].auth.put_user("user", "correct horse")
        nodes["a"].auth.enable()
        for node in nodes.values():
            node.get("k")  # each has applied that

        async def salt(place: str, name: bytes) -> tuple[bytes, int]:
            endpoint = parse_url(f"raft://{place}")[0]
            connection = await Connection.connect(
                endpoint,
                cluster="default",
                name="",
                on_messages=lambda *_: None,
                on_lost=lambda _: None,
                ping=lambda: b"",
            )
            answer = await connection._asked(authenticate_frame(name, bytes(24), proves=False))
            connection.abort()
            from raftmeta.bindings.requests import answer_value

            _, found, iterations = answer_value(VALUES, 0, 0, answer)[0]
            return found, iterations

        async def run() -> None:
            for name in (b"user", b"nobody", b"\0" + struct.pack("<Q", 77), b"\0f"):
                found = {await salt(place, name) for place in url.removeprefix("raft://").split(",")}
                assert len(found) == 1, name
                assert next(iter(found))[1] == (4096 if name[0] == 0 else 32_768)
            first = url.removeprefix("raft://").split(",")[0]
            assert await salt(first, b"nobody") != await salt(first, b"nobody else")

        asyncio.run(run())


def test_a_token_has_no_user_name_in_its_credentials() -> None:
    credentials = credentials_of(None, None, "raftmeta-token.a.secret")
    assert credentials is not None
    assert (credentials.user, credentials.name) == ("", b"\0" + struct.pack("<Q", 10))
