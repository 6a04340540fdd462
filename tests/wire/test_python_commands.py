"""Commands from Python objects: the bytes they mean, and errors that name the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.errors import InvalidArgument
from raftmeta.operations import (
    Add,
    Compare,
    Create,
    CreateRevision,
    Delete,
    DeleteRange,
    Fence,
    Get,
    LeaseId,
    ModRevision,
    Put,
    Range,
    RangeEmpty,
    Txn,
    Update,
    Value,
    Version,
    prefix_end,
)
from tests.faces.bindings import encode_operation, encode_txn
from tests.faces.wire import CommandDecoder
from tests.wire.names import Status

# An operation and what stands for it in the message (docs/formats.md "Commands").
OPERATIONS: list[tuple[Any, list[Any]]] = [
    (Put("k", b"v"), [1, 0, b"k", b"v", 0, 0]),
    (Put(b"k", "ü", lease=2**64 - 1, previous=True), [1, 1, b"k", "ü".encode(), 2**64 - 1, 0]),
    (Put("k", None, lease=3), [1, 16, b"k", b"", 3, 0]),
    (Put("k", b"v", lease=None), [1, 4, b"k", b"v", 0, 0]),
    (Create("k", b"v", lease=7), [2, 0, b"k", b"v", 7, 0]),
    (Update("k", b"v", expected_revision=9, previous=True), [3, 1, b"k", b"v", 0, 9]),
    (Update("k", None, lease=None), [3, 20, b"k", b"", 0, 0]),
    (Delete("k"), [4, 0, b"k", 0]),
    (Delete("k", expected_revision=5, must_exist=True, previous=True), [4, 3, b"k", 5]),
    (DeleteRange("a", "b"), [5, 0, b"a", b"b"]),
    (DeleteRange.prefix("a/", previous=True), [5, 1, b"a/", b"a0"]),
    (Get("k"), [6, 0, b"k"]),
    (Range(""), [7, 0, b"", b"", 0]),
    (Range.prefix(b"\xff", limit=2**32 - 1), [7, 0, b"\xff", b"", 2**32 - 1]),
    (Add("n"), [8, 0, b"n", 1]),
    (Add("n", -(2**63)), [8, 0, b"n", -(2**63)]),
]
COMPARES: list[tuple[Any, list[Any]]] = [
    (Version("k") == 3, [1, 1, b"k", 3]),
    (CreateRevision(b"k") != 0, [2, 2, b"k", 0]),
    (ModRevision("k") < 2**63, [3, 3, b"k", 2**63]),
    (ModRevision("k") > 1, [3, 4, b"k", 1]),
    (Value("k") == b"v", [4, 1, b"k", b"v"]),
    (Value("k") != "v", [4, 2, b"k", b"v"]),
    (Value("k") < b"", [4, 3, b"k", b""]),
    (Value("k") > b"v", [4, 4, b"k", b"v"]),
    (LeaseId("k") == 2**64 - 1, [5, 1, b"k", 2**64 - 1]),
    (RangeEmpty("a", "b"), [6, 1, b"a", b"b"]),
    (RangeEmpty.prefix("a/", is_empty=False), [6, 2, b"a/", b"a0"]),
]


def packed(txn: list[Any], *, session: int = 0, sequence: int = 0, lowest: int = 0, fence: Any = None) -> bytes:
    return msgpack.packb([1, session, sequence, lowest, fence, txn], use_bin_type=True)


@pytest.mark.parametrize(("operation", "wire"), OPERATIONS, ids=lambda value: str(value)[:40])
def test_an_operation_means_its_bytes(operation: Any, wire: list[Any]) -> None:
    """Alone, as the only one of a transaction, and behind a fence in a session."""
    assert encode_operation(operation) == packed([[], [wire], []])
    assert encode_txn(then=[operation]) == packed([[], [wire], []])
    assert encode_txn(otherwise=[operation]) == packed([[], [], [wire]])
    rest = {"session": 2**64 - 1, "sequence": 6, "lowest_unanswered": 5, "fence": Fence("lead", 4)}
    expected = packed([[], [wire], []], session=2**64 - 1, sequence=6, lowest=5, fence=[b"lead", 4])
    assert encode_operation(operation, **rest) == encode_txn(then=[operation], **rest) == expected
    assert CommandDecoder().decode(expected)[0] == Status.OK


@pytest.mark.parametrize(("compare", "wire"), COMPARES, ids=lambda value: str(value)[:40])
def test_a_compare_means_its_bytes(compare: Any, wire: list[Any]) -> None:
    """Operators make compares; they compare nothing."""
    payload = encode_txn([compare])
    assert payload == packed([[wire], [], []])
    assert CommandDecoder().decode(payload)[0] == Status.OK


def test_transactions_nest_and_lists_may_be_any_iterable() -> None:
    """What a generator makes lives until it is encoded."""
    then = (Put(b"key/%d" % number, b"value %d" % number) for number in range(100))
    nested = Txn([Version("k") == 0], iter([Get("a"), Txn(then=[Get("b")])]), (Get("c"),))
    inner = [9, 0, [[], [[6, 0, b"b"]], []]]
    wire = [9, 0, [[[1, 1, b"k", 0]], [[6, 0, b"a"], inner], [[6, 0, b"c"]]]]
    puts = [[1, 0, b"key/%d" % number, b"value %d" % number, 0, 0] for number in range(100)]
    assert encode_txn(iter([LeaseId("l") != 0]), then, [nested]) == packed([[[5, 2, b"l", 0]], puts, [wire]])


def test_a_key_takes_its_number_from_an_earlier_addition() -> None:
    """number_from is the position in the same list."""
    payload = encode_txn(
        then=[Get("x"), Add("n"), Create("job/", b"", number_from=1), Put("last/", b"", number_from=1)]
    )
    wire = [[6, 0, b"x"], [8, 0, b"n", 1], [2, 8, b"job/", b"", 0, 1], [1, 8, b"last/", b"", 0, 1]]
    assert payload == packed([[], wire, []])
    for earlier in ([], [Get("x")]):
        with pytest.raises(InvalidArgument, match="position of an Add") as error:
            encode_txn(then=[*earlier, Put("k", b"", number_from=0)])
        assert error.value.field == f"then[{len(earlier)}].number_from"


WRONG: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: Put(3, b""), "key", "must be bytes or str, not int"),  # type: ignore[arg-type]
    (lambda: Put("", b""), "key", "is empty"),
    (lambda: Put("k" * 481, b""), "key", "has 481 bytes, at most 480"),
    (lambda: Put("ü" * 241, b""), "key", "has 482 bytes"),
    (lambda: Put("\ud800", b""), "key", "has no UTF-8 form"),
    (lambda: Put("k", 1.5), "value", "must be bytes or str, not float"),  # type: ignore[arg-type]
    (lambda: Put("k", bytearray(b"v")), "value", "not bytearray"),  # type: ignore[arg-type]
    (lambda: Put("k", b"x" * 101), "value", "has 101 bytes, at most 100"),
    (lambda: Put("k", b"", lease=-1), "lease", "is -1, must be 0 to"),
    (lambda: Put("k", b"", lease=2**64), "lease", "must be 0 to 18446744073709551615"),
    (lambda: Put("k", b"", lease=True), "lease", "must be an int, not bool"),
    (lambda: Put("k", b"", previous=1), "previous", "must be a bool, not int"),  # type: ignore[arg-type]
    (lambda: Put("k", b"", number_from=2**16), "number_from", "must be 0 to 65535"),
    (lambda: Put("k" * 461, b"", number_from=0), "key", "no room for the 20 digits"),
    (lambda: Create("k", None), "value", "not NoneType"),  # type: ignore[arg-type]
    (lambda: Create("k", b"", lease=None), "lease", "not NoneType"),  # type: ignore[arg-type]
    (lambda: Update("k", b"", expected_revision=2**63), "expected_revision", "must be 0 to 9223372036854775807"),
    (lambda: Delete("k", must_exist=None), "must_exist", "not NoneType"),  # type: ignore[arg-type]
    (lambda: Delete("k", expected_revision="1"), "expected_revision", "not str"),  # type: ignore[arg-type]
    (lambda: DeleteRange("a" * 481), "start", "has 481 bytes"),
    (lambda: DeleteRange("a", None), "end", "not NoneType"),  # type: ignore[arg-type]
    (lambda: Range("a", "b" * 481), "end", "has 481 bytes"),
    (lambda: Range("a", limit=-1), "limit", "must be 0 to 4294967295"),
    (lambda: Range("a", limit=2**32), "limit", "must be 0 to 4294967295"),
    (lambda: Add("n", 2**63), "number", "signed 64-bit"),
    (lambda: Add("n", 1.0), "number", "must be an int, not float"),  # type: ignore[arg-type]
    (lambda: Get(None), "key", "not NoneType"),  # type: ignore[arg-type]
    (lambda: "put", "operation", "str is not an operation"),
    (lambda: None, "operation", "NoneType is not an operation"),
]


@pytest.mark.parametrize(
    ("operation", "field", "what"), WRONG, ids=lambda value: None if callable(value) else str(value)
)
def test_a_wrong_operation_is_an_error_that_names_the_field(
    operation: Callable[[], Any], field: str, what: str
) -> None:
    """Nothing is encoded; the same field inside of a transaction, with its place."""
    with pytest.raises(InvalidArgument, match=what) as single:
        encode_operation(operation(), value_bytes_max=100)
    assert single.value.field == field and str(single.value).startswith(f"{field}: ")
    with pytest.raises(InvalidArgument, match=what) as listed:
        encode_txn(otherwise=[Get("k"), operation()], value_bytes_max=100)
    assert listed.value.field == f"otherwise[1].{field}"
    with pytest.raises(InvalidArgument, match=what) as nested:
        encode_txn(then=[Txn(otherwise=[operation()])], value_bytes_max=100)
    assert nested.value.field == f"then[0].otherwise[0].{field}"


@pytest.mark.parametrize(
    ("compare", "field", "what"),
    [
        (Version("") == 1, "key", "is empty"),
        (Version("k") == -1, "operand", "must be 0 to"),
        (Version("k") == b"1", "operand", "must be an int, not bytes"),
        (Value("k") == 1, "operand", "must be bytes or str, not int"),
        (Compare(6, 1, "k", 0), "target", "must be 0 to 5"),
        (Compare(0, 1, "k", 0), "target", "must be 1 to 5"),
        (Compare(1, 5, "k", 0), "result", "must be 0 to 4"),
        (RangeEmpty("a", "b" * 481), "end", "has 481 bytes"),
        (RangeEmpty("a", is_empty=1), "is_empty", "must be a bool"),
        (Version("k"), "compare", "Version is not a compare"),
        (True, "compare", "bool is not a compare"),
    ],
    ids=str,
)
def test_a_wrong_compare_is_an_error_that_names_the_field(compare: Any, field: str, what: str) -> None:
    """A side without an operator, or a chain `1 < Version("k") < 3` that Python makes a bool, is none."""
    with pytest.raises(InvalidArgument, match=what) as error:
        encode_txn([Version("k") == 0, compare])
    assert error.value.field == f"compares[1].{field}"


@pytest.mark.parametrize(
    ("fence", "field", "what"),
    [
        (("k", 1), "fence", "must be a Fence, not tuple"),
        (Fence("", 1), "fence.key", "is empty"),
        (Fence("k", 0), "fence.create_revision", "no key has it"),
        (Fence("k", 2**63), "fence.create_revision", "must be 0 to"),
    ],
)
def test_a_wrong_fence_is_an_error_that_names_the_field(fence: Any, field: str, what: str) -> None:
    """A fence that holds nothing would let everybody write."""
    for encode in (lambda: encode_operation(Get("k"), fence=fence), lambda: encode_txn(fence=fence)):
        with pytest.raises(InvalidArgument, match=what) as error:
            encode()
        assert error.value.field == field


def nested(depth: int) -> Txn:
    return Txn(then=[nested(depth - 1)] if depth > 1 else [])


def test_too_much_for_one_transaction_is_an_error() -> None:
    """Depth, count, and what is no list at all."""
    encode_txn(then=[nested(3)])
    with pytest.raises(InvalidArgument, match="more than 4 deep"):
        encode_txn(then=[nested(4)])
    encode_txn([Version("k") == 0] * 5000, [Get("k")] * 5000)
    with pytest.raises(InvalidArgument, match="at most 10000") as error:
        encode_txn([Version("k") == 0] * 5000, [Get("k")] * 5000, [Get("k")])
    assert error.value.field == "otherwise"
    with pytest.raises(InvalidArgument, match="must be a sequence, not int"):
        encode_txn(then=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Txn is not an operation"):
        encode_operation(Txn())


def test_a_command_that_fits_no_frame_is_an_error() -> None:
    """Each value is within its limit, all together are not within a frame."""
    with pytest.raises(InvalidArgument, match="more than 6291456 bytes"):
        encode_txn(then=[Put("k", bytes(1 << 20))] * 6)


def test_a_wrong_session_is_refused() -> None:
    """A sequence belongs to a session."""
    with pytest.raises(InvalidArgument):
        encode_operation(Get("k"), sequence=1)
    with pytest.raises(InvalidArgument):
        encode_txn(session=1, sequence=1, lowest_unanswered=2)


@given(st.binary(max_size=6), st.binary(max_size=8))
def test_the_end_of_a_prefix_bounds_exactly_its_keys(prefix: bytes, key: bytes) -> None:
    """key is in [prefix, end) if and only if it begins with prefix; an empty end is no bound."""
    end = prefix_end(prefix)
    assert (prefix <= key and (not end or key < end)) == key.startswith(prefix)


def test_a_prefix_of_text_ends_where_its_bytes_do() -> None:
    """str is UTF-8 here as everywhere."""
    assert prefix_end("ü") == prefix_end("ü".encode()) == b"\xc3\xbd"


def test_the_left_side_of_a_compare_is_no_key_of_a_dict() -> None:
    """== makes a Compare, so nothing may rely on equality."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(Version("k"))
    assert repr(Version("k")) == "Version('k')"
