"""REST servers for tests, over nodes of this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx

from raftmeta import rest
from tests.client.nodes import serving
from tests.processes.waiting import free_addresses, wait_until

START_S = 30.0


@contextlib.contextmanager
def asking(address: str) -> Iterator[httpx.Client]:
    """A client of a server that answers."""
    with httpx.Client(base_url=f"http://{address}", timeout=START_S, trust_env=False) as client:
        wait_until(lambda: answers(client), timeout_s=START_S, what=f"an answer of {address}")
        yield client


def answers(client: httpx.Client) -> bool:
    try:
        return bool(client.get("/v1/status").json()["is_ready"])
    except (httpx.HTTPError, KeyError):
        return False


@contextlib.contextmanager
def own_server(folder: Path, *, names: str = "a") -> Iterator[str]:
    """The addresses of one server for each of some nodes."""
    with serving(folder, names=names) as (_nodes, url), contextlib.ExitStack() as stack:
        places = url.removeprefix("raft://").split(",")
        addresses = free_addresses(len(places))
        for place, address in zip(places, addresses, strict=True):
            stack.enter_context(rest.serve(f"raft://{place}", address))
        yield ",".join(addresses)
