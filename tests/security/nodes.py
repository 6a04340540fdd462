"""Nodes with TLS inside the test's own process, and connections to their ports by hand."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports
from tests.security.certificates import Authority, Held

PEER_PROTOCOL = "raftmeta-peer/1"
CLIENT_PROTOCOL = "raftmeta-client/1"


class Place:
    """A cluster to be: its addresses, its authority, and a certificate for each node."""

    def __init__(self, folder: Path, names: str = "abc", **settings: Any) -> None:
        ports = free_ports(2 * len(names))
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
        self.clients = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports[len(names) :], strict=True)}
        self.held = {name: self.authority.node(name) for name in names}
        self.config = raftmeta.Config(**{**QUICK, **settings})
        self.url = "raft://" + ",".join(self.clients.values())

    def node(self, name: str, tls: raftmeta.Tls | None, **arguments: Any) -> raftmeta.Node:
        return raftmeta.Node(
            name,
            peers=self.peers,
            data_dir=self.folder / name,
            client_listen=self.clients[name],
            config=self.config,
            tls=tls,
            **arguments,
        )

    def tls(self, name: str, **settings: Any) -> raftmeta.Tls:
        return self.authority.tls(self.held[name], **settings)

    def client_tls(self, **settings: Any) -> raftmeta.Tls:
        return self.authority.tls(self.authority.client(), **settings)


@contextlib.contextmanager
def secure_cluster(place: Place, **settings: Any) -> Iterator[dict[str, raftmeta.Node]]:
    """All nodes of the place, ready, with TLS and these settings of it."""
    with contextlib.ExitStack() as stack:
        nodes = {name: place.node(name, place.tls(name, **settings)) for name in place.peers}
        for node in nodes.values():
            stack.callback(node.close, transfer=False)
            node.start()
        for node in nodes.values():
            node.ready(30)
        yield nodes


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def context_of(authority: Authority, held: Held | None, protocol: str | None) -> ssl.SSLContext:
    """What a stranger with these papers would use: it trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    if held is not None:
        context.load_cert_chain(held.certificate, held.key)
    return context


def refusal_of(address: str, context: ssl.SSLContext, said: bytes = b"") -> str:
    """What the node answers to a handshake that it refuses: the words of the alert, joined by _, or "closed"."""
    with connect(address) as plain:
        try:
            with context.wrap_socket(plain) as secured:
                secured.sendall(said)
                while secured.recv(4096):
                    pass
        except ssl.SSLError as error:
            return f"{error}".upper().replace(" ", "_")
        except OSError:
            return "closed"
    return "closed"


def shake(address: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection whose handshake the node has accepted as far as this side can know."""
    return context.wrap_socket(connect(address))


class Proxy:
    """Stands before an address, passes bytes on, keeps them, and ends connections when it is told to."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.seen = bytearray()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.drop()
        for thread in self._threads:
            thread.join()

    def drop(self) -> None:
        """End every connection."""
        for connection in [*self._open]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._server.accept()
                try:
                    there = connect(self._target)
                except OSError:
                    here.close()
                    continue
                there.settimeout(None)
                self._open += [here, there]
                self._start(self._pass_on, here, there)
                self._start(self._pass_on, there, here)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.seen += data
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()
