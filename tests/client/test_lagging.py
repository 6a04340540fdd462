"""A ready node that lags behind a change of users refuses nobody by what it has applied (server/second_look)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import raftmeta
from raftmeta.bindings import verbs
from raftmeta.bindings.requests import AUTHENTICATE_ID, VALUES, answer_value, authenticate_frame
from raftmeta.bindings.scram import Credentials, Exchange, credentials_of
from raftmeta.faults import LinkFault, set_link_faults
from tests.client.nodes import serving
from tests.client.raw import SESSION, RawClient
from tests.processes.waiting import wait_until
from tests.security.nodes import CLIENT_PROTOCOL, Place, context_of, secure_cluster, shake
from tests.wire.names import Status

PATIENT_S = 3.0  # a node that hears nothing for so long still believes in its leader


class Lagging:
    """Three nodes, and one of them that hears nothing from the leader while it lags; the leader hears it."""

    def __init__(self, nodes: dict[str, raftmeta.Node], addresses: list[str]) -> None:
        self.leader = next(node for node in nodes.values() if node.status().is_leader)
        name = next(name for name, node in nodes.items() if node is not self.leader)
        self.node, self.name = nodes[name], name
        self.address = addresses[sorted(nodes).index(name)]
        self.url = f"raft://{self.address}"
        for node in nodes.values():
            wait_until(lambda node=node: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        auth = self.leader.auth
        auth.put_role("a")
        auth.put_user("user", "the old one")
        auth.grant("a", "read", "write", prefix="a/")
        auth.bind("user", "a")
        auth.enable()
        # Rights have no revision, so the node could have all keys and not know yet that rights are on. This write can.
        revision = self.leader.put("a/1", "x")
        wait_until(lambda: self.node.status().revision >= revision, timeout_s=20, what="it to catch up")

    def fall_behind(self) -> None:
        set_link_faults(self.leader, {self.name: LinkFault(cut_to=True)})

    def catch_up(self) -> None:
        set_link_faults(self.leader, {})


@pytest.fixture
def lagging(tmp_path: Path) -> Iterator[Lagging]:
    with serving(tmp_path, names="abc", election_timeout_s=PATIENT_S) as (nodes, url):
        yield Lagging(nodes, url.removeprefix("raft://").split(","))


def say(client: RawClient, credentials: Credentials) -> None:
    """Both steps of a proof; its answer is the next one."""
    exchange = Exchange(credentials)
    client.send(authenticate_frame(exchange.name, exchange.nonce, proves=False))
    id, status, body = client.answer()
    assert (id, status) == (AUTHENTICATE_ID, Status.OK)
    nonce, salt, iterations = answer_value(VALUES, 0, 0, body)[0]
    client.send(authenticate_frame(nonce, exchange.proof_for(body, nonce, salt, iterations), proves=True))


def changed_password(lagging: Lagging) -> Credentials:
    lagging.leader.auth.put_user("user", "the new one")
    return Credentials("user", "the new one")


def new_user(lagging: Lagging) -> Credentials:
    lagging.leader.auth.put_user("another", "of another")
    return Credentials("another", "of another")


def new_token(lagging: Lagging) -> Credentials:
    credentials = credentials_of(None, None, lagging.leader.auth.token(60, user="user"))
    assert credentials is not None
    return credentials


@pytest.mark.parametrize("change", [changed_password, new_user, new_token])
def test_a_proof_that_a_lagging_node_cannot_know_is_not_called_wrong(lagging: Lagging, change) -> None:  # type: ignore[no-untyped-def]
    """It told the salt of the old state. It catches up before it answers, and the next proof is right."""
    with RawClient(lagging.url) as client:
        lagging.fall_behind()
        credentials = change(lagging)
        say(client, credentials)
        lagging.catch_up()
        assert client.answer()[1] == Status.NOT_READY
        say(client, credentials)
        assert client.answer()[1] == Status.OK
    assert lagging.node.metrics()["client_authentications_failed"] == 0


def test_a_wrong_proof_is_called_wrong_by_a_node_that_heard_the_leader(lagging: Lagging) -> None:
    """And the connection is not read on before, so that a stranger has one second look at a time."""
    with RawClient(lagging.url) as client:
        lagging.fall_behind()
        say(client, Credentials("user", "no idea"))
        client.send(authenticate_frame(b"user", b"n" * 24, proves=False))
        wait_until(
            lambda: lagging.node.metrics()["client_requests"] >= 2, timeout_s=20, what="the proof to be looked at"
        )
        assert lagging.node.metrics()["client_authentications_failed"] == 0
        lagging.catch_up()
        assert [client.answer()[1], client.answer()[1]] == [Status.AUTHENTICATION_FAILED, Status.OK]
        say(client, Credentials("user", "nor now"))
        assert client.answer()[1] == Status.AUTHENTICATION_FAILED
        with contextlib.suppress(ConnectionError):
            say(client, Credentials("user", "three tries"))
        assert client.is_closed()


def test_a_client_with_a_new_password_is_served_by_a_lagging_node(lagging: Lagging) -> None:
    lagging.fall_behind()
    credentials = changed_password(lagging)
    client = raftmeta.Client(lagging.url, user=credentials.user, password=credentials.password)
    with ThreadPoolExecutor(1) as pool, client:
        found = pool.submit(client.get, "a/1", timeout_s=30)
        wait_until(
            lambda: lagging.node.metrics()["client_requests"] >= 2, timeout_s=20, what="the proof to be looked at"
        )
        lagging.catch_up()
        assert found.result().value == b"x"  # type: ignore[union-attr]


@pytest.fixture
def lagging_with_tls(tmp_path: Path) -> Iterator[tuple[Lagging, Place]]:
    place = Place(tmp_path, "abc", election_timeout_s=PATIENT_S)
    with secure_cluster(place) as nodes:
        yield Lagging(nodes, list(place.clients.values())), place


def test_a_certificate_of_a_new_user_is_served_by_a_lagging_node(lagging_with_tls: tuple[Lagging, Place]) -> None:
    """Also one whose user had no right to the key before."""
    lagging, place = lagging_with_tls
    tls = place.authority.tls(place.authority.client("late"))
    lagging.leader.auth.put_user("poor")
    with ThreadPoolExecutor(2) as pool, raftmeta.Client(lagging.url, tls=tls) as late:
        poor = raftmeta.Client(lagging.url, tls=place.authority.tls(place.authority.client("poor")))
        with poor:
            with pytest.raises(raftmeta.PermissionDenied):
                poor.get("a/1")
            lagging.fall_behind()
            lagging.leader.auth.put_user("late")
            lagging.leader.auth.bind("late", "a")
            lagging.leader.auth.bind("poor", "a")
            before = lagging.node.metrics()["client_requests"]
            found = [pool.submit(client.get, "a/1", timeout_s=30) for client in (late, poor)]
            wait_until(
                lambda: lagging.node.metrics()["client_requests"] >= before + 2, timeout_s=20, what="both requests"
            )
            lagging.catch_up()
            assert [one.result().value for one in found] == [b"x", b"x"]  # type: ignore[union-attr]


def test_a_long_frame_of_a_new_user_is_taken_by_a_lagging_node(lagging_with_tls: tuple[Lagging, Place]) -> None:
    """A stranger's frames are short, and the certificate belongs to a stranger as far as the node knows."""
    lagging, place = lagging_with_tls
    held = place.authority.client("late")
    secured = shake(lagging.address, context_of(place.authority, held, CLIENT_PROTOCOL))
    with RawClient(lagging.url, over=secured) as client:
        lagging.fall_behind()
        lagging.leader.auth.put_user("late")
        lagging.leader.auth.bind("late", "a")
        client.encoder.session = SESSION
        client.send(client.encoder.command(verbs.put("a/long", bytes(100_000))))
        lagging.catch_up()
        assert client.answer()[1] == Status.SESSION_UNKNOWN  # decided where all commands are
        client.open_session()
        assert client.ask(client.encoder.command(verbs.put("a/long", bytes(100_000))))[0] == Status.OK
        assert client.ask(client.encoder.get(b"b", 0, False))[0] == Status.PERMISSION_DENIED
