"""Results: what the machine's writers append is msgpack, and what callers read from it."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.errors import InvariantBroken
from raftmeta.operations import KeyRecord, RangeResult, TxnResult
from tests.faces.bindings import decode_result, decode_values
from tests.faces.wire import result_write
from tests.wire.names import Status

ANY_64 = st.integers(0, 2**64 - 1)
REVISIONS = st.integers(0, 2**63 - 1)
SIGNED = st.integers(-(2**63), 2**63 - 1)
STATUSES = st.integers(0, 63)
KEY_VIEWS = st.tuples(
    *(st.binary(min_size=1, max_size=480), st.binary(max_size=300)),
    *(ANY_64, ANY_64, ANY_64, ANY_64, st.integers(0, 2**32 - 1)),
)
# The parts of one operation's result, and what a caller gets for it.
Part = tuple[Any, ...]
Shape = tuple[list[Part], Any]


def key_shape(view: tuple[Any, ...]) -> Shape:
    return [("key", *view)], KeyRecord(*view[:6])


def range_shape(count: int, views: list[tuple[Any, ...]]) -> Shape:
    parts: list[Part] = [("array", 2), ("unsigned", count), ("array", len(views)), *(("key", *view) for view in views)]
    return parts, RangeResult(count, [KeyRecord(*view[:6]) for view in views])


def txn_shape(succeeded: bool, shapes: list[Shape]) -> Shape:
    parts: list[Part] = [("array", 2), ("bool", succeeded), ("array", len(shapes))]
    return [*parts, *(part for shape, _ in shapes for part in shape)], TxnResult(
        succeeded, [value for _, value in shapes]
    )


OP_SHAPES: st.SearchStrategy[Shape] = st.one_of(
    st.just(([("nil",)], None)),
    SIGNED.map(lambda number: ([("number", number)], number)),
    ANY_64.map(lambda number: ([("unsigned", number)], number)),
    KEY_VIEWS.map(key_shape),
    st.builds(range_shape, ANY_64, st.lists(KEY_VIEWS, max_size=3)),
)
TXN_SHAPES = st.recursive(
    st.builds(txn_shape, st.booleans(), st.lists(OP_SHAPES, max_size=4)),
    lambda inner: st.builds(txn_shape, st.booleans(), st.lists(OP_SHAPES | inner, max_size=3)),
    max_leaves=4,
)
BODIES = TXN_SHAPES | OP_SHAPES | st.binary(max_size=50).map(lambda text: ([("bytes", text)], text))


def plain(value: Any, parts: list[Part]) -> Any:
    """The value with the flags of key records, which callers do not get, taken from the parts in order."""
    if isinstance(value, KeyRecord):
        while parts[0][0] != "key":
            parts.pop(0)
        return [*value, parts.pop(0)[7]]
    if isinstance(value, RangeResult):
        return [value.count, [plain(record, parts) for record in value.records]]
    if isinstance(value, TxnResult):
        return [value.succeeded, [plain(each, parts) for each in value.results]]
    return value


@given(STATUSES, REVISIONS, BODIES)
def test_a_result_is_msgpack_and_reads_back(status: int, revision: int, body: Shape) -> None:
    """[status, revision, body]: bytes equal those of the msgpack package, values are those of operations.py."""
    parts, value = body
    written = result_write([("begin", status, revision), *parts])
    assert written == msgpack.packb([status, revision, plain(value, list(parts))], use_bin_type=True)
    assert decode_result(written) == (status, revision, value)


@given(st.lists(KEY_VIEWS, max_size=3), st.booleans())
def test_a_range_says_whether_there_is_more(views: list[tuple[Any, ...]], more: bool) -> None:
    """[records, more]; the count that callers see is that of the records."""
    written = result_write(
        [("begin", 0, 5), ("array", 2), ("array", len(views)), *(("key", *view) for view in views), ("bool", more)]
    )
    assert written == msgpack.packb([0, 5, [[list(view) for view in views], more]], use_bin_type=True)
    expected = RangeResult(len(views), [KeyRecord(*view[:6]) for view in views], more)
    assert decode_result(written) == (0, 5, expected)


@given(st.lists(KEY_VIEWS, max_size=5))
def test_records_one_after_another_read_back(views: list[tuple[Any, ...]]) -> None:
    """What a range read of the machine appends."""
    written = result_write([("key", *view) for view in views])
    records = decode_values(written)
    assert records == [KeyRecord(*view[:6]) for view in views]
    assert all(type(record) is KeyRecord for record in records)


def test_items_of_a_watch_read_back() -> None:
    """[kind, revision, wall_ms, [[type, record, previous], ...], more]: arrays that are no result stay lists."""
    record = [b"k", b"v", 1, 2, 3, 4, 0]
    item = [1, 9, 1234, [[1, record, None], [2, record, record]], False]
    shown = KeyRecord(b"k", b"v", 1, 2, 3, 4)
    expected = [1, 9, 1234, [[1, shown, None], [2, shown, shown]], False]
    assert decode_values(msgpack.packb(item) * 2) == [expected, expected]


@given(BODIES)
def test_every_prefix_of_a_result_is_refused(body: Shape) -> None:
    """As an error and never as another result; so is one with something behind it."""
    written = result_write([("begin", 0, 5), *body[0]])
    for length in range(min(len(written), 300)):
        with pytest.raises(InvariantBroken):
            decode_result(written[:length])
    with pytest.raises(InvariantBroken, match="left"):
        decode_result(written + b"\0")


@given(st.binary(max_size=60))
def test_random_bytes_are_no_result(data: bytes) -> None:
    """A value or InvariantBroken, nothing else."""
    for prefix in (b"", b"\x93\0\0", b"\x93\0\0\x97\xc4\1k"):
        try:
            status, revision, _ = decode_result(prefix + data)
        except InvariantBroken:
            continue
        assert 0 <= status <= 255 and 0 <= revision < 2**63


@pytest.mark.parametrize("data", [b"\x91" * 50, b"\x92\xc3" * 50, b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"])
def test_a_bomb_is_no_result(data: bytes) -> None:
    """Depth and lengths are bounded."""
    with pytest.raises(InvariantBroken):
        decode_values(data)


def test_a_key_record_is_a_tuple_with_names() -> None:
    """Made natively, and the same as one made by hand: equal, hashable, unpackable, printable."""
    (record,) = decode_values(result_write([("key", b"k", b"v", 1, 2, 3, 4, 2)]))
    by_hand = KeyRecord(key=b"k", value=b"v", create_revision=1, mod_revision=2, version=3, lease=4)
    assert record == by_hand and hash(record) == hash(by_hand) and repr(record) == repr(by_hand)
    key, value, *numbers = record
    assert (key, value, numbers) == (b"k", b"v", [1, 2, 3, 4])


def test_statuses_of_results_keep_their_numbers() -> None:
    """FORMAT: they stand in session tables and client frames."""
    assert [Status.OK, Status.KEY_EXISTS, Status.FENCED, Status.RESULT_EVICTED, Status.NO_LEADER] == [0, 1, 4, 16, 32]
