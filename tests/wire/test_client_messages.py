"""The client protocol's codec: every prefix, every flipped bit, nothing read behind the end."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftmeta.bindings.requests import MessageDecoder, hello_frame
from tests.faces.client_messages import (
    CLIENT_BODY_BYTES_MAX,
    CLIENT_HEADER_BYTES,
    client_frame_decode,
    client_message_decode,
    client_message_encode,
    client_request_decode,
    client_request_encode,
)
from tests.wire.guarded import flipped_bits, guarded
from tests.wire.names import Status

# Kind: its fields behind kind and id, in the order of docs/formats.md "Client protocol".
FIELDS: dict[int, list[str]] = {
    1: ["key"],
    2: ["flags", "number", "key"],
    3: ["flags", "number", "limit", "key", "end"],
    4: ["flags", "number", "key", "end"],
    5: ["number"],
    6: [],
    7: [],
    8: ["key"],
    9: ["flags"],
    10: ["number", "key"],
    11: ["key", "end"],
    12: [],
    13: ["number", "limit"],
    14: ["flags", "key", "end"],
    15: ["number"],
    16: ["flags", "key", "end"],
    17: ["flags", "number", "limit", "key", "end", "skip", "delimiter"],
    19: ["flags", "number", "limit"],
}
FLAGS = {2: 1, 3: 7, 4: 15, 9: 1, 14: 1, 16: 1, 17: 7, 19: 3}
LIMITS = {3: 2**32 - 1, 13: 1 << 20, 17: 2**32 - 1, 19: 2**32 - 1}
ANY_64 = st.integers(0, 2**64 - 1)
NUMBERS = st.integers(0, 2**63 - 1)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(FIELDS)))
    has = FIELDS[kind]
    least = 1 if kind in (1, 2, 10, 11, 14, 16) else 0
    return {
        "kind": kind,
        "id": draw(ANY_64),
        "flags": draw(st.integers(0, FLAGS[kind])) if "flags" in has else 0,
        "number": draw(ANY_64 if kind in (5, 15) else NUMBERS) if "number" in has else 0,
        "limit": draw(st.integers(0, LIMITS[kind])) if "limit" in has else 0,
        "key": draw(st.binary(min_size=least, max_size=64)) if "key" in has else b"",
        "end": draw(st.binary(max_size=64)) if "end" in has else b"",
        "skip": draw(st.integers(0, 480)) if "skip" in has else 0,
        "delimiter": draw(st.binary(min_size=1, max_size=9)) if "delimiter" in has else b"",
    }


MESSAGES = st.tuples(st.integers(1, 5), ANY_64, st.integers(0, 127), NUMBERS, NUMBERS, st.binary(max_size=100))


def body_of(frame: bytes) -> bytes:
    return frame[CLIENT_HEADER_BYTES:]


@given(requests())
def test_a_request_is_what_the_msgpack_package_writes_and_comes_back(fields: dict[str, Any]) -> None:
    """One encoding of each meaning, by the table of docs/formats.md."""
    status, frame = client_request_encode(fields)
    assert status == Status.OK
    expected = [fields["kind"], fields["id"], *(fields[name] for name in FIELDS[fields["kind"]])]
    assert body_of(frame) == msgpack.packb(expected, use_bin_type=True)
    assert client_frame_decode(guarded(frame), CLIENT_BODY_BYTES_MAX) == (Status.OK, len(frame))
    assert client_request_decode(guarded(body_of(frame))) == (Status.OK, fields)


@given(MESSAGES)
def test_a_message_comes_back(message: tuple[int, int, int, int, int, bytes]) -> None:
    status, frame = client_message_encode(message)
    assert status == Status.OK
    assert body_of(frame) == msgpack.packb(message, use_bin_type=True)
    assert client_message_decode(guarded(body_of(frame))) == (Status.OK, message)


@settings(max_examples=20)
@given(requests())
def test_no_prefix_and_no_flipped_bit_is_a_request(fields: dict[str, Any]) -> None:
    """A part of a frame is incomplete; one with a bit changed is refused or waits for more, and is never taken."""
    _, frame = client_request_encode(fields)
    for length in range(len(frame)):
        assert client_frame_decode(guarded(frame[:length]), CLIENT_BODY_BYTES_MAX)[0] == Status.INCOMPLETE
        if length >= CLIENT_HEADER_BYTES:
            assert client_request_decode(guarded(frame[CLIENT_HEADER_BYTES:length]))[0] != Status.OK
    for flipped in flipped_bits(frame):
        assert client_frame_decode(guarded(flipped), CLIENT_BODY_BYTES_MAX)[0] != Status.OK


@given(st.binary(max_size=200))
@example(msgpack.packb([3, 1, 8, 0, 0, b"a", b"b"]))  # an unknown flag
@example(msgpack.packb([2, 1, 0, 0, b""]))  # an empty key
@example(msgpack.packb([2, 1, 0, 0, b"k", 1]))  # one element too many
@example(msgpack.packb([17, 1, 0, 0, 0, b"a", b"b", 0, b""]))  # an empty delimiter
@example(msgpack.packb([17, 1, 0, 0, 0, b"a", b"b", 481, b"/"]))  # behind more bytes than a key has
@example(msgpack.packb([0, 1]))  # no such kind
@example(msgpack.packb([99, 1, b"later"]))  # of a later version
@example(b"\xdc\x00\x02\x06\x01")  # not the shortest form
def test_what_is_decoded_is_what_would_be_encoded(body: bytes) -> None:
    """Whatever bytes come: refused, or exactly the text of the request that was read."""
    status, fields = client_request_decode(guarded(body))
    if fields is None:
        assert status in (Status.BAD_FIELD, Status.BAD_LENGTH, Status.BAD_VERSION)
    else:
        assert body_of(client_request_encode(fields)[1]) == body


@pytest.mark.parametrize("length", [0, CLIENT_BODY_BYTES_MAX + 1, 2**32 - 1])
def test_the_length_alone_decides_that_a_frame_is_too_long(length: int) -> None:
    """Four bytes are enough: nobody waits, or takes memory, for what is not accepted anyway."""
    assert client_frame_decode(length.to_bytes(4, "little"), CLIENT_BODY_BYTES_MAX)[0] == Status.BAD_LENGTH


@given(st.lists(MESSAGES, min_size=1, max_size=5), st.lists(st.integers(1, 50), max_size=20))
def test_messages_come_in_any_pieces(messages: list[Any], cuts: list[int]) -> None:
    """The decoder of the client library gives the same messages however the stream was cut."""
    stream = b"".join(client_message_encode(message)[1] for message in messages)
    decoder, found, at = MessageDecoder(), [], 0
    for cut in [*cuts, len(stream)]:
        found += decoder.feed(stream[at : at + cut])
        at += cut
    assert found == messages


@given(st.binary(min_size=1, max_size=300))
def test_a_stream_of_anything_is_refused_as_a_connection_error(data: bytes) -> None:
    """A client that talks to something else gets one kind of error, or waits for more."""
    decoder = MessageDecoder()
    with contextlib.suppress(ConnectionError):
        assert decoder.feed(data) == []


def test_a_hello_is_a_frame() -> None:
    frame = hello_frame("default", "me")
    assert client_frame_decode(frame, 4096) == (Status.OK, len(frame))
    assert msgpack.unpackb(body_of(frame))[0] == 2
