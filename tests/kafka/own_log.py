"""A program's own log for tests: batches in memory, behind a KafkaDoor."""

from __future__ import annotations

import struct
from typing import Any

import raftmeta
from tests.kafka.batches import read

Place = tuple[str, int]


class MemoryLog:
    """The callables of a KafkaDoor over lists of batches. `epochs` has that of each append."""

    def __init__(self) -> None:
        self.batches: dict[Place, list[tuple[int, int, bytes]]] = {}  # first and next offset, bytes
        self.epochs: list[int] = []

    def end(self, place: Place) -> int:
        log = self.batches.get(place)
        return log[-1][1] if log else 0

    def produce(self, topic: str, partition: int, records: bytes, epoch: int) -> int:
        place = topic, partition
        first = self.end(place)
        count = struct.unpack_from(">i", records, 23)[0] + 1
        made = struct.pack(">q", first) + records[8:12] + struct.pack(">i", epoch) + records[16:]
        self.batches.setdefault(place, []).append((first, first + count, made))
        self.epochs.append(epoch)
        return first

    def fetch(self, topic: str, partition: int, offset: int, bytes_max: int) -> tuple[bytes, int, int]:
        found = b""
        for _, behind, made in self.batches.get((topic, partition), []):
            if behind > offset and (not found or len(found) + len(made) <= bytes_max):
                found += made
        return found, 0, self.end((topic, partition))

    def list_offsets(self, topic: str, partition: int, timestamp: int) -> tuple[int, int] | None:
        if timestamp < 0:
            return (0 if timestamp == -2 else self.end((topic, partition))), -1
        for _, _, made in self.batches.get((topic, partition), []):
            for one in read(made):
                for offset, record in one.records:
                    if record.timestamp >= timestamp:
                        return offset, record.timestamp
        return None

    def door(self, **options: Any) -> raftmeta.KafkaDoor:
        hooks = {"on_produce": self.produce, "on_fetch": self.fetch, "on_list_offsets": self.list_offsets}
        return raftmeta.KafkaDoor(**{**hooks, **options})
