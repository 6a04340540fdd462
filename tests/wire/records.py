"""Records as a sender makes them, from docs/formats.md "Record" and nothing else; chain hashes are any number here."""

from __future__ import annotations

import struct

from raftmeta.native.native_handle import crc32c

_HEAD = struct.Struct("<IIQQQQQQIBBH")


def record(
    index: int,
    term: int,
    payload: bytes = b"",
    *,
    chain: int = 9,
    wall_ms: int = 1,
    lease_ms: int = 2,
    reserved: int = 0,
    group: int = 0,
    type: int = 2,
    version: int = 1,
    flags: int = 0,
    padding: int = 0,
) -> bytes:
    """One whole record with the right checksum, whatever its fields say."""
    fields = (len(payload), index, term, chain, wall_ms, lease_ms, reserved, group, type, version, flags)
    crc = crc32c(_HEAD.pack(0, *fields)[4:] + payload)
    return _HEAD.pack(crc, *fields) + payload + bytes([padding]) * (-len(payload) % 8)


def payloads(*parts: bytes) -> bytes:
    """What stands behind a PROPOSE: each payload after its length."""
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)
