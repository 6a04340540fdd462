"""Core messages: every field of every type round and back, equal to msgpack, and records checked once at the door."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.wire import message_decode, message_encode
from tests.wire.guarded import flipped_bits, guarded
from tests.wire.names import MessageType, Status
from tests.wire.records import payloads, record

NUMBER = st.integers(0, 2**63 - 1)
ANY_64 = st.integers(0, 2**64 - 1)
RANGES: dict[str, st.SearchStrategy[int]] = {
    "flags": st.integers(0, 255),
    "term": NUMBER,
    "reject": st.integers(0, 1),
    "index": NUMBER,
    "log_term": NUMBER,
    "commit": NUMBER,
    "hint": NUMBER,
    "context": ANY_64,
    "free_bytes": ANY_64,
    "count": st.integers(0, 2**32 - 1),
    "lease_ms": NUMBER,
}
MAXIMA = dict.fromkeys(("term", "index", "log_term", "commit", "hint", "lease_ms"), 2**63 - 1)

# docs/formats.md "Messages", row by row.
_ANSWER = ["flags", "term", "reject"]
FIELDS: dict[str, list[str]] = {
    "APPEND": ["flags", "term", "index", "log_term", "commit", "count"],
    "APPEND_RESPONSE": [*_ANSWER, "index", "log_term", "hint", "free_bytes"],
    "HEARTBEAT": ["flags", "term", "commit", "context", "lease_ms"],
    "HEARTBEAT_RESPONSE": [*_ANSWER, "index", "context", "free_bytes"],
    "PRE_VOTE": ["flags", "term", "index", "log_term"],
    "PRE_VOTE_RESPONSE": [*_ANSWER, "free_bytes"],
    "VOTE": ["flags", "term", "index", "log_term"],
    "VOTE_RESPONSE": [*_ANSWER, "free_bytes", "lease_ms"],
    "PROPOSE": ["flags", "context", "count"],
    "PROPOSE_RESPONSE": ["flags", "reject", "hint", "context"],
    "READ_INDEX": ["flags", "context"],
    "READ_INDEX_RESPONSE": ["flags", "term", "reject", "index", "context"],
    "SNAPSHOT": ["flags", "term", "index", "log_term"],
    "SNAPSHOT_RESPONSE": [*_ANSWER, "index", "free_bytes"],
    "TRANSFER": ["flags", "term", "context"],
    "TIMEOUT_NOW": ["flags", "term"],
    "ENTRY_REQUEST": ["flags", "index", "context"],
    "ENTRY_RESPONSE": ["flags", "reject", "index", "context", "count"],
    "MEMBERSHIP_PROPOSE": ["flags", "index", "context"],
    "FEED_REQUEST": ["flags", "index", "log_term", "hint", "context"],
    "FEED": [*_ANSWER, "index", "log_term", "commit", "hint", "context", "count"],
    "FEED_MEMBERSHIP": ["flags", "index", "hint"],
}
# What version 2 added to a row.
ADDED = {"HEARTBEAT": "lease_ms", "VOTE_RESPONSE": "lease_ms", "READ_INDEX_RESPONSE": "term", "TRANSFER": "term"}
CARRY_RECORDS = {"APPEND", "PROPOSE", "ENTRY_RESPONSE", "MEMBERSHIP_PROPOSE", "FEED", "FEED_MEMBERSHIP"}
WITHOUT_RECORDS = sorted(FIELDS.keys() - CARRY_RECORDS)


def packed(fields: dict[str, int]) -> bytes:
    """The body by the msgpack package."""
    name = MessageType(fields["type"]).name
    values = [bool(fields[field]) if field == "reject" else fields[field] for field in FIELDS[name]]
    return msgpack.packb([fields["type"], *values])


def message(name: str, **values: int) -> dict[str, int]:
    return {"type": MessageType[name], **dict.fromkeys(RANGES, 0), **values}


@st.composite
def messages(draw: st.DrawFn, names: list[str]) -> dict[str, int]:
    name = draw(st.sampled_from(names))
    return message(name, **{field: draw(RANGES[field]) for field in FIELDS[name]})


@st.composite
def appends(draw: st.DrawFn) -> tuple[dict[str, int], bytes]:
    """An APPEND and its records: terms ascending, indexes one after another."""
    terms = sorted(draw(st.lists(st.integers(1, 5), max_size=5)))
    index = draw(st.integers(0, 2**63 - 10))
    records = b"".join(
        record(index + 1 + place, term, draw(st.binary(max_size=40))) for place, term in enumerate(terms)
    )
    log_term = draw(st.integers(0, terms[0] if terms else 5))
    fields = {"index": index, "log_term": log_term, "term": draw(st.integers(5, 9)), "count": len(terms)}
    return message("APPEND", commit=draw(NUMBER), flags=draw(RANGES["flags"]), **fields), records


def check_round_trip(fields: dict[str, int], records: bytes = b"") -> None:
    status, body = message_encode(fields, records)
    assert status == Status.OK
    assert body == packed(fields)
    assert message_decode(guarded(body), records) == (Status.OK, fields)
    assert message_decode(body, guarded(records)) == (Status.OK, fields)


def test_the_table_names_every_message_type() -> None:
    """A new type without a row here is not tested."""
    assert FIELDS.keys() == {member.name for member in MessageType}


@given(messages(WITHOUT_RECORDS))
def test_a_message_without_records_is_read_as_it_was_written(fields: dict[str, int]) -> None:
    """Bytes equal those of the msgpack package."""
    check_round_trip(fields)


@given(appends())
def test_an_append_is_read_with_its_records(append: tuple[dict[str, int], bytes]) -> None:
    """paper 5.3; records are neither copied nor changed."""
    check_round_trip(*append)


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=6), RANGES["flags"], ANY_64)
def test_a_proposal_is_read_with_its_payloads(parts: list[bytes], flags: int, context: int) -> None:
    """What is in a payload is not looked at."""
    check_round_trip(message("PROPOSE", flags=flags, context=context, count=len(parts)), payloads(*parts))


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1), st.binary(max_size=40), ANY_64)
def test_an_entry_response_is_read_with_its_record(index: int, term: int, payload: bytes, context: int) -> None:
    """Log repair: one record, or a reject without any."""
    check_round_trip(message("ENTRY_RESPONSE", index=index, context=context, count=1), record(index, term, payload))
    check_round_trip(message("ENTRY_RESPONSE", index=index, context=context, reject=1))


@given(st.binary(min_size=1, max_size=100), st.integers(0, 2**63 - 1), ANY_64)
def test_a_membership_proposal_is_read_with_its_bytes(encoded: bytes, index: int, context: int) -> None:
    """The core reads the membership itself."""
    check_round_trip(message("MEMBERSHIP_PROPOSE", index=index, context=context), encoded)


@given(messages(sorted(ADDED)))
def test_a_peer_of_version_1_is_sent_what_it_knows_and_understood(fields: dict[str, int]) -> None:
    """The fields of version 2 are left out for it, and 0 when it leaves them out."""
    name = MessageType(fields["type"]).name
    known = [field for field in FIELDS[name] if field != ADDED[name]]
    values = [bool(fields[field]) if field == "reject" else fields[field] for field in known]
    body = msgpack.packb([fields["type"], *values])
    assert message_encode(fields, version=1) == (Status.OK, body)
    assert message_decode(body) == (Status.OK, fields | {ADDED[name]: 0})


@given(messages(sorted(FIELDS.keys() - ADDED.keys() - CARRY_RECORDS)))
def test_all_other_types_are_the_same_in_both_versions(fields: dict[str, int]) -> None:
    assert message_encode(fields, version=1) == message_encode(fields)


@given(messages(sorted(FIELDS)))
def test_a_sender_cannot_lose_a_field_on_the_way(fields: dict[str, int]) -> None:
    """A field that the type does not carry is refused at the sender, not dropped; so is one out of range."""
    listed = FIELDS[MessageType(fields["type"]).name]
    for field in RANGES.keys() - set(listed):
        assert message_encode(fields | {field: 1}) == (Status.BAD_FIELD, b"")
    for field in MAXIMA.keys() & set(listed):
        assert message_encode(fields | {field: 2**63}) == (Status.BAD_FIELD, b"")
    if "reject" in listed:
        assert message_encode(fields | {"reject": 2}) == (Status.BAD_FIELD, b"")


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_body_of_a_wrong_shape_is_refused(name: str) -> None:
    """One field more, one less than in version 1, each field of a wrong type or too large."""
    body: list[Any] = msgpack.unpackb(packed(message(name)))
    assert message_decode(msgpack.packb([*body, 0]))[0] == Status.BAD_FIELD
    assert message_decode(msgpack.packb(body[: -2 if name in ADDED else -1]))[0] == Status.BAD_FIELD
    assert message_decode(msgpack.packb(body) + b"\0")[0] == Status.BAD_LENGTH
    for place, field in enumerate(["type", *FIELDS[name]]):
        wrong = [
            None,
            -1,
            b"x",
            "x",
            1.5,
            [],
            {},
            *([2**63] if field in MAXIMA else []),
            *([0] if field == "reject" else [True]),
        ]
        for value in wrong:
            changed = [*body[:place], value, *body[place + 1 :]]
            assert message_decode(guarded(msgpack.packb(changed)))[0] == Status.BAD_FIELD, (field, value)


@pytest.mark.parametrize("type", [0, len(MessageType) + 1, 127, 255])
def test_an_unknown_message_type_is_refused(type: int) -> None:
    """The version of the frame says which types there are."""
    assert message_decode(msgpack.packb([type, 0]))[0] == Status.BAD_FIELD
    assert message_encode({"type": type})[0] == Status.BAD_FIELD


@given(messages(WITHOUT_RECORDS))
def test_every_prefix_of_a_body_is_refused(fields: dict[str, int]) -> None:
    """A cut body is never another message."""
    body = packed(fields)
    for length in range(len(body)):
        assert message_decode(guarded(body[:length]))[0] in (Status.BAD_LENGTH, Status.BAD_FIELD)


@given(messages(WITHOUT_RECORDS).map(packed).flatmap(lambda body: st.sampled_from(flipped_bits(body))) | st.binary())
def test_whatever_is_accepted_is_written_back_the_same(body: bytes) -> None:
    """Damaged and random bodies: refused, or the one encoding of what they mean."""
    status, fields = message_decode(guarded(body))
    if status == Status.OK:
        assert fields is not None
        assert (Status.OK, body) in (message_encode(fields), message_encode(fields, version=1))
    else:
        assert status in (Status.BAD_LENGTH, Status.BAD_FIELD)


@given(st.sampled_from(WITHOUT_RECORDS))
def test_records_behind_a_message_that_has_none_are_refused(name: str) -> None:
    """Nothing rides along."""
    fields = message(name)
    assert message_encode(fields, b"x" * 8) == (Status.BAD_FIELD, b"")
    assert message_decode(packed(fields), b"x" * 8)[0] == Status.BAD_LENGTH


@given(appends())
def test_every_flipped_bit_and_every_prefix_of_records_is_refused(append: tuple[dict[str, int], bytes]) -> None:
    """Damage never reaches the core."""
    fields, records = append
    body = packed(fields)
    for damaged in flipped_bits(records[:160]):
        assert message_decode(body, guarded(damaged + records[160:]))[0] != Status.OK
    for length in range(len(records)):
        assert message_decode(body, guarded(records[:length]))[0] == Status.BAD_LENGTH
    assert message_decode(body, guarded(records + bytes(8)))[0] == Status.BAD_LENGTH


GOOD = record(5, 2, b"abc")


@pytest.mark.parametrize(
    ("records", "count", "status"),
    [
        (GOOD, 1, "OK"),
        (record(6, 2, b"abc"), 1, "BAD_FIELD"),  # a gap
        (record(4, 2, b"abc"), 1, "BAD_FIELD"),  # already there
        (GOOD + record(5, 2), 2, "BAD_FIELD"),
        (GOOD + record(6, 1), 2, "BAD_FIELD"),  # terms never fall along a log
        (record(5, 1), 1, "BAD_FIELD"),  # nor below the entry before
        (record(5, 4), 1, "BAD_FIELD"),  # nor beyond the leader's own (paper Figure 2)
        (record(5, 2, b"abc", flags=1), 1, "BAD_FIELD"),
        (record(5, 2, b"abc", group=1), 1, "BAD_FIELD"),
        (record(5, 2, b"abc", reserved=1), 1, "BAD_FIELD"),
        (record(5, 2, b"abc", padding=1), 1, "BAD_FIELD"),
        (record(5, 2, b"abc", version=2), 1, "BAD_VERSION"),
        (GOOD, 2, "BAD_LENGTH"),
        (GOOD, 0, "BAD_LENGTH"),
        (b"", 1, "BAD_LENGTH"),
    ],
)
def test_records_continue_the_log_or_are_refused(records: bytes, count: int, status: str) -> None:
    """An APPEND after (index 4, term 2) by a leader of term 3."""
    fields = message("APPEND", term=3, index=4, log_term=2, count=count)
    assert message_decode(packed(fields), guarded(records))[0] == Status[status]


def test_an_append_at_the_end_of_all_indexes_does_not_wrap() -> None:
    """The largest index has no next one."""
    fields = message("APPEND", term=3, index=2**63 - 1, log_term=2, count=1)
    assert message_decode(packed(fields), guarded(record(2**63, 2)))[0] == Status.BAD_FIELD


@pytest.mark.parametrize(
    ("records", "count", "status"),
    [
        (b"", 0, "BAD_FIELD"),
        (b"", 1, "BAD_LENGTH"),
        (payloads(b"a", b"bc"), 1, "BAD_LENGTH"),
        (payloads(b"a", b"bc"), 3, "BAD_LENGTH"),
        (payloads(b"a", b""), 2, "BAD_LENGTH"),
        (payloads(b"a")[:-1], 1, "BAD_LENGTH"),
        (payloads(b"abcd")[:-1], 2, "BAD_LENGTH"),
        (b"\xff\xff\xff\xffabc", 1, "BAD_LENGTH"),
        (payloads(b"a") + b"\0", 1, "BAD_LENGTH"),
        (payloads(b"a"), 2**32 - 1, "BAD_LENGTH"),
    ],
)
def test_payloads_that_do_not_add_up_are_refused(records: bytes, count: int, status: str) -> None:
    """Each length is checked against what is left before it is believed."""
    assert message_decode(packed(message("PROPOSE", count=count)), guarded(records))[0] == Status[status]


@pytest.mark.parametrize(
    ("changes", "records", "status"),
    [
        ({"count": 0}, b"", "BAD_FIELD"),
        ({"count": 2}, record(5, 1) + record(6, 1), "BAD_FIELD"),
        ({"count": 1}, record(6, 1), "BAD_FIELD"),
        ({"count": 1}, record(5, 1) + record(6, 1), "BAD_LENGTH"),
        ({"count": 1, "reject": 1}, record(5, 1), "BAD_LENGTH"),
        ({"count": 1}, b"", "BAD_LENGTH"),
    ],
)
def test_an_entry_response_carries_exactly_what_was_asked(changes: dict[str, int], records: bytes, status: str) -> None:
    """Entry 5 was asked for."""
    fields = message("ENTRY_RESPONSE", index=5, **changes)
    assert message_decode(packed(fields), guarded(records))[0] == Status[status]


def test_a_membership_proposal_without_bytes_is_refused() -> None:
    """An empty membership is none."""
    assert message_decode(packed(message("MEMBERSHIP_PROPOSE")))[0] == Status.BAD_LENGTH
