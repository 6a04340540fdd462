"""What a port remembers from one handshake to the next: who signed its lists of revoked ones, and its tickets.

docs/security.md "Details". Nothing that is remembered lets anybody in who would not be let in without it.
"""

from __future__ import annotations

import contextlib
import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import raftmeta
from tests.processes.waiting import wait_until
from tests.security.certificates import Authority, Held
from tests.security.nodes import CLIENT_PROTOCOL, Place, connect, context_of, secure_cluster


@contextlib.contextmanager
def one_node(place: Place) -> Iterator[raftmeta.Node]:
    with secure_cluster(place, revoked=place.authority.revoked) as nodes:
        yield nodes["a"]


def context(place: Place, held: Held) -> ssl.SSLContext:
    return context_of(place.authority, held, CLIENT_PROTOCOL)


def is_let_in(place: Place, papers: ssl.SSLContext) -> bool:
    """The ticket comes behind the handshake; one who is refused is told by an alert, or by the end."""
    with contextlib.suppress(OSError), papers.wrap_socket(connect(place.clients["a"])) as secured:
        return ticket_of(secured) is not None
    return False


def read_again(node: raftmeta.Node) -> None:
    """Have the files read, and wait until the clients' port uses them."""
    before = node.metrics()["client_tls_readings"]
    node.reload_tls()
    wait_until(lambda: node.metrics()["client_tls_readings"] > before, timeout_s=20, what="the files to be read")


def ticket_of(secured: ssl.SSLSocket) -> ssl.SSLSession | None:
    """Read until the ticket is here; nothing else comes before this side speaks. None: the node refused."""
    secured.settimeout(0.05)

    def has_come() -> bool:
        with contextlib.suppress(TimeoutError):
            secured.recv(1)
        return secured.session is not None and secured.session.has_ticket

    wait_until(has_come, timeout_s=20, what="the ticket")
    return secured.session


def is_resumed(place: Place, papers: ssl.SSLContext, ticket: ssl.SSLSession | None) -> bool:
    with papers.wrap_socket(connect(place.clients["a"]), session=ticket) as secured:
        ticket_of(secured)  # the node has let it in
        return bool(secured.session_reused)


# --- lists of revoked certificates ------------------------------------------------------------------------------------


def test_a_list_that_ends_while_it_is_in_force_lets_nobody_in_from_then_on(tmp_path: Path) -> None:
    """RFC 5280 5.1.2.5. The signature was verified before; the time is looked at in each handshake."""
    place = Place(tmp_path, "a")
    papers = context(place, place.authority.client())
    with one_node(place) as node:

        def is_let_in_until(end_s: int) -> bool:
            place.authority.write_list(end=datetime.timedelta(seconds=end_s))
            read_again(node)
            return is_let_in(place, papers)

        assert any(is_let_in_until(end_s) for end_s in (3, 10, 30))  # a machine with other work may be late
        wait_until(lambda: not is_let_in(place, papers), timeout_s=60, what="a handshake to be refused")
        place.authority.write_list()
        read_again(node)
        assert is_let_in(place, papers)


def test_a_list_that_a_namesake_of_the_authority_signed_lets_nobody_in(tmp_path: Path) -> None:
    place = Place(tmp_path, "a")
    papers = context(place, place.authority.client())
    namesake = Authority(tmp_path / "namesake", place.authority.name)
    with one_node(place) as node:
        assert is_let_in(place, papers)
        place.authority.revoked.write_bytes(namesake.revoked.read_bytes())
        read_again(node)
        assert not is_let_in(place, papers)


def test_each_client_is_looked_up_in_a_list_that_was_verified_for_another(tmp_path: Path) -> None:
    place = Place(tmp_path, "a")
    good, gone = place.authority.client("good"), place.authority.client("gone")
    place.authority.revoke(gone)
    with one_node(place):
        assert is_let_in(place, context(place, good))
        assert not is_let_in(place, context(place, gone))
        assert is_let_in(place, context(place, good))


# --- tickets ----------------------------------------------------------------------------------------------------------


def test_a_ticket_shortens_the_next_handshake_whatever_became_of_the_connection(tmp_path: Path) -> None:
    """RFC 8446 2.2. A connection that ends without a goodbye is no fraud."""
    place = Place(tmp_path, "a")
    papers = context(place, place.authority.client())
    with one_node(place) as node:
        with papers.wrap_socket(connect(place.clients["a"])) as secured:
            ticket = ticket_of(secured)
        assert is_resumed(place, papers, ticket)
        assert is_resumed(place, papers, ticket)
        wait_until(lambda: node.metrics()["client_tls_handshakes_resumed"] == 2, timeout_s=20, what="two to be counted")


def test_a_ticket_ends_with_the_reading_of_the_files(tmp_path: Path) -> None:
    place = Place(tmp_path, "a")
    papers = context(place, place.authority.client())
    with one_node(place) as node:
        with papers.wrap_socket(connect(place.clients["a"])) as secured:
            ticket = ticket_of(secured)
        read_again(node)
        assert not is_resumed(place, papers, ticket)


def test_a_ticket_of_a_client_that_was_revoked_opens_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, "a")
    held = place.authority.client()
    papers = context(place, held)
    with one_node(place) as node:
        with papers.wrap_socket(connect(place.clients["a"])) as secured:
            ticket = ticket_of(secured)
        place.authority.revoke(held)
        read_again(node)
        with contextlib.suppress(OSError), papers.wrap_socket(connect(place.clients["a"]), session=ticket) as secured:
            assert secured.recv(1) == b""
