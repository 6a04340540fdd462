"""Requests of ZooKeeper for which kazoo has no verb, in the shape that kazoo sends: type, serialize, deserialize.

A `MultiRead` reads many nodes in one request. A `Multi` makes nodes of all kinds, where kazoo's own makes plain ones.
An `AddWatch` sets a watch that stays and sees a whole tree. An `AclRead` and an `AclWrite` keep data that kazoo's verbs
change: an empty id stays empty. Layouts: zookeeper.jute of ZooKeeper 3.9.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

__all__ = [
    "AclRead",
    "AclWrite",
    "AddWatch",
    "Answer",
    "Kind",
    "Multi",
    "MultiRead",
    "Node",
    "Right",
    "Stat",
    "Step",
    "Sync",
    "created",
    "deleted",
    "owner_of",
    "written",
]

NO_NODE, NO_AUTH = -101, -102
ERROR, CREATE, DELETE, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC = -1, 1, 2, 4, 5, 6, 7, 8, 9
MULTI, CREATE_2, CREATE_CONTAINER, CREATE_TTL, MULTI_READ, ADD_WATCH = 14, 15, 19, 21, 22, 106
PERSISTENT_RECURSIVE = 1  # AddWatchMode
FLAG_CONTAINER, FLAG_TTL = 4, 5  # ZooDefs CreateMode
CONTAINER_OWNER = -(1 << 63)  # EphemeralType CONTAINER_EPHEMERAL_OWNER
TTL_MARK, TTL_BITS = 0xFF, 40  # EphemeralType TTL: the highest byte, and the time below it

_INT = struct.Struct(">i")
_HEADER = struct.Struct(">iBi")  # MultiHeader: type, done, err
_STAT = struct.Struct(">qqqqiiiqiiq")
_DONE = _HEADER.pack(-1, 1, -1)


class Kind(Enum):
    """How long a node lives."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    CONTAINER = "container"
    TTL = "TTL"


class Right(NamedTuple):
    """One entry of a list of rights (ACL)."""

    perms: int
    scheme: str
    id: str


class Stat(NamedTuple):
    """The facts that a server keeps of a node, in the order of the wire.

    owner: of an ephemeral node its session. A real ZooKeeper shows 0 for containers and nodes with a time to live
    (DataNode.getClientEphemeralOwner), so its clients cannot tell them from persistent ones.
    """

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    data_length: int
    children: int
    pzxid: int

    @property
    def kind(self) -> Kind:
        if self.owner == 0:
            return Kind.PERSISTENT
        if self.owner == CONTAINER_OWNER:
            return Kind.CONTAINER
        return Kind.TTL if self.owner >> 56 & 0xFF == TTL_MARK else Kind.EPHEMERAL

    @property
    def ttl_ms(self) -> int:
        return self.owner & (1 << TTL_BITS) - 1 if self.kind is Kind.TTL else 0

    @property
    def name_of_kind(self) -> str:
        """The kind with its time, as the state keeps it."""
        return f"{self.kind.value} {self.ttl_ms}".removesuffix(" 0")

    @property
    def creates(self) -> int:
        """Children that were created ever: the number of the next sequential child (DataNode.copyStat)."""
        return (self.cversion + self.children) // 2


def owner_of(is_container: bool, ttl_ms: int) -> int:
    """The field owner of a container, or of a node with this time to live."""
    if is_container:
        return CONTAINER_OWNER
    return (TTL_MARK << 56 | ttl_ms) - (1 << 64)


class Node(NamedTuple):
    """A node as it was read. data: None is another thing than empty. names: of its children."""

    path: str
    data: bytes | None
    stat: Stat
    names: list[str]


class Step(NamedTuple):
    """One operation of a multi. size: of its bytes on the wire."""

    path: str
    type: int
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body) + _HEADER.size


class Answer(NamedTuple):
    """The answers of a multi. code: 0, or ZooKeeper's number of the error of the step at position."""

    position: int
    code: int


# --- parts of requests ------------------------------------------------------------------------------------------------


def _buffer(value: bytes | None) -> bytes:
    return _INT.pack(-1) if value is None else _INT.pack(len(value)) + value


def _text(value: str) -> bytes:
    return _buffer(value.encode())


def _rights(acl: Sequence[Right]) -> bytes:
    parts = [_INT.pack(right.perms) + _text(right.scheme) + _text(right.id) for right in acl]
    return _INT.pack(len(parts)) + b"".join(parts)


