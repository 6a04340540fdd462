"""A session of ZooKeeper's protocol, request by request: it sends exactly what it is told."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from tests.doors.jute import NUMBERS, XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES

OPEN_ACL = ((31, "world", "anyone"),)
EPHEMERAL, SEQUENTIAL, CONTAINER, TTL = 1, 2, 4, 5
ANSWER_S = 30.0
FIXED_XIDS = {"ping": XID_PING, "auth": XID_AUTH, "setWatches": XID_SET_WATCHES, "setWatches2": XID_SET_WATCHES}
Acl = Iterable[tuple[int, str, str]]


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def flag(value: bool) -> bytes:
    return struct.pack(">?", value)


def text(value: str) -> bytes:
    return data(value.encode())


def data(value: bytes | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value


def rights(acl: Acl) -> bytes:
    entries = [number(perms) + text(scheme) + text(who) for perms, scheme, who in acl]
    return number(len(entries)) + b"".join(entries)


def names(paths: Sequence[str]) -> bytes:
    return number(len(paths)) + b"".join(map(text, paths))


def creation(path: str, value: bytes | None = b"", *, flags: int = 0, acl: Acl = OPEN_ACL) -> bytes:
    return text(path) + data(value) + rights(acl) + number(flags)


def at_version(path: str, version: int = -1) -> bytes:
    return text(path) + number(version)


def change(path: str, value: bytes | None, version: int = -1) -> bytes:
    return text(path) + data(value) + number(version)


def look(path: str, *, watch: bool = False) -> bytes:
    return text(path) + flag(watch)


def operations(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """The body of a multi or multiRead."""
    body = b"".join(number(NUMBERS[name]) + flag(False) + number(-1) + part for name, part in parts)
    return body + number(-1) + flag(True) + number(-1)


class RawSession:
    """One connection with its session. session, password: to resume one. read_only: None sends the old, shorter form.

    reply: the frame of the connect reply.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_ms: int = 10_000,
        session: int = 0,
        password: bytes = bytes(16),
        seen_zxid: int = 0,
        read_only: bool | None = False,
    ) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_S)
        self._stream = self._socket.makefile("rb")
        self._xid = 0
        last = b"" if read_only is None else flag(read_only)
        self.send_frame(struct.pack(">iqiq", 0, seen_zxid, timeout_ms, session) + data(password) + last)
        try:
            self.reply = self.receive()
        except (EOFError, OSError):
            self.drop()
            raise
        _, self.timeout_ms, self.session, _ = struct.unpack_from(">iiqi", self.reply)
        self.password = self.reply[20:36]
        self.zxid = seen_zxid

    def send_frame(self, frame: bytes) -> None:
        self._socket.sendall(number(len(frame)) + frame)

    def receive(self) -> bytes:
        """One frame. Raises EOFError when the server has closed the connection."""
        head = self._stream.read(4)
        if len(head) < 4:
            raise EOFError("the server closed the connection")
        return self._stream.read(struct.unpack(">i", head)[0])

    def send(self, kind: str, body: bytes = b"") -> int:
        """The xid of the request."""
        xid = FIXED_XIDS.get(kind, 0)
        if not xid:
            self._xid += 1
            xid = self._xid
        self.send_frame(struct.pack(">ii", xid, NUMBERS[kind]) + body)
        return xid

    def answer(self, xid: int) -> tuple[int, bytes]:
        """(error, body) of a request; events before it are passed over."""
        while True:
            frame = self.receive()
            got, zxid, error = struct.unpack_from(">iqi", frame)
            if got == xid:
                self.zxid = max(self.zxid, zxid)
                return error, frame[16:]
            assert got in (XID_EVENT, XID_PING), f"an answer to {got} where one to {xid} was due"

    def ask_number(self, opcode: int, body: bytes = b"") -> tuple[int, bytes]:
        """A request by its number, also one that is none."""
        self._xid += 1
        self.send_frame(struct.pack(">ii", self._xid, opcode) + body)
        return self.answer(self._xid)

    def ask(self, kind: str, body: bytes = b"") -> tuple[int, bytes]:
        return self.answer(self.send(kind, body))

    def do(self, kind: str, body: bytes = b"") -> bytes:
        """The body of a request that must succeed."""
        error, answer = self.ask(kind, body)
        assert error == 0, f"{kind} was answered with {error}"
        return answer

    def event(self) -> bytes:
        """Wait for the next event; the body."""
        frame = self.receive()
        assert struct.unpack_from(">i", frame)[0] == XID_EVENT, frame
        return frame[16:]

    def close(self) -> None:
        """End the session."""
        self.do("closeSession")
        self.drop()

    def drop(self) -> None:
        """End only the connection."""
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
