"""As much of ZooKeeper's client protocol as makes nodes of every kind: enough to fill a server.

Requests may be sent without waiting for their answers; answers come in order.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Self

OPEN_ACL = ((31, "world", "anyone"),)
CREATE, DELETE, GET_DATA, SET_DATA, SET_ACL, SYNC, CHECK, MULTI = 1, 2, 4, 5, 7, 9, 13, 14
CREATE_2, CREATE_CONTAINER, CREATE_TTL, CLOSE = 15, 19, 21, -11
EPHEMERAL, SEQUENTIAL, CONTAINER, TTL = 1, 2, 4, 5
Acl = Iterable[tuple[int, str, str]]


def text(value: str) -> bytes:
    return data(value.encode())


def data(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def rights(acl: Acl) -> bytes:
    entries = list(acl)
    body = b"".join(struct.pack(">i", entry[0]) + text(entry[1]) + text(entry[2]) for entry in entries)
    return struct.pack(">i", len(entries)) + body


def create(path: str, value: bytes | None, *, flags: int = 0, acl: Acl = OPEN_ACL) -> bytes:
    return text(path) + data(value) + rights(acl) + struct.pack(">i", flags)


def create_ttl(path: str, value: bytes, ttl_ms: int) -> bytes:
    return create(path, value, flags=TTL) + struct.pack(">q", ttl_ms)


def set_data(path: str, value: bytes | None) -> bytes:
    return text(path) + data(value) + struct.pack(">i", -1)


def delete(path: str) -> bytes:
    return text(path) + struct.pack(">i", -1)


class ZooKeeperClient:
    """One session."""

    def __init__(self, port: int, *, timeout_ms: int = 30_000) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._stream = self._socket.makefile("rwb")
        self._count = 0
        self._send(struct.pack(">iqiq", 0, 0, timeout_ms, 0) + data(bytes(16)) + b"\0")
        _, self.timeout_ms, self.session = struct.unpack_from(">iiq", self._receive())

    def _send(self, frame: bytes) -> None:
        self._stream.write(struct.pack(">i", len(frame)) + frame)
        self._stream.flush()

    def _receive(self) -> bytes:
        (length,) = struct.unpack(">i", self._stream.read(4))
        return self._stream.read(length)

    def ask(self, kind: int, body: bytes) -> tuple[int, bytes]:
        """(error, answer) of one request."""
        return self.ask_all([(kind, body)])[0]

    def do(self, kind: int, body: bytes) -> bytes:
        """The answer of a request that must succeed."""
        error, answer = self.ask(kind, body)
        assert error == 0, error
        return answer

    def ask_all(self, requests: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """All are sent before the first answer is looked at: no more of them than the server's window."""
        sent = 0
        for kind, body in requests:
            self._count += 1
            frame = struct.pack(">ii", self._count, kind) + body
            self._stream.write(struct.pack(">i", len(frame)) + frame)
            sent += 1
        self._stream.flush()
        answers = []
        for _ in range(sent):
            frame = self._receive()
            _, _, error = struct.unpack_from(">iqi", frame)
            answers.append((error, frame[16:]))
        return answers

    def multi(self, parts: Iterable[tuple[int, bytes]]) -> bool:
        """All parts together: were they done?"""
        body = b"".join(struct.pack(">i?i", kind, False, -1) + part for kind, part in parts)
        answer = self.do(MULTI, body + struct.pack(">i?i", -1, True, -1))
        (kind,) = struct.unpack_from(">i", answer)
        return kind != -1  # one that failed is answered with an error for each of its parts

    def close(self) -> None:
        """End the session: its ephemeral nodes go with it."""
        self._count += 1
        self._send(struct.pack(">ii", self._count, CLOSE))
        self._receive()
        self.drop()

    def drop(self) -> None:
        """End the connection only."""
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
