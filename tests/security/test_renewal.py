"""Certificates that are read anew: without a restart, without a broken connection, and the node tells when one ends."""

from __future__ import annotations

import contextlib
import datetime
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.waiting import wait_until
from tests.security.certificates import DAY, Authority, replace
from tests.security.nodes import CLIENT_PROTOCOL, Place, Proxy, context_of, secure_cluster, shake


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def nodes(place: Place) -> Iterator[dict[str, raftmeta.Node]]:
    with secure_cluster(place, revoked=place.authority.revoked) as running:
        yield running


def names(node: raftmeta.Node) -> list[str]:
    return [event.name for event in node.events(timeout_s=0)]


def kinds(node: raftmeta.Node) -> dict[str, str]:
    return {problem.kind: problem.text for problem in node.status().problems}


def shown_by(place: Place, name: str) -> bytes:
    """The certificate that a node shows to a client who connects now."""
    context = context_of(place.authority, place.authority.client(), CLIENT_PROTOCOL)
    with shake(place.clients[name], context) as secured:
        found = secured.getpeercert(binary_form=True)
        assert found is not None
        return found


def test_a_new_certificate_is_taken_from_its_file_under_load(place: Place, nodes: dict[str, raftmeta.Node]) -> None:
    """Nobody is told to read it. Writes and connections of clients and peers go on."""
    ended = threading.Event()
    failures: list[Exception] = []
    with raftmeta.Client(place.url, tls=place.client_tls()) as client:
        client.ready(10)

        def write() -> None:
            while not ended.is_set():
                try:
                    client.put("k", b"v" * 1000, timeout_s=10)
                except Exception as error:
                    failures.append(error)
                    return

        writer = threading.Thread(target=write)
        writer.start()
        try:
            before = {name: node.metrics() for name, node in nodes.items()}
            old = shown_by(place, "a")
            for _ in range(3):
                readings = {name: node.metrics()["tls_readings"] for name, node in nodes.items()}
                for name in nodes:
                    place.held[name] = place.authority.node(name)
                for name, node in nodes.items():
                    wait_until(
                        lambda node=node, least=readings[name]: node.metrics()["tls_readings"] > least,  # type: ignore[misc]
                        timeout_s=20,
                        what="the files to be read",
                    )
            wait_until(lambda: shown_by(place, "a") != old, timeout_s=20, what="the new certificate to be shown")
        finally:
            ended.set()
            writer.join()
        assert not failures
        assert client.metrics()["connects"] <= 3  # the search for the leader, and no more
    for name, node in nodes.items():
        assert "tls_renewed" in names(node)
        assert node.metrics()["connections_accepted"] == before[name]["connections_accepted"]


def test_a_revoked_client_is_closed_at_once_and_others_stay(place: Place, nodes: dict[str, raftmeta.Node]) -> None:
    bad = place.authority.client("bad")
    with (
        raftmeta.Client(place.url, tls=place.client_tls()) as good,
        raftmeta.Client(place.url, tls=place.authority.tls(bad)) as revoked,
    ):
        good.ready(10)
        revoked.ready(10)
        place.authority.revoke(bad)
        for node in nodes.values():
            node.reload_tls()
        told: list[str] = []

        def is_refused() -> bool:
            try:
                revoked.put("k", b"v", timeout_s=1)
            except (raftmeta.NotExecuted, raftmeta.OutcomeUnknown) as error:
                told.append(str(error))
            return any("this client's certificate is revoked" in text for text in told)

        wait_until(is_refused, timeout_s=20, what=lambda: f"it to be refused; {told}")
        good.put("k", b"v")
        assert good.metrics()["connects"] <= 3  # the search for the leader, and no more


