"""Who may look and who may change: sessions, rights, other origins, and a dashboard that only shows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import dashboard
from raftmeta.dashboard import visitors
from raftmeta.dashboard.place import Place, Proof
from raftmeta.dashboard.shapes import key_id
from tests.client.nodes import serving
from tests.dashboard.pages import Visitor, answers, visiting
from tests.processes.waiting import free_addresses, wait_until
from tests.security.nodes import Place as ByTls
from tests.security.nodes import context_of, secure_cluster

Guarded = tuple[raftmeta.Node, str]
LEVEL_OF_RIGHTS = 3


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One node with rights on: `boss` may do everything, `user` may read and watch below a/."""
    with serving(tmp_path_factory.mktemp("guarded")) as (nodes, url):
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= LEVEL_OF_RIGHTS, timeout_s=30, what="the level of rights")
        node.put("a/seen", "1")
        node.put("b/secret", "2")
        auth = node.auth
        auth.put_user("boss", "of the house")
        auth.put_user("user", "correct horse")
        auth.put_role("all")
        auth.put_role("a")
        auth.grant("all", "admin")
        auth.grant("a", "read", "watch", prefix="a/")
        auth.bind("boss", "all")
        auth.bind("user", "a")
        auth.enable()
        yield node, url


@pytest.fixture(scope="module")
def page(guarded: Guarded) -> Iterator[Visitor]:
    with visiting(guarded[1], allow_changes=True) as found:
        yield found


@pytest.fixture
def visitor(page: Visitor) -> Iterator[Visitor]:
    """A visitor without a cookie."""
    found = Visitor(str(page.http.base_url))
    yield found
    found.http.close()


def routes(changes: bool) -> list[str]:
    asked = ["keys", "key", "history", "live/cluster", "live/holders", "live/keys"]
    return ["members"] if changes else asked


def test_nobody_is_answered_without_a_session(visitor: Visitor) -> None:
    """While rights are on. The page itself says who it is, and no more."""
    told = visitor.enter()
    assert told["user"] is None and set(told) == {"user", "cluster", "version"}
    assert "set-cookie" not in visitor.http.get("api/session").headers
    for path in routes(changes=False):
        assert visitor.http.get(f"api/{path}").status_code == 401, path
    assert visitor.change(action="remove", name="a", confirmed="a").status_code == 401
    visitor.http.cookies.set(f"raftmeta_{visitor.http.base_url.port}", "made up")
    assert visitor.http.get("api/keys").status_code == 401


def test_a_wrong_proof_begins_no_session(visitor: Visitor) -> None:
    for proof in ({"user": "user", "password": "wrong"}, {"user": "nobody", "password": "x"}):
        answer = visitor.http.post("api/login", json=proof)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    for proof in ({}, {"user": "user"}, {"user": "user", "password": "x", "token": "y"}, {"token": ""}):
        assert visitor.http.post("api/login", json=proof).status_code == 400, proof
    assert visitor.http.get("api/keys").status_code == 401


def test_a_visitor_sees_what_its_user_may_read(visitor: Visitor) -> None:
    """The cluster decides it, key by key; parts that are denied are told as such."""
    assert visitor.login(user="user", password="correct horse")["user"] == "user"
    assert visitor.ask("key", key=key_id(b"a/seen"))["record"]["value"]["text"] == "1"
    assert [row["text"] for row in visitor.ask("keys", prefix=key_id(b"a/"))["rows"]] == ["a/seen"]
    for path, query in (("key", {"key": key_id(b"b/secret")}), ("keys", {}), ("history", {"key": key_id(b"b/secret")})):
        assert visitor.http.get(f"api/{path}", params=query).status_code == 403, path
    with visitor.listening("keys", prefix=key_id(b"b/")) as events:
        assert "problem" in [name for name, _ in events]
    told = visitor.until("holders", "holders", lambda told: True)
    assert set(told["places"]) == set(told["leases"]) == {"denied"}
    told = visitor.until("cluster", "cluster", lambda told: told["picture"]["members"])
    assert [one["name"] for one in told["picture"]["members"]] == ["a"]
    answer = visitor.change(action="transfer", name="b", confirmed="b")
    assert answer.status_code == 403 and "no right" in answer.json()["message"]


