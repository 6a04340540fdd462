"""The codecs as Python functions over dicts and tuples, for tests and tools; statuses are numbers of status.pxd.

Structs appear as dicts with the field names of the headers, the arenas of a Command as lists of tuples in the order of
the struct's fields: txns (compare_first, compare_count, then_first, then_count, else_first, else_count), compares
(target, result, key, end, value, number), ops (kind, flags, result_from, limit, txn, key, end, value, lease,
expected_revision, number), leases (lease, deadline_ms).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview
_Fields: TypeAlias = Mapping[str, Any]

def pack(value: object) -> bytes:
    """Return the msgpack of None, bool, int, bytes, or a sequence of them."""

def unpack(data: _Bytes) -> tuple[int, Any]:
    """Return (status, value or None) of exactly these bytes; arrays nest at most 32 deep."""

def frame_encode(
    type: int, identity: _Fields, *, self_boot: int, sequence: int, body: bytes = b"", records: bytes = b""
) -> bytes:
    """Return a whole frame. identity: cluster (low, high), peer, self, peer_boot."""

def frame_decode(data: _Bytes, *, body_bytes_max: int = ...) -> tuple[int, int]:
    """Return (status, total) for the beginning of a stream."""

def frame_check_identity(header: _Bytes, identity: _Fields) -> int:
    """Return whether a sound frame belongs on the connection. Raises ValueError for less than a header."""

def hello_encode(fields: _Fields) -> tuple[int, bytes]:
    """Return (status, body)."""

def hello_decode(data: _Bytes) -> tuple[int, dict[str, Any] | None]:
    """Return (status, fields or None)."""

def hello_negotiate(own: tuple[int, int], peer: tuple[int, int]) -> tuple[int, int]:
    """Return (status, version) for two ranges (version_min, version_max)."""

def refused_encode(status: int, text: bytes) -> tuple[int, bytes]:
    """Return (status, body) of a FRAME_REFUSED."""

def refused_decode(data: _Bytes) -> tuple[int, tuple[int, bytes] | None]:
    """Return (status, (status told, text) or None)."""

def message_encode(fields: _Fields, records: bytes = b"", *, version: int = 2) -> tuple[int, bytes]:
    """Return (status, body) in that version of messages; fields that are not given are 0."""

def message_decode(body: _Bytes, records: _Bytes = b"") -> tuple[int, dict[str, int] | None]:
    """Return (status, fields or None)."""

def genesis_message_encode(fields: _Fields, membership: bytes | None) -> tuple[int, bytes]:
    """Return (status, body). fields: type, cluster (low, high), source, target; membership: encoded, None: none."""

def genesis_message_decode(body: _Bytes) -> tuple[int, dict[str, Any] | None, bytes | None]:
    """Return (status, fields, encoded membership or None)."""

def feeders_encode(feeders: list[tuple[int, bytes, bytes]]) -> tuple[int, bytes]:
    """(status, body) of FRAME_FEEDERS."""

def feeders_decode(body: _Bytes) -> tuple[int, list[tuple[int, bytes, bytes]] | None]:
    """(status, [(id, name, address)])."""

def observers_encode(observers: list[tuple[int, int, int, int, bytes]]) -> tuple[int, bytes]:
    """(status, body) of FRAME_OBSERVERS."""

def observers_decode(body: _Bytes) -> tuple[int, list[tuple[int, int, int, int, bytes]] | None]:
    """(status, [(id, feeder, last, lag, name)])."""

def snapshot_message_encode(fields: dict[str, Any]) -> tuple[int, bytes]:
    """Return (status, body). fields: type, point (index, term, chain), size_bytes, hash (low, high), offset, length."""

def snapshot_message_decode(body: _Bytes, piece_bytes: int) -> tuple[int, dict[str, Any] | None]:
    """Return (status, fields); piece_bytes: how many raw bytes stand behind the body."""

def command_encode(fields: dict[str, Any], *, prefix: bytes = b"") -> tuple[int, bytes]:
    """Return (status, payload behind prefix); fields that are not given are 0 or empty."""

def command_encode_op(
    op: tuple[Any, ...],
    *,
    session: int = 0,
    sequence: int = 0,
    lowest_unanswered: int = 0,
    fence: tuple[bytes, int] | None = None,
) -> tuple[int, bytes]:
    """Return (status, payload) by the path of a single operation."""

def command_speak(principal: bytes, rights_revision: int, payload: bytes) -> tuple[int, bytes]:
    """Return (status, payload) of a command that a client speaks."""

class CommandDecoder:
    """A Command whose arenas are reused from one decode to the next."""

    def __init__(self) -> None: ...
    def decode(self, payload: _Bytes) -> tuple[int, dict[str, Any]]:
        """Return (status, fields); after a failure only session and sequence."""
    @property
    def arena_bytes(self) -> int:
        """Memory that the arenas hold."""

def result_write(parts: Iterable[tuple[Any, ...]]) -> bytes:
    """Return what the result_* writers append: ("begin", status, revision), ("array", count), ("key", ...) and so on."""