def test_a_revoked_node_is_cut_off_and_told(place: Place, nodes: dict[str, raftmeta.Node]) -> None:
    place.authority.revoke(place.held["c"])
    for node in nodes.values():
        node.reload_tls()
    wait_until(lambda: "told_revoked" in f"{kinds(nodes['c'])}" or "tls" in kinds(nodes["c"]), timeout_s=20, what="c")
    assert "revoked" in kinds(nodes["c"])["tls"]
    wait_until(lambda: "tls" in kinds(nodes["a"]), timeout_s=20, what="the problem of a")
    assert "the certificate of c is revoked" in kinds(nodes["a"])["tls"]
    nodes["a"].put("k", b"two of three go on", timeout_s=20)


def test_who_came_by_a_former_authority_is_closed_when_it_is_trusted_no_more(tmp_path: Path) -> None:
    """Both are trusted while the certificates change. A list of the new one alone could not revoke the old ones."""
    place, after = Place(tmp_path), Authority(tmp_path / "after", "after")
    both = tmp_path / "both.pem"
    both.write_bytes(place.authority.path.read_bytes() + after.path.read_bytes())
    with secure_cluster(place, authorities=both) as nodes, raftmeta.Client(place.url, tls=place.client_tls()) as old:
        old.ready(10)
        for name, node in nodes.items():
            fresh = after.node(name)
            replace(place.held[name].key, fresh.key.read_bytes())
            replace(place.held[name].certificate, fresh.certificate.read_bytes())
            node.reload_tls()
        old.put("k", b"old and new are trusted", timeout_s=20)

        def evicted() -> int:
            return sum(node.metrics()["connections_evicted"] for node in nodes.values())

        before = evicted()
        replace(both, after.path.read_bytes())
        for node in nodes.values():
            node.reload_tls()

        def is_refused() -> bool:
            try:
                old.put("k", b"v", timeout_s=1)
            except (raftmeta.NotExecuted, raftmeta.OutcomeUnknown):
                return True
            return False

        wait_until(is_refused, timeout_s=20, what="the client of the former authority to be closed")
        # Of two peers, the one that is first to read the new list closes what they had opened with the former.
        wait_until(lambda: evicted() > before, timeout_s=20, what="peers to be closed")
        with pytest.raises((raftmeta.NotExecuted, raftmeta.OutcomeUnknown)):
            old.put("k", b"by an authority that nobody trusts", timeout_s=2)
        with raftmeta.Client(place.url, tls=after.tls(after.client())) as new:
            new.put("k", b"new", timeout_s=20)


def test_files_that_do_not_fit_change_nothing(place: Place, nodes: dict[str, raftmeta.Node]) -> None:
    """The key of another certificate: an error, a problem, and the old ones stay until the files are right again."""
    node = nodes["a"]
    good = place.held["a"].key.read_bytes()
    replace(place.held["a"].key, place.held["b"].key.read_bytes())
    with pytest.raises(raftmeta.ConfigError, match=r"tls\.key") as caught:
        node.reload_tls()
    assert caught.value.field == "tls.key"
    assert "tls.key" in kinds(node)["tls_not_renewed"]
    assert shown_by(place, "a") == ssl.PEM_cert_to_DER_cert(place.held["a"].certificate.read_text())
    replace(place.held["a"].key, good)
    wait_until(lambda: "tls_not_renewed" not in kinds(node), timeout_s=20, what="the files to be read again")


@pytest.mark.parametrize(
    ("left", "days"),
    [
        (40 * DAY, None),
        (29 * DAY, 30),
        (6 * DAY, 7),
        (DAY / 2, 1),
        (datetime.timedelta(seconds=-1), 0),
    ],
)
def test_the_end_of_a_certificate_is_told_beforehand(
    tmp_path: Path, left: datetime.timedelta, days: int | None
) -> None:
    """As event, metric and problem."""
    place = Place(tmp_path, "a")
    place.held["a"] = place.authority.node("a", begin=-50 * DAY, end=left)
    with secure_cluster(place) as nodes:
        told = [event for event in nodes["a"].events(timeout_s=0) if event.name == "certificate_expires"]
        ends = place.held["a"].issued.not_valid_after_utc.timestamp()
        assert nodes["a"].metrics()["tls_certificate_expires_s"] == int(ends)
        assert [event.facts["days"] for event in told] == ([] if days is None else [days])
        problem = {None: set(), 0: {"certificate_expired"}}.get(days, {"certificate_expires"})
        assert kinds(nodes["a"]).keys() == problem


