"""The flight recorder's ring as a Python object, for tests."""

from __future__ import annotations

from typing import Any

def turn_ns(turns: int) -> int:
    """Time in which a loop thread tells of so many turns, and nothing happens in them."""

class FlightFace:
    """A ring over the file in a folder. Raises OSError."""

    def __init__(self, folder: str, size_bytes: int, name: bytes) -> None: ...
    def begin_life(self, boot: int, member: int) -> None: ...
    def write(self, part: int, kind: int, a: int, b: int, c: int, d: int) -> None: ...
    def text(self, part: int, text: bytes) -> None: ...
    def write_many(self, part: int, kind: int, count: int) -> None:
        """So many records, numbered from 0 by a, without the GIL."""

    def copied(self, part: int, first: int, most: int) -> list[Any]:
        """What a node answers for its part: see flight/image."""

    def start(self) -> bool: ...
    def stop(self) -> bool:
        """Carry everything and end the thread; False: it did not end."""
