"""A record log as docs/kafka-records.md tells it, in plain Python: a list of records, and no index of anything."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.kafka import record_logs as r
from tests.kafka.batches import Record


@dataclass
class Kept:
    """A batch: its records that are left, with their offsets."""

    base: int
    last: int
    size: int  # bytes, of the records that are left
    appended_ms: int
    is_open: bool  # compacted, and not compressed
    records: list[tuple[int, Record]]


@dataclass
class Asked:
    """An append."""

    records: list[Record]
    policy: int
    retention_ms: int = 0
    records_max: int = 0
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    is_compressed: bool = False


@dataclass
class Producer:
    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # base offset, first and last sequence


@dataclass
class Model:
    start: int = 0
    next: int = 0
    batches: list[Kept] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)

    def append(self, asked: Asked, now_ms: int) -> tuple[int, int]:
        """The code, and the offset."""
        last = (asked.sequence + len(asked.records) - 1) % (1 << 31)
        if asked.producer >= 0 and (known := self.producers.get(asked.producer)):
            if asked.epoch < known.epoch:
                return r.OLD_EPOCH, 0
            if asked.epoch > known.epoch:
                if asked.sequence != 0:
                    return r.OUT_OF_ORDER, 0
            else:
                for base, first, end in known.batches[-5:]:
                    if (first, end) == (asked.sequence, last):
                        return r.OK, base
                if asked.sequence != (known.batches[-1][2] + 1) % (1 << 31):
                    return r.OUT_OF_ORDER, 0
        base = self.next
        self.next += len(asked.records)
        if asked.producer >= 0:
            known = self.producers.get(asked.producer)
            if known is None or known.epoch != asked.epoch:
                known = self.producers[asked.producer] = Producer(asked.epoch)
            known.batches.append((base, asked.sequence, last))
        is_open = bool(asked.policy & r.COMPACT) and not asked.is_compressed
        placed = [(base + delta, record) for delta, record in enumerate(asked.records)]
        if asked.policy & r.COMPACT:
            self.end_tombstones(now_ms)
        self.batches.append(Kept(base, self.next - 1, 0, now_ms, is_open, placed))
        if is_open:
            self.compact()
        if asked.policy & r.DELETE:
            self.limit(asked, now_ms)
        return r.OK, base

    def end_tombstones(self, now_ms: int) -> None:
        if not all(batch.is_open for batch in self.batches):
            return
        for batch in self.batches:
            if batch.appended_ms + r.TOMBSTONE_MS <= now_ms:
                batch.records = [one for one in batch.records if one[1].value is not None]
        self.batches = [batch for batch in self.batches if batch.records]

    def compact(self) -> None:
        seen = set()
        for batch in reversed(self.batches):
            if not batch.is_open:
                continue
            kept = []
            for offset, record in reversed(batch.records):
                if record.key not in seen:
                    kept.append((offset, record))
                seen.add(record.key)
            batch.records = kept[::-1]
        self.batches = [batch for batch in self.batches if batch.records]

    def limit(self, asked: Asked, now_ms: int) -> None:
        while len(self.batches) > 1:
            oldest = self.batches[0]
            is_old = asked.retention_ms and oldest.appended_ms + asked.retention_ms <= now_ms
            is_beyond = asked.records_max and self.next - oldest.last - 1 >= asked.records_max
            if not is_old and not is_beyond:
                return
            del self.batches[0]
            self.start = oldest.last + 1

    def trim(self, offset: int) -> tuple[int, int]:
        if offset > self.next:
            return r.OUT_OF_RANGE, 0
        if offset > self.start:
            self.start = offset
            self.batches = [batch for batch in self.batches if batch.last >= offset]
        return r.OK, self.start
