"""Kafka's protocol as text: each request is one line, in which ids, epochs, offsets and bytes are masked.

A request is answered in its turn, so that its line tells the errors of its answer too. Formats: tests/kafka.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.kafka.codec import (
    API_VERSIONS,
    BadMessage,
    Reader,
    Values,
    decode,
    header_of_answer,
    header_of_request,
)
from tests.kafka.schema import Message, messages

NO_SUCH_VERSION = struct.pack(">h", 35)
FRAME_BYTES_MAX = 1 << 24  # above: no client here sends that
# Requests that no page has: a client may send them, and the proxy only tells that it did.
OTHERS = {
    24: "AddPartitionsToTxn",
    37: "CreatePartitions",
    44: "IncrementalAlterConfigs",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    74: "ListClientMetricsResources",
}
# Fields whose value is another one in each run. A value that stands for "none" or has a meaning of its own is shown.
IDS = {"member_id", "leader", "topic_id", "cluster_id", "client_host", "replica_directory_id"}
NUMBERS = {
    *("generation_id", "generation_id_or_member_epoch", "session_id", "session_epoch", "port", "member_epoch"),
    *("fetch_offset", "log_start_offset", "committed_offset", "current_leader_epoch", "last_fetched_epoch"),
    *("committed_leader_epoch", "leader_epoch", "timestamp", "timeout_ms", "max_wait_ms"),
}
# Numbers of partitions: which ones a member asks for is decided by chance.
PLACES = {"partition", "partition_index", "partition_indexes", "partitions"}
# Names that an acceptance counts.
COUNTED = re.compile(r"topic\d+")
NONE_YET = ("", None, bytes(16), 0, -1)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. fields: masked, as text. errors: the error codes of its answer but 0; None without an answer."""

    name: str
    key: int
    version: int
    client_id: str
    fields: str
    errors: tuple[int, ...] | None

    def __str__(self) -> str:
        failed = "" if not self.errors else f" -> {' '.join(map(str, self.errors))}"
        return f"{self.name} {self.version} {self.fields}{failed}".rstrip()


@dataclass(slots=True)
class KafkaConversation:
    """One connection. asked: its requests that were answered, in order. order_faults: answers out of turn."""

    lines: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    order_faults: list[str] = field(default_factory=list)
    is_readable: bool = True
    _waiting: deque[tuple[int, Asked]] = field(default_factory=deque)
    _rest: list[bytes] = field(default_factory=lambda: [b"", b""])

    def feed(self, data: bytes, *, is_request: bool) -> None:
        """Take bytes of one direction. What cannot be read makes a line and ends the reading."""
        if not self.is_readable:
            return
        buffer = self._rest[is_request] + data
        try:
            while len(buffer) >= 4:
                (length,) = struct.unpack_from(">i", buffer)
                if not 0 <= length <= FRAME_BYTES_MAX:
                    raise BadMessage(f"a frame of {length} bytes")
                if len(buffer) < 4 + length:
                    break
                frame, buffer = buffer[4 : 4 + length], buffer[4 + length :]
                (self._request if is_request else self._answer)(frame)
        except BadMessage as error:
            self.lines.append(f"{'>' if is_request else '<'} unreadable: {error}")
            self.is_readable = False
        self._rest[is_request] = buffer

    @property
    def unanswered(self) -> list[str]:
        return [f"> {asked}" for _, asked in self._waiting]

    @property
    def sent(self) -> list[Asked]:
        """All requests, also those that nobody answered: a client that goes does not wait for its last answers."""
        return [*self.asked, *(asked for _, asked in self._waiting)]

    def _request(self, frame: bytes) -> None:
        key, version, correlation = struct.unpack_from(">hhi", frame.ljust(8, b"\0"))
        if key in OTHERS:
            self._waiting.append((correlation, Asked(OTHERS[key], key, version, "", "", None)))
            return
        reader = Reader(frame)
        key, version, correlation, client_id = header_of_request(reader)
        message = messages()[key]
        values = self._body(message, version, reader, is_request=True)
        shown = "" if values is None else masked(values)
        asked = Asked(message.name, key, version, client_id or "", shown, None)
        if key == 0 and values is not None and values["acks"] == 0:
            self._answered(asked, ())  # nobody answers it
        else:
            self._waiting.append((correlation, asked))

    def _answer(self, frame: bytes) -> None:
        (correlation,) = struct.unpack_from(">i", frame.ljust(4, b"\0"))
        expected, asked = self._waiting.popleft() if self._waiting else (None, None)
        if asked is None or expected != correlation:
            self.order_faults.append(f"answer {correlation} where {expected} was due")
            return
        message = messages().get(asked.key)
        if message is None:
            self._answered(asked, ())
            return
        reader = Reader(frame)
        header_of_answer(message, asked.version, reader)
        version = asked.version
        if message.key == API_VERSIONS and reader.data[reader.at :].startswith(NO_SUCH_VERSION):
            version = 0  # a server that does not know the version answers as it does the first one
        values = self._body(message, version, reader, is_request=False)
        self._answered(asked, () if values is None else tuple(sorted(set(errors_of(values)))))

    def _body(self, message: Message, version: int, reader: Reader, *, is_request: bool) -> Values | None:
        """None if the table has no such version: to ask for one is a client's first question to an old server."""
        if version not in message.versions:
            return None
        return decode(message, version, reader.take(reader.left), is_request=is_request)

    def _answered(self, asked: Asked, errors: tuple[int, ...]) -> None:
        told = Asked(asked.name, asked.key, asked.version, asked.client_id, asked.fields, errors)
        self.asked.append(told)
        self.lines.append(f"> {told}")


def errors_of(values: Any) -> Iterator[int]:
    """Every error code but 0 of an answer, however deep."""
    if isinstance(values, list):
        for one in values:
            yield from errors_of(one)
    elif isinstance(values, dict):
        for name, value in values.items():
            if name == "error_code" and value:
                yield value
            else:
                yield from errors_of(value)


def masked(values: Values) -> str:
    """Fields and values on one line. Of items that look alike one is shown."""
    return " ".join(f"{name}={_masked(name, value)}" for name, value in values.items())


def _masked(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(dict.fromkeys(_masked(name, one) for one in value))}]"
    if isinstance(value, dict):
        return "{" + masked(value) + "}"
    if name in IDS and value not in NONE_YET:
        return "<id>"
    if name in PLACES or (name in NUMBERS and value > 0):  # -1 and -2 have a meaning
        return "<n>"
    if name == "reason" and value:
        return str(value).partition(":")[0]  # a member's id stands behind
    if isinstance(value, bytes):
        return "<bytes>" if value.strip(b"\0") else "empty"
    return "null" if value is None else COUNTED.sub("topic", str(value)) or "''"
