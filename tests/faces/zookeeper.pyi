"""The protocol of the ZooKeeper door as Python functions, for tests; the door itself never touches them.

Requests and connects are dicts with the field names of the headers, and the vectors of a request are lists. Errors are
ZooKeeper's codes, statuses numbers of raftmeta/status.pxd.
"""

from __future__ import annotations

from collections.abc import Buffer
from typing import Any

WATCHES: tuple[str, ...]

def rows() -> list[tuple[int, str, list[int], int, int, str]]:
    """(opcode, name, fields, answer, traits, since) of each request, in the order of the page."""

def frame_look(data: Buffer, most: int) -> tuple[int, int]:
    """(status, bytes of the frame or needed)"""

def connect_decode(body: Buffer) -> tuple[int, dict[str, Any] | None]: ...
def connected_encode(
    timeout_ms: int, session: int, password: bytes, is_read_only: bool, *, has_read_only: bool = True
) -> bytes:
    """The whole frame."""

def request_decode(body: Buffer) -> tuple[int, dict[str, Any] | None]:
    """(status, the request, its operations among it)"""

def reply(xid: int, zxid: int, error: int) -> bytes: ...
def event(zxid: int, kind: int, state: int, path: bytes) -> bytes: ...
def md5(data: bytes) -> bytes: ...
def sha1(data: bytes) -> bytes: ...
def digest_of(user_and_password: bytes) -> bytes: ...
def id_is_valid(scheme: bytes, id: bytes) -> bool: ...

class Speaker:
    """The identities of one connection, and its SASL conversation."""

    def __init__(self, *, super_digest: bytes = b"", users: dict[bytes, bytes] | None = None) -> None: ...
    def add(self, scheme: bytes, id: bytes) -> int:
        """Return a status."""
    def add_ip(self, address: bytes) -> int:
        """address: 4 or 16 bytes; return a status."""
    def add_x509(self, subject: bytes) -> int:
        """Return a status."""
    def auth(self, scheme: bytes, token: bytes) -> int:
        """Return an error."""
    def sasl_step(self, token: Buffer, random: bytes) -> tuple[int, int, bytes]:
        """(error, state, token of the answer)"""
    @property
    def identities(self) -> list[tuple[bytes, bytes]]: ...

def word_find(word: bytes) -> int: ...
def words_allowed(setting: bytes) -> int | None: ...
def short_name(opcode: int) -> str: ...
def word_answer(word: int, allowed: int, server: dict[str, Any]) -> bytes: ...
