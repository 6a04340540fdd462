"""A process that holds many connections to one node, each of which says a byte a second, and one that works beside it.

The slow ones have said HELLO. Their bytes are the beginning of a megabyte that never comes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from typing import Any

import raftmeta
from benchmarks.load.closed import closed_loop
from raftmeta import aio
from tests.client.crowd import raise_descriptor_limit
from tests.processes.remote import RemoteProcess
from tests.security.processes import client_hello

PERIOD_S = 1.0
FRAME = (1 << 20).to_bytes(4, "little") + bytes(60)
VALUE_BYTES = 256
KEYS = 1000


class Crowd:
    """The slow connections of one process."""

    def __init__(self) -> None:
        raise_descriptor_limit()
        self.connections: list[socket.socket] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, address: str, count: int, papers: dict[str, str]) -> None:
        """Connect, say HELLO, and begin to say a byte a second. papers: of a client with TLS; empty: without."""
        host, _, port = address.rpartition(":")
        context = context_of(papers) if papers else None
        for _ in range(count):
            plain = socket.create_connection((host, int(port)), timeout=30)
            one = plain if context is None else context.wrap_socket(plain)
            one.sendall(client_hello())
            if not one.recv(4096):
                raise ConnectionError("the node refused a slow connection")
            self.connections.append(one)
        self._is_over.clear()
        self._thread = threading.Thread(target=self._say)
        self._thread.start()

    def _say(self) -> None:
        number = 0
        while not self._is_over.wait(PERIOD_S):
            byte = FRAME[number : number + 1]
            number = min(number + 1, len(FRAME) - 1)
            for one in self.connections:
                one.sendall(byte)

    def close(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for one in self.connections:
            one.close()
        self.connections.clear()


def context_of(papers: dict[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(papers["authorities"])
    context.load_cert_chain(papers["certificate"], papers["key"])
    context.set_alpn_protocols(["raftmeta-client/1"])
    return context


def open_slow(crowd: Crowd, address: str, count: int, papers: dict[str, str]) -> None:
    crowd.open(address, count, papers)


def close_slow(crowd: Crowd) -> None:
    crowd.close()


def puts_of_client(
    _crowd: Crowd, url: str, papers: dict[str, str], outstanding: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """Puts of one client in a closed loop; a Sample as a dict."""
    value = b"x" * VALUE_BYTES

    async def work() -> dict[str, Any]:
        async with aio.Client(url, tls=raftmeta.Tls(**papers) if papers else None) as client:
            await client.ready(30)
            return await closed_loop(
                lambda number: client.put(f"k{number % KEYS}", value, timeout_s=30),
                outstanding=outstanding,
                seconds=seconds,
                warmup_s=warmup_s,
            )

    return asyncio.run(work())


def crowd_process(log: Any) -> RemoteProcess:
    """Not started."""
    return RemoteProcess(Crowd, log=log)
