"""Dashboards of clusters inside the test's own process, and visitors that ask them as a browser would."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

import raftmeta
from raftmeta import dashboard
from tests.node.nodes import QUICK
from tests.processes.waiting import free_addresses, wait_until

ANSWER_S = 30.0
MARKUP = "<script>alert('c')</script>"
NAMES = ("a", "b", MARKUP)


@contextlib.contextmanager
def named_nodes(folder: Path, names: tuple[str, ...] = NAMES) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    """Ready nodes of any names, and the URL of their clients."""
    places, clients = free_addresses(len(names)), free_addresses(len(names))
    peers = dict(zip(names, places, strict=True))
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        nodes = {}
        for number, (name, address) in enumerate(zip(names, clients, strict=True)):
            node = raftmeta.Node(
                name,
                peers=peers,
                data_dir=folder / str(number),
                client_listen=address,
                config=raftmeta.Config(**QUICK),
            )
            stack.callback(node.close, transfer=False)
            nodes[name] = node.start()
        for node in nodes.values():
            node.ready(ANSWER_S)
        yield nodes, "raft://" + ",".join(clients)


class Visitor:
    """A browser without a screen: it keeps the cookie, and sends the token of its session."""

    def __init__(self, url: str, **options: Any) -> None:
        self.http = httpx.Client(base_url=url, timeout=ANSWER_S, trust_env=False, **options)
        self.csrf = ""

    def enter(self) -> dict[str, Any]:
        """What the page asks first."""
        return self._took(self.http.get("api/session"))

    def login(self, **proof: str) -> dict[str, Any]:
        return self._took(self.http.post("api/login", json=proof))

    def _took(self, answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        self.csrf = told.get("csrf", "")
        return told

    def ask(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self.http.get(f"api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def change(self, csrf: str | None = None, **told: Any) -> httpx.Response:
        headers = {"Raftmeta-Csrf": self.csrf if csrf is None else csrf}
        return self.http.post("api/members", json=told, headers=headers)

    @contextlib.contextmanager
    def listening(self, path: str, **query: Any) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
        """The events of a stream, by name."""
        with self.http.stream("GET", f"api/live/{path}", params=query) as answer:
            assert answer.status_code == 200
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield _events(answer)

    def until(self, path: str, event: str, is_seen: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first event of a stream that is as wanted; a read that waits for too long fails."""
        with self.listening(path) as events:
            return next(told for name, told in events if name == event and is_seen(told))


def _events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


@contextlib.contextmanager
def visiting(url: str, **settings: Any) -> Iterator[Visitor]:
    """A visitor of a new dashboard of this cluster, which answers."""
    with dashboard.serve(url, free_addresses(1)[0], **settings) as server:
        with contextlib.closing(Visitor(server.url).http) as first:
            wait_until(lambda: answers(first), timeout_s=ANSWER_S, what="the dashboard")
        visitor = Visitor(server.url)
        with contextlib.closing(visitor.http):
            yield visitor


def answers(http: httpx.Client) -> bool:
    """Whether the page is there."""
    try:
        return http.get("").status_code == 200
    except httpx.HTTPError:
        return False
