"""Handshakes of TLS with the clients' port of a node: connect, shake hands, and close.

A handshake counts when the node counts it. It is resumed by a ticket of the connection before, or shows certificates.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from pathlib import Path

PROTOCOL = "raftmeta-client/1"  # docs/formats.md
TICKET_S = 5.0  # for the node to send one


def context_of(place: Path) -> ssl.SSLContext:
    """As a client with the files in this folder has it. place: of a client, by raftmeta.security.pki."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names of raftmeta are no host names; the node is this benchmark's own
    context.load_verify_locations(place / "authorities.pem")
    context.load_cert_chain(place / "certificate.pem", place / "key.pem")
    context.set_alpn_protocols([PROTOCOL])
    return context


def shake(address: str, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    """One handshake; the ticket that it brought."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, session=session) as secured,
    ):
        # The ticket comes behind the handshake, and shows that the node has ended it, too.
        secured.setblocking(False)
        select.select([secured], [], [], TICKET_S)
        with contextlib.suppress(ssl.SSLWantReadError):
            secured.recv(1)
        return secured.session


def shake_many(address: str, place: Path, count: int, *, threads: int, is_resumed: bool) -> None:
    """So many handshakes, by several threads at once."""

    def work() -> None:
        context = context_of(place)
        session = shake(address, context, None) if is_resumed else None
        for _ in range(count // threads - is_resumed):
            found = shake(address, context, session)
            session = found if is_resumed else None

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
