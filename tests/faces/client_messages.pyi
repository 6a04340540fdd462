"""The codec of the client protocol as Python functions, for tests and tools."""

from __future__ import annotations

from typing import Any, TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview

CLIENT_HEADER_BYTES: int
CLIENT_HELLO_BYTES_MAX: int
CLIENT_BODY_BYTES_MAX: int

def client_frame_decode(data: _Bytes, body_bytes_max: int) -> tuple[int, int]:
    """(status, bytes of the whole frame or needed)."""

def client_request_encode(fields: dict[str, Any]) -> tuple[int, bytes]:
    """(status, frame) of a request with the fields of ClientRequest."""

def client_request_decode(body: _Bytes) -> tuple[int, dict[str, Any] | None]:
    """(status, fields) of the body of a frame."""

def client_message_encode(message: tuple[int, int, int, int, int, bytes]) -> tuple[int, bytes]:
    """(status, frame) of a message (kind, id, status, revision, index, body)."""

def client_message_decode(body: _Bytes) -> tuple[int, tuple[int, int, int, int, int, bytes] | None]:
    """(status, message) of the body of a frame."""
