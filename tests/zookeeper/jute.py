"""ZooKeeper's protocol a second time, as plain Python: what the codec must read and write (zookeeper.jute)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Acl = tuple[int, bytes, bytes]
OPEN: list[Acl] = [(31, b"world", b"anyone")]
STAT = struct.Struct(">qqqqiiiqiiq")
STORED_STAT = struct.Struct("<QQQQiiiQiiQ")  # wire/znodes ZnodeStat


@dataclass
class Request:
    """One request with every field that any kind has."""

    opcode: int
    path: bytes = b""
    data: bytes | None = b""
    acl: Sequence[Acl] = ()
    flags: int = 0
    ttl_ms: int = 0
    version: int = 0
    is_watching: bool = False
    mode: int = 0
    zxid: int = 0
    scheme: bytes = b""
    watches: dict[str, list[bytes]] = field(default_factory=dict)
    operations: Sequence[Request] = ()
    servers: tuple[bytes | None, ...] = (b"", None, b"server.1=a:1:2")
    xid: int = 7


def integer(value: int) -> bytes:
    return struct.pack(">i", value)


def long(value: int) -> bytes:
    return struct.pack(">q", value)


def buffer(value: bytes | None) -> bytes:
    return integer(-1) if value is None else integer(len(value)) + value


def vector(elements: Iterable[bytes]) -> bytes:
    whole = list(elements)
    return integer(len(whole)) + b"".join(whole)


def acl_vector(acl: Iterable[Acl]) -> bytes:
    return vector(integer(perms) + buffer(scheme) + buffer(who) for perms, scheme, who in acl)


def _created(one: Request) -> bytes:
    return buffer(one.path) + buffer(one.data) + acl_vector(one.acl) + integer(one.flags)


def _watched(one: Request, *names: str) -> bytes:
    return long(one.zxid) + b"".join(vector(map(buffer, one.watches.get(name, []))) for name in names)


def body(one: Request) -> bytes:
    """The fields of a request, without its header."""
    path = buffer(one.path)
    if one.opcode in (1, 15, 19):
        return _created(one)
    if one.opcode == 21:
        return _created(one) + long(one.ttl_ms)
    if one.opcode in (2, 13):
        return path + integer(one.version)
    if one.opcode in (3, 4, 8, 12):
        return path + bytes([one.is_watching])
    if one.opcode == 5:
        return path + buffer(one.data) + integer(one.version)
    if one.opcode == 7:
        return path + acl_vector(one.acl) + integer(one.version)
    if one.opcode in (6, 9, 103, 104):
        return path
    if one.opcode in (17, 18, 106):
        return path + integer(one.mode)
    if one.opcode in (14, 22):
        return multi(one.operations)
    if one.opcode == 16:
        return b"".join(map(buffer, one.servers)) + long(one.zxid)
    if one.opcode == 100:
        return integer(one.mode) + buffer(one.scheme) + buffer(one.data)
    if one.opcode == 101:
        return _watched(one, "data", "exist", "child")
    if one.opcode == 105:
        return _watched(one, "data", "exist", "child", "persistent", "recursive")
    return buffer(one.data) if one.opcode == 102 else b""


def multi(operations: Iterable[Request]) -> bytes:
    heads = [integer(one.opcode) + b"\x00" + integer(-1) + body(one) for one in operations]
    return b"".join(heads) + integer(-1) + b"\x01" + integer(-1)


def request(one: Request) -> bytes:
    """A request with its header, without the length of the frame."""
    return integer(one.xid) + integer(one.opcode) + body(one)


def connect(*, zxid: int = 0, timeout_ms: int = 10_000, session: int = 0, password: bytes = bytes(16)) -> bytes:
    """A connect request without the byte for read-only sessions."""
    return integer(0) + long(zxid) + integer(timeout_ms) + long(session) + buffer(password)


def reply(xid: int, zxid: int, error: int, tail: bytes = b"") -> bytes:
    whole = integer(xid) + long(zxid) + integer(error) + tail
    return integer(len(whole)) + whole


def result(opcode: int, tail: bytes) -> bytes:
    return integer(opcode) + b"\x00" + integer(0) + tail


def failed(error: int) -> bytes:
    return integer(-1) + b"\x00" + integer(error) + integer(error)


END = integer(-1) + b"\x01" + integer(-1)