def _read_buffer(raw: bytes, offset: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(raw, offset)
    offset += _INT.size
    return (None, offset) if length < 0 else (bytes(raw[offset : offset + length]), offset + length)


def _read_text(raw: bytes, offset: int) -> tuple[str, int]:
    value, offset = _read_buffer(raw, offset)
    return (value or b"").decode(), offset


def _read_stat(raw: bytes, offset: int) -> tuple[Stat, int]:
    return Stat._make(_STAT.unpack_from(raw, offset)), offset + _STAT.size


def _read_count(raw: bytes, offset: int) -> tuple[int, int]:
    (count,) = _INT.unpack_from(raw, offset)
    return max(count, 0), offset + _INT.size


def created(path: str, data: bytes | None, acl: Sequence[Right], kind: Kind, ttl_ms: int = 0) -> Step:
    """Make a node of any kind but an ephemeral one."""
    types = {Kind.PERSISTENT: CREATE_2, Kind.CONTAINER: CREATE_CONTAINER, Kind.TTL: CREATE_TTL}
    flags = {Kind.PERSISTENT: 0, Kind.CONTAINER: FLAG_CONTAINER, Kind.TTL: FLAG_TTL}[kind]
    body = _text(path) + _buffer(data) + _rights(acl) + _INT.pack(flags)
    return Step(path, types[kind], body + struct.pack(">q", ttl_ms) if kind is Kind.TTL else body)


def written(path: str, data: bytes | None, version: int) -> Step:
    """Replace the data of a node that has this version."""
    return Step(path, SET_DATA, _text(path) + _buffer(data) + _INT.pack(version))


def deleted(path: str) -> Step:
    return Step(path, DELETE, _text(path) + _INT.pack(-1))


# --- requests ---------------------------------------------------------------------------------------------------------


class MultiRead:
    """Data, stat and children of many nodes. The answer has None for a node that is not there, -102 without READ."""

    type = MULTI_READ

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for path in self._paths:
            body = _text(path) + b"\0"
            parts += [_HEADER.pack(GET_DATA, 0, -1), body, _HEADER.pack(GET_CHILDREN, 0, -1), body]
        return b"".join(parts) + _DONE

    def deserialize(self, raw: bytes, offset: int) -> list[Node | int | None]:
        answers: list[Node | int | None] = []
        for path in self._paths:
            code, data, stat = 0, None, None
            names: list[str] = []
            for _ in range(2):
                type, _, _ = _HEADER.unpack_from(raw, offset)
                offset += _HEADER.size
                if type == ERROR:
                    (found,) = _INT.unpack_from(raw, offset)
                    code, offset = code or found, offset + _INT.size
                elif type == GET_DATA:
                    data, offset = _read_buffer(raw, offset)
                    stat, offset = _read_stat(raw, offset)
                else:
                    count, offset = _read_count(raw, offset)
                    names = []
                    for _ in range(count):
                        name, offset = _read_text(raw, offset)
                        names.append(name)
            if code == 0 and stat is not None:
                answers.append(Node(path, data, stat, names))
            else:
                answers.append(None if code == NO_NODE else code)
        return answers


class Multi:
    """Steps that are done all or not at all."""

    type = MULTI

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def serialize(self) -> bytes:
        return b"".join(_HEADER.pack(step.type, 0, -1) + step.body for step in self._steps) + _DONE

    def deserialize(self, raw: bytes, offset: int) -> list[int]:
        """The fields of an Answer: kazoo makes a list of the answer of each multi.

        A refused multi answers an error for each step: 0 before the one that failed (DataTree.processTxn).
        """
        for position in range(len(self._steps)):
            type, _, _ = _HEADER.unpack_from(raw, offset)
            if type != ERROR:
                return [0, 0]
            offset += _HEADER.size
            (code,) = _INT.unpack_from(raw, offset)
            offset += _INT.size
            if code:
                return [position, code]
        return [0, 0]


class AddWatch:
    """A watch on a node and all below it, which stays as long as the connection does."""

    type = ADD_WATCH

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytes:
        return _text(self._path) + _INT.pack(PERSISTENT_RECURSIVE)

    def deserialize(self, _raw: bytes, _offset: int) -> bool:
        return True


class AclRead:
    """The list of rights of a node, with its stat."""

    type = GET_ACL

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        return _text(self.path)

    def deserialize(self, raw: bytes, offset: int) -> tuple[tuple[Right, ...], Stat]:
        count, offset = _read_count(raw, offset)
        acl = []
        for _ in range(count):
            (perms,) = _INT.unpack_from(raw, offset)
            scheme, offset = _read_text(raw, offset + _INT.size)
            id, offset = _read_text(raw, offset)
            acl.append(Right(perms, scheme, id))
        return tuple(acl), _read_stat(raw, offset)[0]


class AclWrite:
    """Replace the list of rights of a node. aversion: that it must have, -1: any."""

    type = SET_ACL

    def __init__(self, path: str, acl: Sequence[Right], aversion: int) -> None:
        self.path = path
        self._acl = acl
        self._aversion = aversion

    def serialize(self) -> bytes:
        return _text(self.path) + _rights(self._acl) + _INT.pack(self._aversion)

    def deserialize(self, raw: bytes, offset: int) -> Stat:
        return _read_stat(raw, offset)[0]


class Sync:
    """Wait until the server has all that was committed when it was asked."""

    type = SYNC

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytes:
        return _text(self._path)

    def deserialize(self, _raw: bytes, _offset: int) -> bool:
        return True
