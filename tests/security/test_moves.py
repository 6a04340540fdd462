"""A cluster moves from plain connections to TLS and back, one node after another, while writes go on.

docs/security.md "Moving a running cluster".
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

import raftmeta
from tests.processes.waiting import wait_until
from tests.security.certificates import Authority
from tests.security.nodes import Place


class Writer:
    """A client that counts a key up all the time; one that is refused or doubtful goes on. As a context it is ended."""

    def __init__(self, url: str, tls: raftmeta.Tls | None) -> None:
        self.url = url
        self.tls = tls
        self.written = 0
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with raftmeta.Client(self.url, tls=self.tls) as client:
            while not self._ended.is_set():
                try:
                    client.put("k", f"{self.written}", timeout_s=20)
                    self.written += 1
                except raftmeta.RaftmetaError as error:
                    self.errors.append(str(error))

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def goes_on(self) -> None:
        """Wait for ten more writes."""
        more = self.written + 10
        wait_until(lambda: self.written >= more, timeout_s=30, what=lambda: f"writes to go on; {self.errors[-3:]}")


def roll(place: Place, nodes: dict[str, raftmeta.Node], tls: dict[str, raftmeta.Tls | None], writer: Writer) -> None:
    """Start each node again with these settings, the next one when all are ready and connected to all."""
    for name in nodes:
        nodes[name].close()
        nodes[name] = place.node(name, tls[name]).start()
        for node in nodes.values():
            node.ready(30)
        wait_until(
            lambda: all(one.is_connected for node in nodes.values() for one in node.status().members),
            timeout_s=30,
            what=lambda: f"all connections; {[node.status().problems for node in nodes.values()]}",
        )
        writer.goes_on()


def test_from_plain_to_tls_and_back(tmp_path: Path) -> None:
    """Two rounds of restarts each way. Clients move between them, and nothing fails on the way."""
    place = Place(tmp_path)
    plain: dict[str, raftmeta.Tls | None] = dict.fromkeys("abc")
    both: dict[str, raftmeta.Tls | None] = {name: place.tls(name, accept_plain=True) for name in "abc"}
    strict: dict[str, raftmeta.Tls | None] = {name: place.tls(name) for name in "abc"}
    with contextlib.ExitStack() as stack:
        nodes = {name: place.node(name, None).start() for name in "abc"}
        stack.callback(lambda: [node.close(transfer=False) for node in nodes.values()])
        for node in nodes.values():
            node.ready(30)
        with Writer(place.url, None) as writer:
            writer.goes_on()
            roll(place, nodes, both, writer)
        with Writer(place.url, place.client_tls()) as writer:
            roll(place, nodes, strict, writer)
            assert all(node.metrics()["tls_connections_plain"] == 0 for node in nodes.values())
            assert all(node.metrics()["tls_handshakes"] >= 2 for node in nodes.values())
            roll(place, nodes, both, writer)
        with Writer(place.url, None) as writer:
            roll(place, nodes, plain, writer)
            assert not writer.errors


def test_a_wrong_certificate_shows_before_plain_connections_end(tmp_path: Path) -> None:
    """Where both are accepted, a certificate of another authority is not hidden by a plain connection."""
    place = Place(tmp_path)
    other = Authority(tmp_path / "other")
    nodes = {
        "a": place.node("a", place.tls("a", accept_plain=True)),
        "b": place.node("b", place.tls("b", accept_plain=True)),
        "c": place.node("c", other.tls(other.node("c"), accept_plain=True)),
    }
    with contextlib.ExitStack() as stack:
        for node in nodes.values():
            stack.callback(node.close, transfer=False)
            node.start()

        def told() -> str:
            return " ".join(problem.text for problem in nodes["a"].status().problems if problem.kind == "tls")

        wait_until(lambda: "no authority of this node signed the certificate of c" in told(), timeout_s=20, what=told)


def test_one_of_them_with_tls_alone_is_told_why(tmp_path: Path) -> None:
    """Neither side says only that nothing connects."""
    place = Place(tmp_path, "ab")
    nodes = {"a": place.node("a", place.tls("a")), "b": place.node("b", None)}
    with contextlib.ExitStack() as stack:
        for node in nodes.values():
            stack.callback(node.close, transfer=False)
            node.start()
        for name, text in (("a", "b ended in the handshake"), ("b", "a wants TLS")):
            wait_until(
                lambda name=name, text=text: text in f"{nodes[name].status().problems}",  # type: ignore[misc]
                timeout_s=20,
                what=lambda name=name: f"{name}: {nodes[name].status().problems}",  # type: ignore[misc]
            )


def test_nothing_but_loopback_without_tls(tmp_path: Path) -> None:
    """Issue 19: as before, and a node that lets plain connections in counts as one without TLS."""
    place = Place(tmp_path, "a")
    arguments = {"peers": {"a": "0.0.0.0:7001"}, "data_dir": tmp_path / "a"}
    for tls in (None, place.tls("a", accept_plain=True)):
        with pytest.raises(raftmeta.ConfigError, match="insecure=True") as caught:
            raftmeta.Node("a", tls=tls, **arguments)
        assert caught.value.field == "listen"
        raftmeta.Node("a", tls=tls, config=raftmeta.Config(insecure=True), **arguments)
    raftmeta.Node("a", tls=place.tls("a"), client_listen="0.0.0.0:7002", **arguments)
