"""Nodes with a ZooKeeper door, and a client that shows each byte of the protocol."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import raftmeta
from tests.node.doors import nodes_with_doors

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN = 1, 2, 3, 4, 5, 8
SYNC, PING, CLOSE, SET_WATCHES, ADD_WATCH, REMOVE_WATCHES = 9, 11, -11, 101, 106, 18
GET_EPHEMERALS = 103
EVENT_XID, PING_XID, SET_WATCHES_XID = -1, -2, -8
PERSISTENT, EPHEMERAL, SEQUENTIAL = 0, 1, 2
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
LEVEL_OF_ZNODES = 4
OPEN_ACL = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")


@contextlib.contextmanager
def doors(
    folder: Path,
    *,
    names: str = "a",
    tls: raftmeta.Tls | None = None,
    audit: raftmeta.Audit | None = None,
    **settings: Any,
) -> Iterator[tuple[dict[str, raftmeta.Node], dict[str, int]]]:
    """Ready nodes with a door each, and the ports of the doors."""
    with nodes_with_doors(
        folder, door="zookeeper_listen", names=names, settings=settings, tls=tls, audit=audit
    ) as made:
        yield made


def text(value: bytes) -> bytes:
    """A ustring or buffer."""
    return struct.pack(">i", len(value)) + value


def strings(*values: bytes) -> bytes:
    """A vector of ustrings."""
    return struct.pack(">i", len(values)) + b"".join(text(value) for value in values)


class Reply(NamedTuple):
    """One frame of the server."""

    xid: int
    zxid: int
    error: int
    body: bytes

    @property
    def event(self) -> tuple[int, bytes]:
        """Type and path of an event."""
        kind, _, length = struct.unpack(">iii", self.body[:12])
        return kind, self.body[12 : 12 + length]


class RawClient:
    """One connection, request by request."""

    def __init__(
        self,
        port: int,
        *,
        session: int = 0,
        password: bytes = b"\0" * 16,
        timeout_ms: int = 10_000,
        zxid: int = 0,
        read_only: bool = False,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.bytes = b""
        self.xid = 0
        self.send(struct.pack(">iqiq", 0, zxid, timeout_ms, session) + text(password) + bytes([read_only]))
        try:
            frame = self.frame()
        except BaseException:
            self.socket.close()
            raise
        _, self.timeout_ms, self.session = struct.unpack(">iiq", frame[:16])
        self.password = frame[20:36]
        self.is_read_only = frame[36:37] == b"\1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.socket.close()

    def send(self, body: bytes) -> None:
        self.socket.sendall(text(body))

    def frame(self) -> bytes:
        """The next frame; ConnectionError if the server has closed."""
        while True:
            if len(self.bytes) >= 4:
                length = struct.unpack(">i", self.bytes[:4])[0]
                if len(self.bytes) >= 4 + length:
                    frame, self.bytes = self.bytes[4 : 4 + length], self.bytes[4 + length :]
                    return frame
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("closed")
            self.bytes += more

    def reply(self) -> Reply:
        frame = self.frame()
        return Reply(*struct.unpack(">iqi", frame[:16]), frame[16:])

    def ask(self, opcode: int, body: bytes = b"", *, xid: int | None = None) -> int:
        """Send a request and do not wait; its xid."""
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send(struct.pack(">ii", xid, opcode) + body)
        return xid

    def call(self, opcode: int, body: bytes = b"", *, xid: int | None = None) -> Reply:
        """Send a request; its reply, which must be the next frame."""
        xid = self.ask(opcode, body, xid=xid)
        reply = self.reply()
        assert reply.xid == xid, reply
        return reply

    def create(self, path: bytes, data: bytes = b"", flags: int = PERSISTENT) -> Reply:
        return self.call(CREATE, text(path) + text(data) + OPEN_ACL + struct.pack(">i", flags))

    def set_data(self, path: bytes, data: bytes, version: int = -1) -> Reply:
        return self.call(SET_DATA, text(path) + text(data) + struct.pack(">i", version))

    def get_data(self, path: bytes, *, watch: bool = False) -> Reply:
        return self.call(GET_DATA, text(path) + bytes([watch]))

    def exists(self, path: bytes, *, watch: bool = False) -> Reply:
        return self.call(EXISTS, text(path) + bytes([watch]))

    def children(self, path: bytes, *, watch: bool = False) -> list[bytes]:
        reply = self.call(GET_CHILDREN, text(path) + bytes([watch]))
        assert reply.error == 0, reply
        names, at = [], 4
        for _ in range(struct.unpack(">i", reply.body[:4])[0]):
            length = struct.unpack(">i", reply.body[at : at + 4])[0]
            names.append(reply.body[at + 4 : at + 4 + length])
            at += 4 + length
        return names

    def is_closed(self) -> bool:
        """Whether the server closes the connection, after whatever it still sends."""
        try:
            while True:
                self.frame()
        except (ConnectionError, TimeoutError) as error:
            return not isinstance(error, TimeoutError)


def word(port: int, name: bytes) -> bytes:
    """The answer to a word of four letters."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(name)
        found = b""
        while more := connection.recv(1 << 16):
            found += more
        return found


def open_door(
    name: str, peers: dict[str, str], folder: str, port: int, settings: dict[str, Any] | None = None
) -> raftmeta.Node:
    """In a process of its own: a started node with a door."""
    node = raftmeta.Node(
        name,
        peers=peers,
        data_dir=folder,
        zookeeper_listen=f"127.0.0.1:{port}",
        config=raftmeta.Config(**({"zookeeper_tick_s": 0.4} | (settings or {}))),
    )
    return node.start()
