"""JSON of etcd's gateway and the schema as Python functions, for tests; the door itself never touches them."""

from __future__ import annotations

def messages() -> list[list[tuple[int, str, str, bool, int | list[str] | None]]]:
    """The fields of each message: number, name, kind, whether it is a list, and the message or names that it has."""

def to_message(message: int, data: bytes) -> tuple[int, int, bytes]:
    """(status, bytes used, the message)"""

def to_json(message: int, data: bytes) -> tuple[int, bytes]: ...
