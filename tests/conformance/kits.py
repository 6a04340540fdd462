"""Clusters of each back end for the conformance suite, all on this machine."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import raftmeta
from raftmeta.conformance import Kit

READY_S = 40.0


def free_addresses(count: int) -> list[str]:
    """Loopback addresses that nobody uses just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


@contextlib.contextmanager
def pysyncobj_kit() -> Iterator[Kit]:
    """Three nodes of PySyncObj: two here, the third place is for the processes that are killed."""
    addresses = free_addresses(3)
    urls = [
        f"pysyncobj://{one}?ttl_s=2&partners={','.join(other for other in addresses if other != one)}"
        for one in addresses
    ]
    with contextlib.ExitStack() as stack:
        with ThreadPoolExecutor(2) as pool:  # none is ready before a second one runs
            backends = list(pool.map(lambda url: raftmeta.connect(url, timeout_s=READY_S), urls[:2]))
        for backend in backends:
            stack.enter_context(backend)
        yield Kit(backends, party_url=urls[2])
