"""JSON of etcd's gateway: to messages and back, against a plain model of proto3's mapping."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.etcd_json import messages, to_json, to_message

OK, INCOMPLETE, BAD_FIELD = 0, 64, 69
MESSAGES = messages()
NUMBERED = [number for number, fields in enumerate(MESSAGES) if fields]
NUMBERS = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "uint32": st.integers(0, 2**32 - 1),
}


def varint(number: int) -> bytes:
    made = bytearray()
    number &= 2**64 - 1
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def encode(message: int, value: dict[str, Any]) -> bytes:
    """The bytes of a message whose values are Python's."""
    made = b""
    for number, name, kind, is_list, of in MESSAGES[message]:
        for one in value.get(name, []) if is_list else [value[each] for each in (name,) if each in value]:
            if kind in ("bytes", "text", "message"):
                inner = encode(of, one) if kind == "message" else one.encode() if kind == "text" else one  # type: ignore[arg-type]
                made += varint(number << 3 | 2) + varint(len(inner)) + inner
            else:
                made += varint(number << 3) + varint(of.index(one) if kind == "enum" else int(one))  # type: ignore[union-attr]
    return made


def shown(message: int, value: dict[str, Any]) -> dict[str, Any]:
    """The same as JSON shows it."""
    told = {}
    for _, name, kind, is_list, of in MESSAGES[message]:
        if name in value:
            made = [
                shown(of, one)  # type: ignore[arg-type]
                if kind == "message"
                else base64.b64encode(one).decode()
                if kind == "bytes"
                else str(one)
                if kind in ("int64", "uint64")
                else one
                for one in (value[name] if is_list else [value[name]])
            ]
            if made:
                told[name] = made if is_list else made[0]
    return told


@st.composite
def values(draw: st.DrawFn, message: int, depth: int = 0) -> dict[str, Any]:
    made = {}
    for _, name, kind, is_list, of in MESSAGES[message]:
        if kind == "message" and depth > 2:
            continue
        if draw(st.booleans()):
            one: st.SearchStrategy[Any]
            if kind == "message":
                one = values(of, depth + 1)  # type: ignore[arg-type]
            elif kind == "enum":
                one = st.sampled_from(of)  # type: ignore[arg-type]
            else:
                one = {"bytes": st.binary(max_size=9), "text": st.text(max_size=9), "bool": st.booleans(), **NUMBERS}[
                    kind
                ]
            made[name] = draw(st.lists(one, max_size=2) if is_list else one)
    return made


@given(st.data())
def test_every_message_is_shown_and_read_as_proto3_maps_it(data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(NUMBERED))
    value = data.draw(values(message))
    status, text = to_json(message, encode(message, value))
    assert (status, json.loads(text)) == (OK, shown(message, value))
    assert to_message(message, text) == (OK, len(text), encode(message, value))


@given(st.data())
def test_a_request_that_is_cut_short_is_incomplete_and_leaves_nothing(data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(NUMBERED))
    text = json.dumps(shown(message, data.draw(values(message)))).encode()
    for length in range(len(text)):
        status, _, made = to_message(message, text[:length])
        assert (status, made) == (INCOMPLETE, b"")


@given(st.binary(max_size=60), st.sampled_from(NUMBERED))
def test_foreign_bytes_are_refused_or_read_and_never_more(data: bytes, message: int) -> None:
    assert to_json(message, data)[0] in (OK, BAD_FIELD)
    status, used, _ = to_message(message, data)
    assert status in (OK, INCOMPLETE, BAD_FIELD)
    assert used <= len(data)


def message_with(*names: str) -> int:
    """The first message that begins with these fields."""
    return next(number for number in NUMBERED if [field[1] for field in MESSAGES[number]][: len(names)] == list(names))


RANGE = message_with("key", "range_end", "limit")
PUT = message_with("key", "value", "lease")
GRANT = message_with("TTL", "ID")
WATCH = message_with("create_request")
STATUS_REPLY = message_with("header", "version")
MEMBER = message_with("ID", "name")


def request_of(message: int, text: str) -> tuple[int, bytes]:
    status, _, made = to_message(message, text.encode())
    return status, made


@pytest.mark.parametrize(
    ("message", "text", "made"),
    [
        (RANGE, ' {"key" : "Zm9v", "rangeEnd": "Zm9w"} ', b"\x0a\x03foo\x12\x03fop"),
        (RANGE, '{"limit": 5, "serializable": true, "sort_order": 2}', b"\x18\x05\x38\x01\x28\x02"),
        (RANGE, '{"limit": "-1", "sort_target": "VALUE"}', b"\x18" + b"\xff" * 9 + b"\x01\x30\x04"),
        (RANGE, '{"key": null, "unknown": {"a": [1e5, "\\u00e9", {}, true]}, "limit": 1}', b"\x18\x01"),
        (PUT, '{"key":"_-8","value":"/+8="}', b"\x0a\x02\xff\xef\x12\x02\xff\xef"),
        (PUT, '{"key": "YQ\\u003d\\u003d", "value":"YWI\\/"}', b"\x0a\x01a\x12\x03ab\x3f"),
        (GRANT, '{"TTL":10,"ID":"0"}', b"\x08\x0a\x10\x00"),
        (WATCH, '{"create_request":{"filters":["NODELETE"],"watch_id":3}}', b"\x0a\x04\x28\x01\x38\x03"),
        (MEMBER, '{"name": "\\ud83d\\ude00"}', b"\x12\x04\xf0\x9f\x98\x80"),
    ],
)
def test_what_programs_write_is_understood(message: int, text: str, made: bytes) -> None:
    assert request_of(message, text) == (OK, made)


@pytest.mark.parametrize(
    "text",
    [
        '{"key": "Zm9v!"}',
        '{"key": "Zm9vA"}',
        '{"key": "Zg="}',
        '{"key": 5}',
        '{"limit": 9223372036854775808}',
        '{"limit": -9223372036854775809}',
        '{"limit": "1.5"}',
        '{"limit": ""}',
        '{"limit": "-"}',
        '{"limit": true}',
        '{"sort_order": "UP"}',
        '{"serializable": "true"}',
        '{"key": "\\x"}',
        '{"key" "Zm9v"}',
        '{"key": "Zm9v",}',
        "[]",
        '{"a": ' + "[" * 40 + "]" * 40 + "}",
        '{"key": "\\ud800"}',
    ],
)
def test_what_is_no_request_is_refused(text: str) -> None:
    assert request_of(RANGE, text) == (BAD_FIELD, b"")


def test_objects_may_follow_one_another() -> None:
    text = b'{"create_request":{}}\n {"progress_request":{}}'
    status, used, made = to_message(WATCH, text)
    assert (status, text[used:], made) == (OK, b'\n {"progress_request":{}}', b"\x0a\x00")
    assert to_message(WATCH, text[used:]) == (OK, len(text) - used, b"\x1a\x00")


def test_text_that_would_end_a_string_is_escaped() -> None:
    status, text = to_json(STATUS_REPLY, b'\x12\x05"\\\n\x01z')
    assert (status, text) == (OK, b'{"version":"\\"\\\\\\u000a\\u0001z"}')
