"""Snapshot messages: what is said is read back, and nothing else is."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.names import read_enum
from tests.faces.wire import snapshot_message_decode, snapshot_message_encode
from tests.wire.names import Status

Kind = read_enum("SNAPSHOT_OFFER")
NUMBER = st.integers(0, 2**63 - 1)
UNSIGNED = st.integers(0, 2**64 - 1)
SOUND: dict[str, Any] = {
    "type": Kind.SNAPSHOT_PIECE, "point": (7, 3, 99), "size_bytes": 5000, "hash": (1, 2), "offset": 4000,
    "length": 1000,
}  # fmt: skip


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 2**63 - 1))
    kind = draw(st.sampled_from(list(Kind)))
    is_about_bytes = kind in (Kind.SNAPSHOT_FETCH, Kind.SNAPSHOT_PIECE)
    length = draw(st.integers(1, min(size, 1 << 20))) if is_about_bytes else 0
    return {
        "type": kind,
        "point": (draw(st.integers(1, 2**63 - 1)), draw(st.integers(1, 2**63 - 1)), draw(UNSIGNED)),
        "size_bytes": size,
        "hash": (draw(UNSIGNED), draw(UNSIGNED)),
        "offset": draw(st.integers(0, size - length)) if is_about_bytes else 0,
        "length": length,
    }


def piece_bytes(fields: dict[str, Any]) -> int:
    return int(fields["length"]) if fields["type"] == Kind.SNAPSHOT_PIECE else 0


@given(messages())
def test_what_is_said_is_read_back(fields: dict[str, Any]) -> None:
    """docs/formats.md "Snapshots": an array of nine, as the msgpack package writes it."""
    status, body = snapshot_message_encode(fields)
    assert status == Status.OK
    flat = [fields["type"], *fields["point"], fields["size_bytes"], *fields["hash"], fields["offset"], fields["length"]]
    assert body == msgpack.packb(flat)
    assert snapshot_message_decode(body, piece_bytes(fields)) == (Status.OK, fields)


@given(messages(), st.data())
def test_every_prefix_is_refused(fields: dict[str, Any], data: st.DataObject) -> None:
    body = snapshot_message_encode(fields)[1]
    cut = data.draw(st.integers(0, len(body) - 1))
    assert snapshot_message_decode(body[:cut], piece_bytes(fields))[0] != Status.OK


@given(st.binary(max_size=80), st.integers(0, 2**32 - 1))
def test_rubbish_is_never_more_than_refused(body: bytes, piece: int) -> None:
    snapshot_message_decode(body, piece)


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": 0},
        {"type": 5},
        {"point": (0, 3, 99)},
        {"point": (7, 0, 99)},
        {"size_bytes": 0},
        {"offset": 4001},
        {"offset": 5001, "length": 0},
        {"length": 0},
        {"length": (1 << 20) + 1, "size_bytes": 1 << 30},
        {"type": Kind.SNAPSHOT_OFFER},
        {"type": Kind.SNAPSHOT_GONE, "length": 0},
    ],
)
def test_a_message_that_makes_no_sense_is_neither_sent_nor_taken(wrong: dict[str, Any]) -> None:
    fields = {**SOUND, **wrong}
    assert snapshot_message_encode(fields)[0] == Status.BAD_FIELD
    flat = [fields["type"], *fields["point"], fields["size_bytes"], *fields["hash"], fields["offset"], fields["length"]]
    assert snapshot_message_decode(msgpack.packb(flat), piece_bytes(fields))[0] != Status.OK


def test_a_piece_is_as_long_as_it_says() -> None:
    body = snapshot_message_encode(SOUND)[1]
    assert snapshot_message_decode(body, 999)[0] == Status.BAD_LENGTH
    assert snapshot_message_decode(body, 0)[0] == Status.BAD_LENGTH
    fetch = snapshot_message_encode({**SOUND, "type": Kind.SNAPSHOT_FETCH})[1]
    assert snapshot_message_decode(fetch, 1000)[0] == Status.BAD_LENGTH