def test_a_node_with_an_expired_certificate_is_told_on_both_sides(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.held["c"] = place.authority.node("c", begin=-2 * DAY, end=-datetime.timedelta(seconds=1))
    nodes = {name: place.node(name, place.tls(name)) for name in "abc"}
    try:
        for node in nodes.values():
            node.start()
        wait_until(lambda: "tls" in kinds(nodes["a"]), timeout_s=20, what="the problem of a")
        assert "the certificate of c has expired" in kinds(nodes["a"])["tls"]
        wait_until(lambda: "tls" in kinds(nodes["c"]), timeout_s=20, what="the problem of c")
        assert "this node's certificate has expired" in kinds(nodes["c"])["tls"]
        place.held["c"] = place.authority.node("c")  # and it is read by itself
        for node in nodes.values():
            node.ready(30)
    finally:
        for node in nodes.values():
            node.close(transfer=False)


def test_a_broken_connection_of_peers_is_resumed(tmp_path: Path) -> None:
    """By a ticket: no certificate is sent or verified again, and who is there is known all the same."""
    place = Place(tmp_path, "ab")
    with Proxy(place.peers["b"]) as proxy, contextlib.ExitStack() as stack:
        listen, place.peers["b"] = place.peers["b"], proxy.address
        nodes = {"a": place.node("a", place.tls("a")), "b": place.node("b", place.tls("b"), listen=listen)}
        for node in nodes.values():
            stack.callback(node.close, transfer=False)
            node.start()
        for node in nodes.values():
            node.ready(30)
        assert nodes["b"].metrics()["tls_handshakes_resumed"] == 0
        nodes["a"].put("k", b"nobody on the way reads this")
        proxy.drop()
        wait_until(
            lambda: nodes["b"].metrics()["tls_handshakes_resumed"] == 1,
            timeout_s=20,
            what="the handshake to be resumed",
        )
        nodes["a"].put("k", b"nobody on the way reads this either", timeout_s=20)
        assert len(proxy.seen) > 1000
        assert b"nobody on the way" not in proxy.seen


def test_a_key_from_a_function_and_an_encrypted_one(tmp_path: Path) -> None:
    """Neither stands in a file in the clear, nor in a repr."""
    place = Place(tmp_path, "a")
    encrypted = place.authority.issue("locked", "raftmeta://default/a/peer", password=b"open sesame")
    asked: list[None] = []

    def key() -> bytes:
        asked.append(None)
        return place.held["a"].key.read_bytes()

    for tls in (
        place.tls("a", key=key),
        place.authority.tls(encrypted, key_password="open sesame"),
        place.authority.tls(encrypted, key_password=lambda: b"open sesame"),
    ):
        assert "sesame" not in repr(tls)
        with place.node("a", tls) as node:
            node.ready(30)
            with raftmeta.Client(place.url, tls=place.client_tls()) as client:
                client.ready(10)
    assert asked


def test_a_wrong_password_is_told_without_it(tmp_path: Path) -> None:
    place = Place(tmp_path, "a")
    encrypted = place.authority.issue("locked", "raftmeta://default/a/peer", password=b"open sesame")
    for settings, text in (({}, "give tls.key_password"), ({"key_password": "guess"}, "does not open it")):
        with pytest.raises(raftmeta.ConfigError, match=text) as caught:
            place.node("a", place.authority.tls(encrypted, **settings)).start()
        assert caught.value.field == "tls.key"
        assert "guess" not in f"{caught.value!r}"
