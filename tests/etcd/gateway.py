"""Nodes with an etcd door, and a client of its JSON gateway that shows each answer as it came."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until

WAIT_S = 30.0


@contextlib.contextmanager
def doors(
    folder: Path, *, names: str = "a", **settings: Any
) -> Iterator[tuple[dict[str, raftmeta.Node], dict[str, int]]]:
    """Ready nodes with a door each, and the ports of the doors."""
    ports = free_ports(2 * len(names))
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
    at = dict(zip(names, ports[len(names) :], strict=True))
    config = raftmeta.Config(**{**QUICK, **settings})
    with contextlib.ExitStack() as stack:
        nodes = {}
        for name in names:
            node = raftmeta.Node(
                name, peers=peers, data_dir=folder / name, etcd_listen=f"127.0.0.1:{at[name]}", config=config
            )
            stack.callback(node.close, transfer=False)
            nodes[name] = node.start()
        for node in nodes.values():
            node.ready(WAIT_S)
        wait_until(lambda: all(map(is_serving, at.values())), timeout_s=WAIT_S, what="the doors to serve")
        yield nodes, at


def is_serving(port: int) -> bool:
    with Gateway(port) as etcd:
        return etcd.look("/health")[0] == http.client.OK


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def unb64(text: str) -> bytes:
    return base64.b64decode(text)


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.code = body.get("code")
        self.message = body.get("message")


class Gateway:
    """Requests on one connection, one after the other."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(self, path: str, **request: Any) -> Any:
        self._connection.request("POST", f"/v3/{path}", body=json.dumps(request).encode())
        answer = self._connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != http.client.OK:
            raise Refused(answer.status, body)
        return body

    def look(self, target: str) -> tuple[int, Any]:
        self._connection.request("GET", target)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def put(self, key: bytes, value: bytes, **more: Any) -> int:
        """The revision."""
        return int(self.ask("kv/put", key=b64(key), value=b64(value), **more)["header"]["revision"])

    def delete(self, key: bytes, end: bytes = b"") -> int:
        return int(self.ask("kv/deleterange", key=b64(key), range_end=b64(end))["header"]["revision"])

    def values(self, key: bytes, end: bytes = b"") -> dict[bytes, bytes]:
        found = self.ask("kv/range", key=b64(key), range_end=b64(end)).get("kvs", ())
        return {unb64(kv["key"]): unb64(kv.get("value", "")) for kv in found}

    def revision(self) -> int:
        return int(self.ask("kv/range", key=b64(b"\0"), count_only=True)["header"]["revision"])


class Stream:
    """A call whose requests and answers are streams, on a connection of its own."""

    def __init__(self, port: int, path: str, *requests: dict[str, Any]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        head = f"POST /v3/{path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._socket.sendall(head.encode())
        self._answer: http.client.HTTPResponse | None = None
        for request in requests:
            self.send(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is not None:
            self._answer.close()
        self._socket.close()

    def send(self, request: dict[str, Any]) -> None:
        text = json.dumps(request).encode()
        self._socket.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")

    def end(self) -> None:
        """No more requests."""
        self._socket.sendall(b"0\r\n\r\n")

    def take(self) -> Any:
        """The next answer; None: there is no more."""
        if self._answer is None:
            self._answer = http.client.HTTPResponse(self._socket)
            self._answer.begin()
        line = self._answer.readline()
        if not line:
            return None
        told = json.loads(line)
        return told.get("result", told)


def create(key: bytes, end: bytes = b"", **more: Any) -> dict[str, Any]:
    return {"create_request": {"key": b64(key), "range_end": b64(end), **more}}


def events_of(answer: dict[str, Any]) -> list[tuple[str, bytes, bytes, int]]:
    """(type, key, value, revision) of each."""
    return [
        (
            event.get("type", "PUT"),
            unb64(event["kv"]["key"]),
            unb64(event["kv"].get("value", "")),
            int(event["kv"]["mod_revision"]),
        )
        for event in answer.get("events", ())
    ]


def take_events(stream: Stream, count: int) -> list[tuple[str, bytes, bytes, int]]:
    """So many events, of as many answers as they come in."""
    taken: list[tuple[str, bytes, bytes, int]] = []
    while len(taken) < count:
        taken += events_of(stream.take())
    return taken
