"""Clusters of each back end for the conformance suite, all on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import raftmeta
from raftmeta.conformance import Kit
from tests.client.nodes import serving
from tests.processes.waiting import free_addresses

READY_S = 40.0


@contextlib.contextmanager
def opened(urls: list[str], *, party_url: str, has_owners: bool = False) -> Iterator[Kit]:
    """Connect to all of them at once: none is ready before a majority runs."""
    with contextlib.ExitStack() as stack:
        with ThreadPoolExecutor(len(urls)) as pool:
            backends = list(pool.map(lambda url: raftmeta.connect(url, timeout_s=READY_S), urls))
        for backend in backends:
            stack.enter_context(backend)
        yield Kit(backends, party_url=party_url, has_owners=has_owners)


@contextlib.contextmanager
def embedded_kit(folder: Path) -> Iterator[Kit]:
    """Three nodes of raftmeta: two here, the third place is for the processes that are killed."""
    peers = dict(zip("abc", free_addresses(3), strict=True))
    named = ",".join(f"{name}={address}" for name, address in peers.items())
    urls = [f"embedded://{folder / name}?name={name}&peers={named}" for name in peers]
    with opened(urls, party_url=urls[2]) as kit:  # all three are needed once, to found the cluster
        kit.backends.pop().close()
        yield kit


@contextlib.contextmanager
def raft_kit(folder: Path) -> Iterator[Kit]:
    """Clients of three nodes, which are not touched; the processes that are killed are clients too."""
    with serving(folder, names="abc") as (_nodes, url), opened([url, url], party_url=url, has_owners=True) as kit:
        yield kit


@contextlib.contextmanager
def pysyncobj_kit(folder: Path) -> Iterator[Kit]:
    """Three nodes of PySyncObj: two here, the third place is for the processes that are killed."""
    addresses = free_addresses(3)
    urls = [
        f"pysyncobj://{one}?ttl_s=2&partners={','.join(other for other in addresses if other != one)}"
        for one in addresses
    ]
    with opened(urls[:2], party_url=urls[2]) as kit:
        yield kit
