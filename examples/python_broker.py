"""A small durable Kafka broker in Python: files of its own, and everything else from raftmeta.

    python examples/python_broker.py --name a --peer a=127.0.0.1:7001 --data /var/lib/broker --kafka 127.0.0.1:9092

Each partition is a file of Kafka's record batches, one behind the other. An append is on the disk before its client is
told so. Batches that the file begins with and whose checksums hold are the log; a half-written one at its end is cut
off at the start. Groups, their offsets, topics and leaders are raftmeta's (docs/kafka-own-log.md).

It keeps all records for ever, those of a deleted topic too, and each partition on one broker only.
"""

from __future__ import annotations

import argparse
import os
import signal
import struct
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import raftmeta

# The head of a batch: offset, length, epoch of the leader, version, checksum, attributes, last offset in it, first and
# last timestamp, producer, its epoch, its sequence, number of records.
HEAD = struct.Struct(">qiibIHiqqqhii")
CHECKED_FROM = 21
BEFORE_LENGTH = 12  # bytes of a batch that its length does not count
PRODUCERS_MAX = 1000  # that a log knows
BATCHES_MAX = 5  # of a producer: the most that a client may have under way
SEQUENCES = 1 << 31
STALE_EPOCH, OUT_OF_ORDER = 47, 45  # INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Head:
    """The fields of a batch's header that the broker needs."""

    offset: int
    length: int
    checksum: int
    last_delta: int
    newest_ms: int
    producer: int
    producer_epoch: int
    sequence: int

    @classmethod
    def read(cls, data: bytes) -> Head:
        offset, length, _, _, checksum, _, last_delta, _, newest_ms, producer, epoch, sequence, _ = HEAD.unpack_from(
            data
        )
        return cls(offset, length + BEFORE_LENGTH, checksum, last_delta, newest_ms, producer, epoch, sequence)


class Producer:
    """The newest batches of one producer: each batch is appended once."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: OrderedDict[int, int] = OrderedDict()  # offset by first sequence
        self.next = -1  # -1: any sequence may come

    def duplicate(self, head: Head) -> int | None:
        """The offset that the batch was given before; None: it is a new one. Raises KafkaRefusal."""
        if head.producer_epoch < self.epoch:
            raise raftmeta.KafkaRefusal(STALE_EPOCH)
        if head.producer_epoch > self.epoch:
            self.epoch, self.next = head.producer_epoch, 0
            self.batches.clear()
        if head.sequence in self.batches:
            return self.batches[head.sequence]
        if self.next not in (-1, head.sequence):
            raise raftmeta.KafkaRefusal(OUT_OF_ORDER)
        return None

    def appended(self, head: Head, offset: int) -> None:
        self.batches[head.sequence] = offset
        self.next = (head.sequence + head.last_delta + 1) % SEQUENCES
        if len(self.batches) > BATCHES_MAX:
            self.batches.popitem(last=False)


class Log:
    """One partition: a file, and where each batch begins in it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        self.file = path.open("a+b", buffering=0)
        if is_new:
            sync_folder(path.parent)
        self.offsets: list[int] = []
        self.places: list[int] = []
        self.newest_ms: list[int] = []
        self.producers: OrderedDict[int, Producer] = OrderedDict()
        self.next = 0
        self.size = 0
        for head in self._whole_batches():
            self._add(head)
        self.file.truncate(self.size)

    def _whole_batches(self) -> Iterator[Head]:
        while len(data := os.pread(self.file.fileno(), HEAD.size, self.size)) == HEAD.size:
            head = Head.read(data)
            whole = os.pread(self.file.fileno(), head.length, self.size) if head.length > HEAD.size else b""
            if len(whole) < head.length or head.offset != self.next or crc32c(whole[CHECKED_FROM:]) != head.checksum:
                return
            yield head

    def _add(self, head: Head) -> None:
        self.offsets.append(self.next)
        self.places.append(self.size)
        self.newest_ms.append(head.newest_ms)
        if head.producer >= 0:
            known = self.producers.setdefault(head.producer, Producer(head.producer_epoch))
            known.duplicate(head)
            known.appended(head, self.next)
            self.producers.move_to_end(head.producer)
            if len(self.producers) > PRODUCERS_MAX:
                self.producers.popitem(last=False)
        self.next += head.last_delta + 1
        self.size += head.length

    def append(self, records: bytes, epoch: int) -> int:
        """The offset of the batch, which is on the disk."""
        head = Head.read(records)
        known = self.producers.get(head.producer)
        if known is not None and (before := known.duplicate(head)) is not None:
            return before
        offset = self.next
        made = struct.pack(">q", offset) + records[8:12] + struct.pack(">i", epoch) + records[16:]
        try:
            if self.file.write(made) != len(made):
                raise OSError("the disk took half a batch")
            os.fsync(self.file.fileno())
        except OSError:
            self.file.truncate(self.size)
            raise
        self._add(head)
        return offset

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Whole batches from the one with this offset on: one at least, then no more than bytes_max."""
        if not 0 <= offset < self.next:
            return b""
        first = bisect_right(self.offsets, offset) - 1
        ends = [*self.places[first + 1 :], self.size]
        start = self.places[first]
        fits = max(bisect_right(ends, start + bytes_max), 1)
        return os.pread(self.file.fileno(), ends[fits - 1] - start, start)

    def at_time(self, timestamp: int) -> tuple[int, int] | None:
        """The first batch with a record that is not older: its offset, and the timestamp of its newest record."""
        for offset, newest in zip(self.offsets, self.newest_ms, strict=True):
            if newest >= timestamp:
                return offset, newest
        return None


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Broker:
    """The logs of this broker, and the door that asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs: dict[tuple[str, int], Log] = {}
        self.door = raftmeta.KafkaDoor(on_produce=self.produce, on_fetch=self.fetch, on_list_offsets=self.list_offsets)

    def log(self, topic: str, partition: int) -> Log:
        place = topic, partition
        if place not in self.logs:
            self.logs[place] = Log(self.folder / topic / f"{partition}.log")
        return self.logs[place]

    def produce(self, topic: str, partition: int, records: bytes, epoch: int) -> int:
        return self.log(topic, partition).append(records, epoch)

    def fetch(self, topic: str, partition: int, offset: int, bytes_max: int) -> tuple[bytes, int, int]:
        log = self.log(topic, partition)
        return log.read(offset, bytes_max), 0, log.next

    def list_offsets(self, topic: str, partition: int, timestamp: int) -> tuple[int, int] | None:
        log = self.log(topic, partition)
        if timestamp == -1:  # the end
            return log.next, -1
        return (0, -1) if timestamp == -2 else log.at_time(timestamp)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", required=True, help="of this node")
    parser.add_argument("--peer", action="append", required=True, metavar="NAME=HOST:PORT", help="each node, this too")
    parser.add_argument("--data", type=Path, required=True, help="folder of this broker")
    parser.add_argument("--kafka", required=True, metavar="HOST:PORT", help="for clients of Kafka")
    words = parser.parse_args()
    words.data.mkdir(parents=True, exist_ok=True)
    broker = Broker(words.data / "logs")
    peers = dict(peer.split("=", 1) for peer in words.peer)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    node = raftmeta.Node(
        words.name, peers=peers, data_dir=words.data / "raftmeta", kafka_listen=words.kafka, kafka=broker.door
    )
    with node:
        node.ready(60)
        print(f"broker {words.name} serves at {words.kafka}", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
