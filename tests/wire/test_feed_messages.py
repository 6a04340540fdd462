"""Messages beside a feed: what is said is read back, and nothing else is (docs/formats.md "Frame")."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.wire import feeders_decode, feeders_encode, observers_decode, observers_encode
from tests.wire.guarded import guarded
from tests.wire.names import Status

NUMBER = st.integers(0, 2**63 - 1)
ID = st.integers(1, 2**64 - 1)
FEEDERS_MAX, OBSERVERS_MAX = 16, 512
LETTERS = st.characters(codec="utf-8", categories=("L", "N", "P"))


def text(most: int) -> st.SearchStrategy[bytes]:
    return st.text(LETTERS, min_size=1, max_size=most // 4).map(str.encode)


FEEDERS = st.lists(st.tuples(ID, text(64), text(255)), max_size=FEEDERS_MAX)
OBSERVERS = st.lists(st.tuples(ID, ID, NUMBER, NUMBER, text(64)), max_size=20)


@given(FEEDERS)
def test_named_feeders_are_read_back(feeders: list[tuple[int, bytes, bytes]]) -> None:
    status, body = feeders_encode(feeders)
    assert (status, body) == (Status.OK, msgpack.packb(feeders))
    assert feeders_decode(guarded(body)) == (Status.OK, feeders)


@given(OBSERVERS)
def test_a_report_is_read_back(observers: list[tuple[int, int, int, int, bytes]]) -> None:
    status, body = observers_encode(observers)
    assert (status, body) == (Status.OK, msgpack.packb(observers))
    assert observers_decode(guarded(body)) == (Status.OK, observers)


@pytest.mark.parametrize("wrong", [b"", b"a\n", b"\xff", b"x\x7f", "a\u2028".encode(), b"n" * 65])
def test_a_name_that_is_no_text_is_refused(wrong: bytes) -> None:
    """Names and addresses of others are shown to people."""
    assert feeders_decode(guarded(msgpack.packb([[1, wrong, b"h:1"]])))[0] == Status.BAD_FIELD
    assert observers_decode(guarded(msgpack.packb([[1, 2, 3, 4, wrong]])))[0] == Status.BAD_FIELD
    if len(wrong) < 65:
        assert feeders_decode(guarded(msgpack.packb([[1, b"a", wrong]])))[0] == Status.BAD_FIELD


@pytest.mark.parametrize("row", [[0, b"a", b"h:1"], [1, b"a"], [1, b"a", b"h:1", 2], [1, b"a", b"h" * 256], [1, 2, 3]])
def test_a_feeder_of_another_shape_is_refused(row: list[object]) -> None:
    assert feeders_decode(guarded(msgpack.packb([row])))[0] == Status.BAD_FIELD


@pytest.mark.parametrize("row", [[0, 2, 3, 4, b"a"], [1, 0, 3, 4, b"a"], [1, 2, 3, 4], [1, 2, 2**63, 4, b"a"]])
def test_an_observer_of_another_shape_is_refused(row: list[object]) -> None:
    assert observers_decode(guarded(msgpack.packb([row])))[0] == Status.BAD_FIELD


def test_more_than_the_bound_is_neither_said_nor_read() -> None:
    feeder, observer = (1, b"a", b"h:1"), (1, 2, 3, 4, b"a")
    assert feeders_encode([feeder] * (FEEDERS_MAX + 1))[0] == Status.BAD_FIELD
    assert observers_encode([observer] * (OBSERVERS_MAX + 1))[0] == Status.BAD_FIELD
    assert feeders_decode(guarded(msgpack.packb([feeder] * (FEEDERS_MAX + 1))))[0] == Status.BAD_FIELD
    assert observers_decode(guarded(msgpack.packb([observer] * (OBSERVERS_MAX + 1))))[0] == Status.BAD_FIELD
    assert observers_decode(guarded(msgpack.packb([observer] * OBSERVERS_MAX)))[0] == Status.OK


@given(FEEDERS.filter(bool), st.data())
def test_any_prefix_is_refused(feeders: list[tuple[int, bytes, bytes]], data: st.DataObject) -> None:
    body = msgpack.packb(feeders)
    assert feeders_decode(guarded(body[: data.draw(st.integers(0, len(body) - 1))]))[0] != Status.OK
