"""The pages of the protocol and their codec in Python: against bytes of Kafka's own clients, and against damage."""

from __future__ import annotations

import random

import pytest

from tests.kafka import schema
from tests.kafka.codec import BadMessage, Reader, decode, encode, header_of_answer, header_of_request, varint
from tests.kafka.compare import NOTHING, RECORDED, RECORDED_EACH, difference, difference_from_nothing, random_messages
from tests.kafka.schema import BadPage, messages

LINES = RECORDED.read_text().splitlines()
PAGE = "Name 3 versions 0-2 flexible 2\n  request\n    one int8\n  answer\n    two text\n"


def test_messages_of_kafka_are_read_and_written_alike() -> None:
    """kafka-clients 4.4.0 wrote the lines: ./build.sh doors kafka_messages --on kafka --write."""
    found = [difference(line) for line in LINES]
    assert not any(found), "\n".join(one for one in found if one)


def test_a_message_that_says_nothing_has_the_defaults_of_kafka() -> None:
    found = [difference_from_nothing(line) for line in NOTHING.read_text().splitlines()]
    assert len(found) == len({tuple(line.split(" ")[:3]) for line in LINES})
    assert not any(found), "\n".join(one for one in found if one)


def test_the_recorded_messages_are_of_every_version() -> None:
    assert len(LINES) == RECORDED_EACH * len(NOTHING.read_text().splitlines())
    recorded = {tuple(line.split(" ")[:3]) for line in LINES}
    expected = {
        (str(message.key), str(version), side)
        for message in messages().values()
        for version in message.versions
        for side in ("request", "answer")
    }
    assert recorded == expected


def test_our_own_messages_come_back() -> None:
    for message, version, is_request, data in random_messages(7, 3):
        values = decode(message, version, data, is_request=is_request)
        assert encode(message, version, values, is_request=is_request) == data, (message.name, version)


def test_a_truncated_message_is_no_message() -> None:
    """Prefixes of every recorded message, some 40 of each."""
    for line in LINES:
        key, version, side, data, _ = line.split(" ", 4)
        message, frame = messages()[int(key)], bytes.fromhex(data)
        for end in range(0, len(frame), 1 + len(frame) // 40):
            with pytest.raises(BadMessage):
                decode(message, int(version), frame[:end], is_request=side == "request")


def test_damage_is_an_error_or_another_message() -> None:
    """A byte of each recorded message is another one: whatever is read can be written again."""
    source = random.Random(3)
    for line in LINES:
        key, version, side, data, _ = line.split(" ", 4)
        message, frame, is_request = messages()[int(key)], bytearray.fromhex(data), side == "request"
        if not frame:
            continue
        frame[source.randrange(len(frame))] ^= 1 << source.randrange(8)
        try:
            values = decode(message, int(version), bytes(frame), is_request=is_request)
        except BadMessage:
            continue
        again = encode(message, int(version), values, is_request=is_request)
        assert decode(message, int(version), again, is_request=is_request) == values


def test_unknown_tagged_fields_are_passed_over() -> None:
    """KIP-482: a later client may send more."""
    message = messages()[12]
    plain = encode(message, 4, {"group_id": "g", "member_id": "m", "generation_id": 3}, is_request=True)
    more = plain[:-1] + varint(2) + varint(0) + varint(3) + b"abc" + varint(900) + varint(0)
    assert decode(message, 4, more, is_request=True) == decode(message, 4, plain, is_request=True)
    turned = plain[:-1] + varint(2) + varint(5) + varint(0) + varint(5) + varint(0)
    with pytest.raises(BadMessage, match="the tag 5 after 5"):
        decode(message, 4, turned, is_request=True)


def test_headers_are_read_as_the_version_says() -> None:
    """The answer of ApiVersions has the old header in all versions: a client does not know the server yet."""
    old = b"\0\x0c\0\x03\0\0\0\x09\0\x02me"
    assert header_of_request(Reader(old)) == (12, 3, 9, "me")
    reader = Reader(b"\0\x0c\0\x04\0\0\0\x09\xff\xff" + varint(1) + varint(7) + varint(1) + b"x")
    assert header_of_request(reader) == (12, 4, 9, None)
    assert not reader.left
    for key, version, left in ((18, 3, 1), (12, 4, 0), (12, 3, 1)):
        reader = Reader(b"\0\0\0\x09\0")
        assert header_of_answer(messages()[key], version, reader) == 9
        assert reader.left == left


@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x00", b"\x80"])
def test_a_varint_has_at_most_32_bits(bad: bytes) -> None:
    with pytest.raises(BadMessage):
        Reader(bad).varint()


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (PAGE.replace("versions", "in"), "begins no message"),
        (PAGE.replace("  answer\n", "  reply\n"), "has no answer"),
        (PAGE.replace("int8", "int9"), "no type"),
        (PAGE.replace("int8", "int8 2++"), "is no field"),
        (PAGE.replace("int8", "int8\n      deeper int8"), "a type that has no fields"),
        (PAGE.replace("int8", "[]"), "no type"),
    ],
)
def test_a_line_that_means_nothing_is_named(page: str, said: str) -> None:
    assert [message.key for message in schema.read(PAGE, page="page")] == [3]
    with pytest.raises(BadPage, match=said):
        list(schema.read(page, page="page"))
