"""The content of a flight recorder's file, out of what a node that runs tells of its memory.

It decides what is asked next. It never asks: a node's own caller and a client each do so in their way.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from raftmeta.errors import InvalidArgument
from raftmeta.native.native_handle import crc32c

__all__ = ["Image"]

# docs/formats.md "Flight recorder"
MAGIC = b"RAFTFLT\n"
VERSION = 1
PARTS = 4
PAGE_BYTES = 4096
RECORD_BYTES = 64
RECORDS_MAX = 256 * 1024 * 1024 // RECORD_BYTES  # of all parts: Config.flight_recorder_bytes
HEADER = struct.Struct("<8sIIIIQ64sII")
ALIVE = struct.Struct("<QQQII")

ASKED_RECORDS = 4096  # at once


class Image:
    """Ask for `wanted` and take the answer, until nothing is wanted any more; then `content` has the file's bytes.

    wanted: a part, and the number of the first record. None: all of it is here.
    """

    def __init__(self) -> None:
        self.wanted: tuple[int, int] | None = (0, 1)
        self.content = b""
        self._bytes = bytearray()
        self._capacity = 0
        self._until = 0  # number of the part's newest record when the part was asked for first

    def take(self, answer: Sequence[Any]) -> None:
        """The answer: name, life, records of a part, two clocks, the part's newest number, then records in pieces.

        An empty answer: the node has no flight recorder, and the content is empty. Raises InvalidArgument: it is none.
        """
        if self.wanted is None or not answer:
            self.wanted = None
            return
        part, first = self.wanted
        name, life, capacity, boot_ns, wall_ns, newest = answer[:6]
        records = b"".join(answer[6:])
        if not self._bytes:
            self._begin(name, capacity)
        if capacity != self._capacity or len(records) % RECORD_BYTES:
            raise InvalidArgument("the node's answer is no part of a flight recorder")
        alive = ALIVE.pack(boot_ns, wall_ns, life, 0, 0)[:-4]
        self._put(PAGE_BYTES, alive + crc32c(alive).to_bytes(4, "little"))
        self._until = newest if first == 1 else self._until
        last = 0
        for at in range(0, len(records), RECORD_BYTES):
            last = int.from_bytes(records[at : at + 8], "little")
            place = part * capacity + (last - 1) % capacity
            self._put(2 * PAGE_BYTES + place * RECORD_BYTES, records[at : at + RECORD_BYTES])
        if last and last < self._until:
            self.wanted = (part, max(first, last) + 1)
        elif part + 1 < PARTS:
            self.wanted = (part + 1, 1)
        else:
            self.wanted = None
            self.content = bytes(self._bytes)

    def _begin(self, name: bytes, capacity: int) -> None:
        if not 0 < capacity <= RECORDS_MAX // PARTS:
            raise InvalidArgument("the node's answer is no part of a flight recorder")
        self._capacity = capacity
        self._bytes = bytearray(2 * PAGE_BYTES + PARTS * capacity * RECORD_BYTES)
        head = HEADER.pack(MAGIC, VERSION, RECORD_BYTES, PARTS, len(name), capacity, name, 0, 0)[:-4]
        self._put(0, head + crc32c(head).to_bytes(4, "little"))

    def _put(self, at: int, data: bytes) -> None:
        self._bytes[at : at + len(data)] = data