def test_the_cookie_is_closed_to_scripts_and_to_other_sites(visitor: Visitor) -> None:
    answer = visitor.http.post("api/login", json={"user": "boss", "password": "of the house"})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    assert cookie.startswith(f"raftmeta_{visitor.http.base_url.port}=")
    assert answer.json()["csrf"] not in cookie


def test_a_token_is_a_proof_and_a_logout_ends_the_session(visitor: Visitor, guarded: Guarded) -> None:
    with raftmeta.Client(guarded[1], user="user", password="correct horse") as client:
        token = client.auth.token(60)
    assert visitor.login(token=token)["user"] == "user"
    cookies = dict(visitor.http.cookies)
    assert visitor.http.post("api/logout", headers={"Raftmeta-Csrf": "wrong"}).status_code == 403
    assert visitor.http.get("api/keys", params={"prefix": key_id(b"a/")}).status_code == 200
    assert visitor.http.post("api/logout", headers={"Raftmeta-Csrf": visitor.csrf}).status_code == 200
    visitor.http.cookies.update(cookies)
    assert visitor.http.get("api/keys", params={"prefix": key_id(b"a/")}).status_code == 401


def test_a_session_ends_with_its_user(visitor: Visitor, guarded: Guarded) -> None:
    """Its stream says so, and the next question is answered as that of nobody."""
    node, _ = guarded
    node.auth.put_user("guest", "for a moment")
    node.auth.bind("guest", "a")
    visitor.login(user="guest", password="for a moment")
    with visitor.listening("cluster") as events:
        assert next(name for name, _ in events) == "samples"
        node.auth.remove_user("guest")
        assert "over" in [name for name, _ in events]
    assert visitor.http.get("api/keys", params={"prefix": key_id(b"a/")}).status_code == 401


def test_a_change_needs_the_token_of_its_session(visitor: Visitor) -> None:
    visitor.login(user="boss", password="of the house")
    for csrf in ("", "wrong", visitor.csrf[:-1]):
        answer = visitor.change(csrf, action="transfer", name="a", confirmed="a")
        assert (answer.status_code, answer.json()["error"]) == (403, "csrf")
    assert visitor.change(action="transfer", name="a", confirmed="a").status_code == 200


