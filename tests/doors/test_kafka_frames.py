"""The lines that the proxy makes of Kafka's requests: a request with its masks and errors, and what is out of turn."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.doors import kafka_trace
from tests.doors.kafka_frames import KafkaConversation
from tests.kafka.codec import API_VERSIONS, encode
from tests.kafka.schema import messages

HEARTBEAT, PRODUCE, METADATA, FETCH, TELEMETRY = 12, 0, 3, 1, 71
DOCUMENT = Path(__file__).parents[2] / "docs" / "kafka-requests.md"


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(key: int, version: int, number: int, values: dict[str, Any]) -> bytes:
    message = messages()[key]
    tags = b"\0" if message.is_flexible(version) else b""
    head = struct.pack(">hhih", key, version, number, 2) + b"me" + tags
    return frame(head + encode(message, version, values, is_request=True))


def answer(key: int, version: int, number: int, values: dict[str, Any]) -> bytes:
    message = messages()[key]
    tags = b"\0" if message.is_flexible(version) and key != API_VERSIONS else b""
    return frame(struct.pack(">i", number) + tags + encode(message, version, values, is_request=False))


@pytest.fixture
def talk() -> KafkaConversation:
    return KafkaConversation()


def test_a_request_stands_with_the_errors_of_its_answer(talk: KafkaConversation) -> None:
    """Byte by byte: a frame may come in any pieces. A member's id is another one in each run."""
    values = {"group_id": "g", "generation_id": 7, "member_id": "me-123"}
    for byte in request(HEARTBEAT, 4, 1, values):
        talk.feed(bytes([byte]), is_request=True)
    shown = "group_id=g generation_id=<n> member_id=<id> group_instance_id=null"
    assert talk.unanswered == [f"> Heartbeat 4 {shown}"]
    talk.feed(answer(HEARTBEAT, 4, 1, {"error_code": 27}), is_request=False)
    assert talk.lines == [f"> Heartbeat 4 {shown} -> 27"]
    assert not talk.unanswered and not talk.order_faults
    (asked,) = talk.asked
    assert (asked.name, asked.version, asked.client_id, asked.errors) == ("Heartbeat", 4, "me", (27,))


def test_errors_are_found_however_deep(talk: KafkaConversation) -> None:
    talk.feed(request(METADATA, 9, 1, {"topics": [{"name": "t"}]}), is_request=True)
    topics = [{"name": "t", "error_code": 5, "partitions": [{"error_code": 9}, {"error_code": 5}]}]
    talk.feed(answer(METADATA, 9, 1, {"topics": topics}), is_request=False)
    assert talk.asked[0].errors == (5, 9)


def test_an_answer_out_of_turn_is_a_fault(talk: KafkaConversation) -> None:
    for number in (1, 2):
        talk.feed(request(HEARTBEAT, 0, number, {}), is_request=True)
    talk.feed(answer(HEARTBEAT, 0, 2, {}), is_request=False)
    assert talk.order_faults == ["answer 2 where 1 was due"]


def test_a_produce_without_acknowledgement_is_answered_by_nobody(talk: KafkaConversation) -> None:
    for number, acks in ((1, 0), (2, 1)):
        talk.feed(request(PRODUCE, 9, number, {"acks": acks}), is_request=True)
    talk.feed(answer(PRODUCE, 9, 2, {}), is_request=False)
    assert len(talk.asked) == 2 and not talk.order_faults


def test_a_version_that_a_server_does_not_know_is_answered_as_the_first_one(talk: KafkaConversation) -> None:
    """The client learns the versions that there are, and asks again (KIP-511)."""
    talk.feed(request(API_VERSIONS, 5, 1, {"client_software_name": "c"}), is_request=True)
    keys = [{"api_key": 18, "min_version": 0, "max_version": 4}]
    talk.feed(answer(API_VERSIONS, 0, 1, {"error_code": 35, "api_keys": keys}), is_request=False)
    assert talk.asked[0].errors == (35,) and talk.is_readable


def test_a_request_of_no_page_is_told_by_its_name(talk: KafkaConversation) -> None:
    talk.feed(frame(struct.pack(">hhih", TELEMETRY, 0, 1, -1) + bytes(17)), is_request=True)
    talk.feed(frame(struct.pack(">i", 1) + bytes(9)), is_request=False)
    assert talk.lines == ["> GetTelemetrySubscriptions 0"]


@pytest.mark.parametrize("bad", [frame(b"\0\x0c\0\x04\0\0"), struct.pack(">i", -5), frame(b"\x7f\0" + bytes(8))])
def test_a_frame_that_cannot_be_read_ends_the_reading(talk: KafkaConversation, bad: bytes) -> None:
    talk.feed(bad, is_request=True)
    assert len(talk.lines) == 1 and talk.lines[0].startswith("> unreadable")
    talk.feed(request(HEARTBEAT, 0, 1, {}), is_request=True)
    assert len(talk.lines) == 1 and not talk.unanswered


def test_a_recording_is_compared_by_requests_and_versions() -> None:
    recorded = ["Heartbeat 3 a=1", "Heartbeat 4 a=1", "Metadata 9"]
    assert not kafka_trace.difference(recorded, ["Heartbeat 4 b=2", "Heartbeat 3", "Metadata 9 c=3"])
    assert kafka_trace.difference(recorded, ["Heartbeat 4"]) == (
        "Heartbeat: [4] where [3, 4] is recorded; Metadata: never where [9] is recorded"
    )
    text = "=== one\nHeartbeat 4 a=1\n=== two\nMetadata 9\n"
    assert kafka_trace.read(text) == {"one": ["Heartbeat 4 a=1"], "two": ["Metadata 9"]}


def test_the_document_has_what_was_recorded() -> None:
    """The columns are named in the order of the recording."""
    text = DOCUMENT.read_text()
    recorded = kafka_trace.read(kafka_trace.GOLDEN.read_text())
    lines = text[text.index("| Request | Key |") :].split("\n\n")[0].splitlines()
    assert lines == kafka_trace.table(recorded)
    clients = text[text.index("| Column |") :].split("\n\n")[0].splitlines()[2:]
    names = [line.split("|")[2].strip() for line in clients]
    assert names == [name.rpartition(" (")[0] for name in recorded]
    for name, line in zip(recorded, clients, strict=True):
        assert name.rpartition(" (")[2].rstrip(")") in line
