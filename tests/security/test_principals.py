"""The principal in a client's certificate as a user of rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.waiting import wait_until
from tests.security.nodes import Place, secure_cluster


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, Place]]:
    """One node with TLS and rights on. `app` may read and write a/ and has no password, `boss` is an admin."""
    place = Place(tmp_path, "a")
    with secure_cluster(place, revoked=place.authority.revoked) as nodes:
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        auth = node.auth
        auth.put_user("app")
        auth.put_user("boss", "of the house")
        auth.put_role("a")
        auth.put_role("all")
        auth.grant("a", "read", "write", "watch", prefix="a/")
        auth.grant("all", "admin")
        auth.bind("app", "a")
        auth.bind("boss", "all")
        auth.enable()
        yield node, place


def client_of(place: Place, principal: str, **arguments: str) -> raftmeta.Client:
    tls = place.authority.tls(place.authority.client(principal))
    return raftmeta.Client(place.url, tls=tls, **arguments)  # type: ignore[arg-type]


def test_a_certificate_proves_its_principal_without_a_password(guarded: tuple[raftmeta.Node, Place]) -> None:
    node, place = guarded
    with client_of(place, "app") as client:
        assert client.auth.status().user == "app"
        client.put("a/1", "x")
        assert client.get("a/1").value == b"x"  # type: ignore[union-attr]
        with pytest.raises(raftmeta.PermissionDenied) as denied:
            client.put("b", "x")
        assert "certificate" in str(denied.value)
        for ask in (lambda: client.get("b"), lambda: client.auth.disable(), lambda: client.auth.user("boss")):
            with pytest.raises(raftmeta.PermissionDenied):
                ask()
        node.auth.put_user("app", "a password")  # which makes no certificate old
        client.put("a/1", "y")


def test_a_principal_that_is_no_user_has_no_rights(guarded: tuple[raftmeta.Node, Place]) -> None:
    """Also one that was a user, on its open connection, in reads, writes and watches."""
    node, place = guarded
    with client_of(place, "stranger") as client:
        for ask in (lambda: client.get("a/1"), lambda: client.put("a/1", "x"), lambda: client.status()):
            with pytest.raises(raftmeta.AuthenticationFailed):
                ask()
    with client_of(place, "app") as client, client.watch(prefix="a/") as watch:
        client.put("a/1", "x")
        assert next(iter(watch)).record.key == b"a/1"
        node.auth.remove_user("app")
        node.put("a/2", "x")
        for ask in (lambda: client.get("a/1"), lambda: client.put("a/1", "x")):
            with pytest.raises(raftmeta.AuthenticationFailed):
                ask()
        with pytest.raises(raftmeta.PermissionDenied):
            for event in watch:
                assert event.record.key != b"a/2"


def test_a_password_counts_in_the_place_of_the_certificate(guarded: tuple[raftmeta.Node, Place]) -> None:
    """The user of the password, with its rights and no more; when that counts no more, nobody."""
    node, place = guarded
    with client_of(place, "app", user="boss", password="of the house") as client:
        assert client.auth.status().user == "boss"
        client.put("b", "x")
        node.auth.put_user("boss", "another")
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.get("a/1")
    node.auth.put_user("guest", "of guest")
    with client_of(place, "app", user="guest", password="of guest") as client, pytest.raises(raftmeta.PermissionDenied):
        client.get("a/1")
    wrong = client_of(place, "app", user="boss", password="wrong")
    with wrong as client, pytest.raises(raftmeta.AuthenticationFailed):
        client.get("a/1")


def test_a_token_counts_in_the_place_of_the_certificate(guarded: tuple[raftmeta.Node, Place]) -> None:
    node, place = guarded
    with client_of(place, "app") as client:
        token = client.auth.token(60)
    with client_of(place, "stranger", token=token) as client:
        client.put("a/1", "x")
        node.auth.revoke_token(token)
        with pytest.raises(raftmeta.AuthenticationFailed):
            client.put("a/1", "y")


def test_a_revoked_certificate_is_no_principal_any_more(guarded: tuple[raftmeta.Node, Place]) -> None:
    node, place = guarded
    held = place.authority.client("app")
    with raftmeta.Client(place.url, tls=place.authority.tls(held)) as client:
        client.put("a/1", "x")
        place.authority.revoke(held)
        node.reload_tls()
        with pytest.raises(raftmeta.RaftmetaError):
            client.put("a/1", "y", timeout_s=2)
        assert node.get("a/1").value == b"x"  # type: ignore[union-attr]


def test_an_admin_may_have_a_certificate_only(tmp_path: Path) -> None:
    """The founding token makes an admin without a password; no client without the token could do that before."""
    place = Place(tmp_path, "a", rights_required=True)
    with secure_cluster(place) as nodes:
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        with client_of(place, "boss") as client, pytest.raises(raftmeta.AuthenticationFailed):
            client.auth.put_user("boss")
        token = node.auth.founding_token()
        assert token is not None
        with client_of(place, "anybody", token=token) as client:
            client.auth.claim("boss")
        with client_of(place, "boss") as boss:
            boss.auth.put_user("app", "pass")
            assert [user.name for user in boss.auth.users()] == ["app", "boss"]