def test_other_origins_and_other_names_are_refused(visitor: Visitor) -> None:
    """A page elsewhere cannot ask in a visitor's name, nor make its own name lead here."""
    visitor.login(user="boss", password="of the house")
    port = visitor.http.base_url.port
    told = {"prefix": key_id(b"a/")}
    for headers, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": f"http://127.0.0.1:{(port or 0) + 1}"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": f"evil.example:{port}"}, 421),
        ({"Host": f"127.0.0.1.evil.example:{port}"}, 421),
        ({"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
    ):
        assert visitor.http.get("api/keys", params=told, headers=headers).status_code == status, headers
    assert visitor.http.get("", headers={"Host": "evil.example"}).status_code == 421
    login = {"user": "boss", "password": "of the house"}
    refused = visitor.http.post("api/login", json=login, headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403 and "set-cookie" not in refused.headers


def test_a_name_that_was_given_leads_here(guarded: Guarded) -> None:
    """And without `allow_changes` nobody changes anything, whatever his rights."""
    with visiting(guarded[1], hosts=["Raft.Example"]) as visitor:
        assert visitor.http.get("", headers={"Host": "raft.example:80"}).status_code == 200
        assert visitor.http.get("", headers={"Host": "other.example:80"}).status_code == 421
        assert not visitor.login(user="boss", password="of the house")["allows_changes"]
        answer = visitor.change(action="transfer", name="a", confirmed="a")
        assert (answer.status_code, answer.json()["error"]) == (403, "read_only")


def test_the_dashboard_watches_by_itself_as_the_user_it_was_given(guarded: Guarded) -> None:
    """The history of leaders begins before anybody has logged in, and its user opens the page to nobody."""

    async def watch() -> list[str]:
        alone = visitors.Visitors(Place(guarded[1], "default"), Proof("user", "correct horse"))
        (watcher,) = alone._watchers.values()
        while not (reigns := watcher.picture()["reigns"]):
            assert await watcher.news(30)
        await alone.close()
        return [reign["leader"] for reign in reigns]

    assert asyncio.run(watch()) == ["a"]
    with visiting(guarded[1], user="user", password="correct horse") as visitor:
        assert visitor.enter()["user"] is None
        assert visitor.http.get("api/keys", params={"prefix": key_id(b"a/")}).status_code == 401


def test_a_visitor_of_nobody_ends_when_rights_are_turned_on(guarded: Guarded) -> None:
    node, url = guarded
    node.auth.disable()
    with visiting(url) as visitor:
        assert visitor.enter()["user"] == ""
        assert visitor.ask("keys")["rows"]
        node.auth.enable()
        wait_until(lambda: visitor.http.get("api/keys").status_code == 401, timeout_s=30, what="the end of the session")
        assert visitor.enter()["user"] is None


def test_sessions_end_when_nobody_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that listens uses its session; none lasts for ever."""

    class Unrefused:
        refused = None

    visitor = visitors.Visitor("u", Unrefused(), b"")  # type: ignore[arg-type]
    begun_s = time.monotonic()
    for later_s, streams, is_current in (
        (visitors.IDLE_S - 1, 0, True),
        (visitors.IDLE_S + 1, 0, False),
        (visitors.IDLE_S + 1, 1, True),
        (visitors.SESSION_S + 1, 1, False),
    ):
        monkeypatch.setattr(visitors.time, "monotonic", lambda later_s=later_s: begun_s + later_s)
        visitor.streams = streams
        assert visitor.is_current() == is_current, later_s


def test_passwords_go_nowhere_in_the_clear(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    """An address that others reach needs a certificate or a word of the operator; no log has a password."""
    caplog.set_level(logging.DEBUG)
    port = free_addresses(1)[0].rpartition(":")[2]
    with pytest.raises(raftmeta.ConfigError, match="reachable from other machines"):
        dashboard.serve(guarded[1], f"0.0.0.0:{port}")
    with pytest.raises(raftmeta.ConfigError, match="certificate and key"):
        dashboard.serve(guarded[1], f"127.0.0.1:{port}", certificate="x")
    with pytest.raises(raftmeta.ConfigError, match="url"):
        dashboard.serve("http://x", f"127.0.0.1:{port}")
    with dashboard.serve(guarded[1], f"127.0.0.1:{port}"), pytest.raises(raftmeta.AddressInUse):
        dashboard.serve(guarded[1], f"127.0.0.1:{port}")
    with visiting(guarded[1]) as visitor:
        visitor.login(user="boss", password="of the house")
    assert "of the house" not in caplog.text and "of the house" not in repr(caplog.records)


def test_a_certificate_lets_the_dashboard_in_and_no_visitor(tmp_path: Path) -> None:
    """It speaks TLS to the node, as an admin by its certificate; who looks at its page proves another user.

    The page is at https://, so its cookie goes nowhere else.
    """
    place = ByTls(tmp_path, "a")
    with secure_cluster(place) as nodes:
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= LEVEL_OF_RIGHTS, timeout_s=30, what="the level of rights")
        node.auth.put_user("admin")
        node.auth.put_user("user", "correct horse")
        node.auth.put_role("all")
        node.auth.grant("all", "admin")
        node.auth.bind("admin", "all")
        node.auth.enable()
        admin = place.authority.tls(place.authority.client("admin"))
        with raftmeta.Client(place.url, tls=admin) as client:
            assert client.auth.status().user == "admin" and client.members()
        held = place.held["a"]
        files = {"certificate": held.certificate, "key": held.key}
        with dashboard.serve(place.url, free_addresses(1)[0], tls=admin, **files) as server:
            assert server.url.startswith("https://")
            visitor = Visitor(server.url, verify=context_of(place.authority, None, None))
            with contextlib.closing(visitor.http):
                wait_until(lambda: answers(visitor.http), timeout_s=30, what="the dashboard")
                assert visitor.enter()["user"] is None
                assert visitor.http.get("api/keys").status_code == 401
                assert visitor.login(user="user", password="correct horse")["user"] == "user"
                assert visitor.http.get("api/keys").status_code == 403
                answer = visitor.http.post("api/login", json={"user": "user", "password": "correct horse"})
                assert "Secure" in answer.headers["set-cookie"]
