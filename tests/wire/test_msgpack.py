"""The msgpack primitives: the bytes of the `msgpack` package, and no other bytes, mean a value."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.wire import pack, unpack
from tests.wire.guarded import guarded
from tests.wire.names import Status

INTEGERS = st.integers(-(2**63), 2**64 - 1)
# Where a form ends and the next begins.
EDGES = [edge + step for bits in (5, 7, 8, 15, 16, 31, 32, 63) for edge in (2**bits, -(2**bits)) for step in (-1, 0, 1)]
EDGES = [edge for edge in EDGES if -(2**63) <= edge < 2**64] + [2**64 - 1]
LENGTHS = [0, 1, 31, 32, 255, 256, 65535, 65536]
SCALARS = st.none() | st.booleans() | INTEGERS | st.sampled_from(EDGES) | st.binary(max_size=40)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=20), max_leaves=60)

# Each means a number, a bin or an array, in more bytes than it needs.
TOO_LONG = [
    "cc7f",
    "cd00ff",
    "ce0000ffff",
    "cf00000000ffffffff",
    "d0ff",
    "d0e0",
    "d000",
    "d1ff80",
    "d10001",
    "d2ffff8000",
    "d200000001",
    "d3ffffffff80000000",
    "d30000000000000001",
    "c5000161",
    "c50000",
    "c6000000ff" + "00" * 255,
    "dc000101",
    "dc0000",
    "dd00000010" + "01" * 16,
]
# What msgpack has and raftmeta does not: str, floats, maps, ext, the byte that is never used.
UNKNOWN = ["a161", "d90161", "ca00000000", "cb0000000000000000", "80", "de0000", "d40101", "c70101ff", "c1"]


def reference(value: object) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


@given(VALUES)
def test_packed_values_are_those_of_the_msgpack_package(value: Any) -> None:
    """Both directions, with the input ending at an unreadable page."""
    packed = pack(value)
    assert packed == reference(value)
    assert unpack(guarded(packed)) == (Status.OK, value)


@pytest.mark.parametrize("number", EDGES)
def test_an_integer_at_the_edge_of_a_form_is_packed_shortest(number: int) -> None:
    """The edges of every form, one below and one above."""
    assert pack(number) == reference(number)
    assert unpack(pack(number)) == (Status.OK, number)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_bin_or_array_at_the_edge_of_a_form_is_packed_shortest(length: int) -> None:
    """The lengths at which the head grows."""
    for value in (bytes(length), [0] * length):
        assert pack(value) == reference(value)
        assert unpack(guarded(pack(value))) == (Status.OK, value)


@pytest.mark.parametrize("text", TOO_LONG)
def test_a_longer_form_than_needed_is_refused(text: str) -> None:
    """One meaning, one encoding; the msgpack package itself would read each of these."""
    data = bytes.fromhex(text)
    msgpack.unpackb(data)
    assert unpack(guarded(data)) == (Status.BAD_FIELD, None)


@pytest.mark.parametrize("text", UNKNOWN)
def test_types_that_raftmeta_does_not_speak_are_refused(text: str) -> None:
    """No str, float, map or ext."""
    assert unpack(guarded(bytes.fromhex(text))) == (Status.BAD_FIELD, None)


@given(VALUES)
def test_every_prefix_of_a_value_is_too_short(value: Any) -> None:
    """A cut value is never another value."""
    packed = pack(value)
    for length in range(min(len(packed), 60)):
        assert unpack(guarded(packed[:length])) == (Status.BAD_LENGTH, None)


@given(st.binary(max_size=40) | VALUES.map(pack), st.binary(max_size=3))
def test_whatever_is_read_is_written_back_the_same(data: bytes, more: bytes) -> None:
    """Random bytes: refused, or the one encoding of what they mean."""
    status, value = unpack(guarded(data + more))
    if status == Status.OK:
        assert pack(value) == data + more
    else:
        assert status in (Status.BAD_LENGTH, Status.BAD_FIELD)


@pytest.mark.parametrize("head", ["dcffff", "ddffffffff", "9f", "c6ffffffff", "c5ffff", "c4ff"])
def test_a_length_beyond_the_input_is_refused_before_anything_is_made(head: str) -> None:
    """A bomb of five bytes asks for gigabytes and gets none."""
    assert unpack(guarded(bytes.fromhex(head))) == (Status.BAD_LENGTH, None)


def test_nesting_without_end_is_refused() -> None:
    """Depth is bounded, whatever the input says."""
    assert unpack(guarded(b"\x91" * 100_000)) == (Status.BAD_FIELD, None)
