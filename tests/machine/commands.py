"""Commands as the msgpack texts of docs/formats.md "Commands", made without the codec of raftmeta."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgpack

# Statuses of results (raftmeta/status.pxd).
OK = 0
KEY_EXISTS = 1
KEY_MISSING = 2
COMPARE_FAILED = 3
FENCED = 4
ID_CONFLICT = 5
LEASE_EXPIRED = 6
COMPACTED = 7
FUTURE_REVISION = 8
TOO_MANY_CHANGES = 9
VALUE_TOO_LARGE = 10
KEY_INVALID = 11
COMMAND_INVALID = 12
NUMBER_OVERFLOW = 13
NOT_A_NUMBER = 14
SESSION_UNKNOWN = 15
RESULT_EVICTED = 16
TOO_MANY_MACHINES = 17
NAME_UNKNOWN = 19
RIGHTS_LIMIT = 20
ZNODE_WRITE = 21
ZNODE_REFUSED = 22
GROUP_WRITE = 23
GROUP_REFUSED = 24
RECORDS_WRITE = 26
NOT_READY = 33
OVERLOADED = 34
PERMISSION_DENIED = 38
AUTHENTICATION_FAILED = 39
OUT_OF_ORDER = 41
INCOMPLETE = 64
BAD_VERSION = 66
BAD_CHECKSUM = 67
BAD_LENGTH = 68
BAD_FIELD = 69
NOT_FOUND = 73
INVARIANT_BROKEN = 98
UNKNOWN_ENTRY = 99

# Entry types (raftmeta/raft/types.pxd).
NOOP = 1
MEMBERSHIP = 3

# Commands, operations, flags and compares (raftmeta/wire/commands.pxd).
KEYS, GRANT, REVOKE, KEEP_ALIVE, EXPIRE, OPEN, CLOSE, SESSION_EXPIRE, COMPACT, LEVEL, USER, USER_DUMP = range(1, 13)
PUT, CREATE, UPDATE, DELETE, DELETE_RANGE, GET, RANGE, ADD, TXN = range(1, 10)
SPOKEN, RIGHTS, ZNODES, GROUPS, TOPICS, RECORDS, PROCESS_END = 13, 14, 15, 16, 18, 19, 20
BY_NODE, BY_CLIENT = 1, 2
READ, WRITE, WATCH, HOLD, MEMBER, SNAPSHOT, ADMIN = (1 << bit for bit in range(7))
ENABLE, DISABLE, USER_PUT, USER_REMOVE, ROLE_PUT, ROLE_REMOVE, GRANT_RIGHT, REVOKE_RIGHT, BIND, UNBIND = range(1, 11)
FOUND, FOUND_AGAIN, CLAIM, TOKEN_PUT, TOKEN_REMOVE = range(11, 16)
FOUNDER = b"\0f"  # the name of who has the founding token
WANT_PREVIOUS, MUST_EXIST, KEEP_LEASE, KEY_FROM_RESULT, KEEP_VALUE = 1, 2, 4, 8, 16
VERSION, CREATE_REVISION, MOD_REVISION, VALUE, LEASE, RANGE_EMPTY = range(1, 7)
OF_ALL = 16  # added to a target: of all keys of a range; the operand is [end, operand]
EQUAL, NOT_EQUAL, LESS, GREATER = range(1, 5)

TOMBSTONE, COUNTER, GROUP, MEMBER_KEY, RECORDS_KEY = 1, 2, 8, 16, 512
CHANGES_MAX = 10_000


def pack(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


def unpack(value: bytes) -> Any:
    return msgpack.unpackb(value)


def command(
    kind: int,
    *fields: Any,
    session: int = 0,
    sequence: int = 0,
    lowest: int = 0,
    fence: tuple[bytes, int] | None = None,
) -> bytes:
    return pack([kind, session, sequence, lowest, list(fence) if fence else None, *fields])


def txn(then: Sequence[Any], compares: Sequence[Any] = (), otherwise: Sequence[Any] = ()) -> list[Any]:
    return [list(compares), list(then), list(otherwise)]


def keys(*operations: Any, compares: Sequence[Any] = (), otherwise: Sequence[Any] = (), **envelope: Any) -> bytes:
    return command(KEYS, txn(operations, compares, otherwise), **envelope)


def put(key: bytes, value: bytes = b"", *, lease: int = 0, flags: int = 0, result_from: int = 0) -> list[Any]:
    return [PUT, flags, key, value, lease, result_from]


def create(key: bytes, value: bytes = b"", *, lease: int = 0, flags: int = 0, result_from: int = 0) -> list[Any]:
    return [CREATE, flags, key, value, lease, result_from]


def update(key: bytes, value: bytes = b"", *, lease: int = 0, flags: int = 0, expected: int = 0) -> list[Any]:
    return [UPDATE, flags, key, value, lease, expected]


def delete(key: bytes, *, flags: int = 0, expected: int = 0) -> list[Any]:
    return [DELETE, flags, key, expected]


def delete_range(key: bytes, end: bytes, *, flags: int = 0) -> list[Any]:
    return [DELETE_RANGE, flags, key, end]


def get(key: bytes) -> list[Any]:
    return [GET, 0, key]


def read_range(key: bytes, end: bytes, limit: int = 0) -> list[Any]:
    return [RANGE, 0, key, end, limit]


def add(key: bytes, number: int) -> list[Any]:
    return [ADD, 0, key, number]


def nested(*operations: Any, compares: Sequence[Any] = (), otherwise: Sequence[Any] = ()) -> list[Any]:
    return [TXN, 0, txn(operations, compares, otherwise)]


def grant(lease: int, ttl_ms: int, note: bytes = b"", **envelope: Any) -> bytes:
    return command(GRANT, lease, ttl_ms, note, **envelope)


def revoke(lease: int, **envelope: Any) -> bytes:
    return command(REVOKE, lease, **envelope)


def keep_alive(*leases: int, **envelope: Any) -> bytes:
    return command(KEEP_ALIVE, list(leases), **envelope)


def expire(*items: tuple[int, int]) -> bytes:
    return command(EXPIRE, [list(item) for item in items])


def open_session(
    opened: int, ttl_ms: int = 1000, window: int = 100, process: tuple[int, int] | None = None, **envelope: Any
) -> bytes:
    return command(OPEN, opened, ttl_ms, window, *(process or ()), **envelope)


def end_process(member: int, boot: int, **envelope: Any) -> bytes:
    return command(PROCESS_END, member, boot, **envelope)


def close_session(closed: int, **envelope: Any) -> bytes:
    return command(CLOSE, closed, **envelope)


def expire_sessions(*items: tuple[int, int]) -> bytes:
    return command(SESSION_EXPIRE, [list(item) for item in items])


def compact(revision: int, **envelope: Any) -> bytes:
    return command(COMPACT, revision, **envelope)


def spoken(payload: bytes, name: bytes = b"", revision: int = 1 << 40) -> bytes:
    """The command, spoken by a client with this name, or without one by a node."""
    return pack([SPOKEN, BY_CLIENT, name, revision, payload] if name else [SPOKEN, BY_NODE, b"", 0, payload])


def rights(verb: int, name: bytes = b"", data: bytes = b"", **envelope: Any) -> bytes:
    return command(RIGHTS, verb, name, data, **envelope)


def secret(*, iterations: int = 0, flags: int = 0, fill: bytes = b"s") -> bytes:
    return struct.pack("<II", flags, iterations) + (fill * 80 if iterations else bytes(80))


def token_asked(id: int, ttl_ms: int = 1000, *, iterations: int = 4096) -> bytes:
    return struct.pack("<QQ", id, ttl_ms) + secret(iterations=iterations)


def token_name(id: int) -> bytes:
    """Under which a token speaks."""
    return b"\0" + struct.pack("<Q", id)


def founding(*, seed: bytes = b"e" * 32, flags: int = 2) -> bytes:
    return secret(iterations=4096, flags=flags) + seed


def grant_of(rights: int, start: bytes = b"", end: bytes = b"") -> bytes:
    return struct.pack("<BHH", rights, len(start), len(end)) + start + end
