"""Commands: every kind round and back, equal to msgpack; the path of a single operation equal to the general one."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faces.wire import CommandDecoder, command_encode, command_encode_op, command_speak
from tests.wire.guarded import flipped_bits, guarded
from tests.wire.names import CommandKind, CompareResult, CompareTarget, OpFlags, OpKind, Status
from tests.wire.trees import (
    ANY_64,
    NUMBER,
    OP_FLAGS,
    Tree,
    envelopes,
    op_struct,
    op_wire,
    single_ops,
    tree_arenas,
    tree_wire,
    trees,
)

COMMAND_BYTES_MAX = 6 * 1024 * 1024
OPS_MAX = 10_000
LEASES_MAX = 10_000
NOTHING: dict[str, Any] = {
    "session": 0,
    "sequence": 0,
    "lowest_unanswered": 0,
    "fence": None,
    "id": 0,
    "ttl_ms": 0,
    "window": 0,
    "name": b"",
    "data": b"",
    "pointer": 0,
    "offset": 0,
    "total": 0,
    "member": 0,
    "boot": 0,
    "speaker": 0,
    "principal": b"",
    "rights_revision": 0,
    "txns": [],
    "compares": [],
    "ops": [],
    "leases": [],
}
# docs/formats.md "Commands": fields behind the envelope.
COMMAND_FIELDS: dict[str, list[str]] = {
    "COMMAND_LEASE_GRANT": ["id", "ttl_ms", "data"],
    "COMMAND_LEASE_REVOKE": ["id"],
    "COMMAND_LEASE_KEEP_ALIVE": ["leases"],
    "COMMAND_LEASE_EXPIRE": ["deadlines"],
    "COMMAND_SESSION_OPEN": ["id", "ttl_ms", "window"],
    "COMMAND_SESSION_CLOSE": ["id"],
    "COMMAND_SESSION_EXPIRE": ["deadlines"],
    "COMMAND_COMPACT": ["number"],
    "COMMAND_FEATURE_LEVEL": ["number"],
    "COMMAND_USER": ["name", "data"],
    "COMMAND_RIGHTS": ["number", "name", "data"],
    "COMMAND_USER_DUMP": ["id", "name", "data", "pointer", "offset", "total"],
    "COMMAND_PROCESS_END": ["member", "boot"],
}
FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": ANY_64,
    "number": NUMBER,
    "ttl_ms": NUMBER,
    "window": st.integers(0, 2**32 - 1),
    "name": st.binary(max_size=40),
    "data": st.binary(max_size=300),
    **dict.fromkeys(["pointer", "offset", "total"], NUMBER),
    "member": st.integers(1, 2**64 - 1),
    "boot": st.integers(1, 2**63 - 1),
    "leases": st.lists(st.tuples(ANY_64, st.just(0)), max_size=40),
    "deadlines": st.lists(st.tuples(ANY_64, NUMBER), max_size=40),
}
STRUCT_NAMES = {"number": "id", "deadlines": "leases"}
WELL_FORMED = (Status.BAD_LENGTH, Status.BAD_FIELD, Status.COMMAND_INVALID, Status.KEY_INVALID)


def envelope_wire(fields: dict[str, Any]) -> list[Any]:
    return [fields[name] for name in ("kind", "session", "sequence", "lowest_unanswered", "fence")]


def field_wire(name: str, fields: dict[str, Any]) -> Any:
    value = fields[STRUCT_NAMES.get(name, name)]
    return [lease for lease, _ in value] if name == "leases" else value


def packed(value: object) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


def decode(payload: bytes) -> tuple[int, dict[str, Any]]:
    """Decode by a fresh decoder, the payload ending at an unreadable page."""
    return CommandDecoder().decode(guarded(payload))


def keys_command(root: Tree, **envelope: Any) -> dict[str, Any]:
    return NOTHING | {"kind": CommandKind.COMMAND_KEYS} | envelope | tree_arenas(root)


def keys_payload(*then: list[Any], compares: list[Any] | None = None) -> bytes:
    """A transaction without session, by the msgpack package."""
    return packed([CommandKind.COMMAND_KEYS, 0, 0, 0, None, [compares or [], list(then), []]])


@st.composite
def other_commands(draw: st.DrawFn) -> dict[str, Any]:
    """Any command but COMMAND_KEYS."""
    name = draw(st.sampled_from(list(COMMAND_FIELDS)))
    fields = {STRUCT_NAMES.get(each, each): draw(FIELD_VALUES[each]) for each in COMMAND_FIELDS[name]}
    return NOTHING | {"kind": CommandKind[name]} | draw(envelopes()) | fields


def test_the_tables_name_every_command_and_operation() -> None:
    """A new kind without a row here is not tested. Requests for znodes and groups: tests/machine."""
    others = {"COMMAND_KEYS", "COMMAND_ZNODES", "COMMAND_GROUPS", "COMMAND_TOPICS", "COMMAND_RECORDS"}
    assert COMMAND_FIELDS.keys() | others == {member.name for member in CommandKind}
    assert OP_FLAGS.keys() | {"OP_TXN"} == {member.name for member in OpKind}


# --- round trips ----------------------------------------------------------------------------------------------------
@given(trees(), envelopes())
def test_a_transaction_is_read_as_it_was_written(root: Tree, envelope: dict[str, Any]) -> None:
    """Bytes equal those of the msgpack package; arenas stand as the first page of commands.pyx says."""
    fields = keys_command(root, **envelope)
    payload = packed([*envelope_wire(fields), tree_wire(root)])
    assert command_encode(fields) == (Status.OK, payload)
    assert decode(payload) == (Status.OK, fields)


@given(other_commands())
def test_every_other_command_is_read_as_it_was_written(fields: dict[str, Any]) -> None:
    """Leases, sessions, compaction, feature level, user machines."""
    names = COMMAND_FIELDS[CommandKind(fields["kind"]).name]
    payload = packed([*envelope_wire(fields), *(field_wire(name, fields) for name in names)])
    assert command_encode(fields) == (Status.OK, payload)
    assert decode(payload) == (Status.OK, fields)


@settings(max_examples=300)
@given(single_ops(), envelopes())
def test_a_single_operation_is_the_transaction_of_one(op: dict[str, Any], envelope: dict[str, Any]) -> None:
    """The fast path writes the same bytes as the general one and as the msgpack package."""
    fields = keys_command(Tree(then=[op]), **envelope)
    status, payload = command_encode_op(op_struct(op), **envelope)
    assert status == Status.OK
    assert (status, payload) == command_encode(fields)
    assert payload == packed([*envelope_wire(fields), [[], [op_wire(op)], []]])


SPEAKERS = st.just((1, b"", 0)) | st.tuples(st.just(2), st.binary(min_size=1, max_size=64), NUMBER)


@given(trees() | other_commands(), SPEAKERS)
def test_a_spoken_command_is_read_as_it_was_written(what: Any, speaker: tuple[int, bytes, int]) -> None:
    """Around the bytes of the command itself, which stay as they are."""
    silent = keys_command(what) if isinstance(what, Tree) else what
    inner = command_encode(silent)[1]
    payload = packed([13, *speaker, inner])
    fields = silent | dict(zip(("speaker", "principal", "rights_revision"), speaker, strict=True))
    assert command_encode(fields) == (Status.OK, payload)
    assert decode(payload) == (Status.OK, fields)
    if speaker[0] == 2:
        assert command_speak(*speaker[1:], inner) == (Status.OK, payload)


@pytest.mark.parametrize(
    "speaker", [(0, b"", 0), (1, b"a", 0), (1, b"", 1), (2, b"", 1), (2, b"a" * 65, 1), (3, b"a", 1), (2, b"a", 2**63)]
)
def test_only_a_node_and_a_client_with_a_name_can_speak(speaker: tuple[int, bytes, int]) -> None:
    """And nothing that is spoken is spoken again."""
    inner = keys_payload()
    assert decode(packed([13, *speaker, inner]))[0] == Status.BAD_FIELD
    assert decode(packed([13, 2, b"a", 1, packed([13, *speaker, inner])]))[0] != Status.OK
    if speaker[0] == 2:
        assert command_speak(*speaker[1:], inner) == (Status.BAD_FIELD, b"")


@pytest.mark.parametrize("length", [65535, 65536, 1 << 20])
def test_a_large_value_is_read_as_it_was_written(length: int) -> None:
    """At the edge of a bin's form, and at the default limit of values; the single path and the general one."""
    op = {"kind": OpKind.OP_PUT, "flags": 0, "key": b"k", "value": b"v" * length}
    payload = keys_payload(op_wire(op))
    assert command_encode_op(op_struct(op)) == (Status.OK, payload)
    assert command_encode(keys_command(Tree(then=[op]))) == (Status.OK, payload)
    assert decode(payload) == (Status.OK, keys_command(Tree(then=[op])))


@given(st.lists(trees() | other_commands(), min_size=2, max_size=5))
def test_a_decoder_keeps_nothing_of_the_command_before(sequence: list[Any]) -> None:
    """One Command, reused: each result is that of a fresh one, failures between included."""
    decoder = CommandDecoder()
    for each in sequence:
        fields = keys_command(each) if isinstance(each, Tree) else each
        status, payload = command_encode(fields)
        assert status == Status.OK
        assert decoder.decode(guarded(payload)) == (Status.OK, fields)
        assert decoder.decode(guarded(payload[:-1]))[0] != Status.OK


@given(trees())
def test_encoding_appends_and_leaves_what_was_there(root: Tree) -> None:
    """The queue of a node holds many payloads one after another; a refused one leaves no trace."""
    fields = keys_command(root)
    assert command_encode(fields, prefix=b"before") == (Status.OK, b"before" + command_encode(fields)[1])
    assert command_encode(fields | {"sequence": 1}, prefix=b"before") == (Status.BAD_FIELD, b"before")


# --- damage ---------------------------------------------------------------------------------------------------------
PAYLOADS = trees().map(lambda root: command_encode(keys_command(root))[1]) | other_commands().map(
    lambda fields: command_encode(fields)[1]
)


@given(PAYLOADS)
def test_every_prefix_of_a_command_is_refused(payload: bytes) -> None:
    """And so is a command with something behind it."""
    decoder = CommandDecoder()
    for length in range(min(len(payload), 400)):
        assert decoder.decode(guarded(payload[:length]))[0] in (Status.BAD_LENGTH, Status.BAD_FIELD)
    assert decoder.decode(guarded(payload + b"\0"))[0] == Status.BAD_LENGTH


@settings(max_examples=60)
@given(PAYLOADS)
def test_a_command_with_a_flipped_bit_is_refused_or_means_what_it_says(payload: bytes) -> None:
    """No checksum here (the record has one): whatever is accepted is written back the same, all else has a status."""
    decoder = CommandDecoder()
    for damaged in flipped_bits(payload[:200]):
        damaged += payload[200:]
        status, fields = decoder.decode(guarded(damaged))
        if status == Status.OK:
            assert command_encode(fields) == (Status.OK, damaged)
        else:
            assert status in WELL_FORMED


@settings(max_examples=500)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"\x96\x01\0\0\0\xc0\x93" + tail))
def test_random_bytes_are_refused_or_mean_what_they_say(payload: bytes) -> None:
    """Also behind a right beginning, where the recursive part begins."""
    status, fields = decode(payload)
    if status == Status.OK:
        assert command_encode(fields) == (Status.OK, payload)
    else:
        assert status in WELL_FORMED


# --- what is refused, and in both directions --------------------------------------------------------------------------
PUT = {"kind": OpKind.OP_PUT, "key": b"k", "value": b"v"}
WRONG_OPS: list[tuple[dict[str, Any], str]] = [
    (PUT | {"key": b""}, "KEY_INVALID"),
    (PUT | {"key": b"k" * 481}, "KEY_INVALID"),
    (PUT | {"flags": OpFlags.OP_MUST_EXIST}, "COMMAND_INVALID"),
    (PUT | {"flags": 32}, "COMMAND_INVALID"),
    (PUT | {"flags": OpFlags.OP_KEEP_VALUE}, "COMMAND_INVALID"),
    (PUT | {"flags": OpFlags.OP_KEEP_LEASE, "lease": 1}, "COMMAND_INVALID"),
    (PUT | {"flags": OpFlags.OP_KEY_FROM_RESULT}, "COMMAND_INVALID"),
    (PUT | {"result_from": 1}, "COMMAND_INVALID"),
    ({"kind": OpKind.OP_UPDATE, "key": b"k", "expected_revision": 2**63}, "BAD_FIELD"),
    ({"kind": OpKind.OP_DELETE, "key": b""}, "KEY_INVALID"),
    ({"kind": OpKind.OP_RANGE, "key": b"", "end": b"k" * 481}, "KEY_INVALID"),
    ({"kind": OpKind.OP_DELETE_RANGE, "key": b"k" * 481, "end": b""}, "KEY_INVALID"),
]


@pytest.mark.parametrize(("op", "status"), WRONG_OPS)
def test_a_wrong_operation_is_refused_in_both_directions(op: dict[str, Any], status: str) -> None:
    """By the single path, by the general one and by the reader alike."""
    assert command_encode_op(op_struct(op)) == (Status[status], b"")
    assert command_encode(keys_command(Tree(then=[op]))) == (Status[status], b"")
    assert decode(keys_payload(op_wire({"flags": 0} | op)))[0] == Status[status]


@given(single_ops(), st.data())
def test_a_field_that_an_operation_does_not_have_is_refused_at_the_sender(
    op: dict[str, Any], data: st.DataObject
) -> None:
    """It would be lost on the way."""
    absent = [name for name in ("end", "value", "lease", "expected_revision", "limit", "number") if name not in op]
    name = data.draw(st.sampled_from(absent))
    wrong = op | {name: b"x" if name in ("end", "value") else 1}
    assert command_encode_op(op_struct(wrong)) == (Status.COMMAND_INVALID, b"")
    assert command_encode(keys_command(Tree(then=[wrong]))) == (Status.COMMAND_INVALID, b"")


ADD = {"kind": OpKind.OP_ADD, "key": b"n", "number": 1}
NUMBERED = PUT | {"flags": OpFlags.OP_KEY_FROM_RESULT}


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ([ADD, NUMBERED], "OK"),
        ([PUT, ADD, NUMBERED | {"result_from": 1}], "OK"),
        ([ADD, NUMBERED | {"key": b"k" * 460}], "OK"),
        ([ADD, NUMBERED | {"key": b"k" * 461}], "KEY_INVALID"),  # the 20 digits would not fit
        ([NUMBERED, ADD], "COMMAND_INVALID"),
        ([ADD, NUMBERED | {"result_from": 1}], "COMMAND_INVALID"),
        ([PUT, NUMBERED], "COMMAND_INVALID"),
        ([Tree(then=[ADD]), NUMBERED], "COMMAND_INVALID"),
        ([ADD, Tree(then=[NUMBERED])], "COMMAND_INVALID"),
    ],
)
def test_a_key_takes_its_number_from_an_earlier_addition_of_its_list(then: list[Any], status: str) -> None:
    """Sequences: the addition stands before, in the same list."""
    fields = keys_command(Tree(then=then))
    assert command_encode(fields)[0] == Status[status]
    assert decode(packed([*envelope_wire(fields), tree_wire(Tree(then=then))]))[0] == Status[status]


VALUE_EQUAL = (CompareTarget.COMPARE_VALUE, CompareResult.COMPARE_EQUAL, b"k", b"", b"v", 0)


@pytest.mark.parametrize(
    ("place", "value", "status"),
    [
        (0, 0, "COMMAND_INVALID"),
        (0, 7, "COMMAND_INVALID"),
        (1, 0, "COMMAND_INVALID"),
        (1, 5, "COMMAND_INVALID"),
        (2, b"", "KEY_INVALID"),
        (2, b"k" * 481, "KEY_INVALID"),
        (3, b"end", "COMMAND_INVALID"),
        (5, 1, "COMMAND_INVALID"),
    ],
)
def test_a_wrong_compare_is_refused_at_the_sender(place: int, value: Any, status: str) -> None:
    """Targets, results, keys, and operands of another target."""
    wrong = (*VALUE_EQUAL[:place], value, *VALUE_EQUAL[place + 1 :])
    assert command_encode(keys_command(Tree([wrong]))) == (Status[status], b"")


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        ([7, 1, b"k", 0], "COMMAND_INVALID"),
        ([0, 1, b"k", 0], "COMMAND_INVALID"),
        ([1, 5, b"k", 0], "COMMAND_INVALID"),
        ([1, 0, b"k", 0], "COMMAND_INVALID"),
        ([6, 3, b"k", b""], "COMMAND_INVALID"),
        ([1, 1, b"", 0], "KEY_INVALID"),
        ([6, 1, b"k" * 481, b""], "KEY_INVALID"),
        ([6, 1, b"", b"k" * 481], "KEY_INVALID"),
        ([4, 1, b"k", 0], "BAD_FIELD"),
        ([1, 1, b"k", b"v"], "BAD_FIELD"),
        ([1, 1, b"k"], "BAD_FIELD"),
        ([1, 1, b"k", 0, 0], "BAD_FIELD"),
        ([1, 1, b"k", -1], "BAD_FIELD"),
    ],
)
def test_a_wrong_compare_is_refused_by_the_reader(wire: list[Any], status: str) -> None:
    """What is well-formed and makes no sense is COMMAND_INVALID; a wrong type or count is BAD_FIELD."""
    assert decode(keys_payload(compares=[wire]))[0] == Status[status]


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        ([0, 0, b"k"], "COMMAND_INVALID"),
        ([10, 0, b"k"], "COMMAND_INVALID"),
        ([OpKind.OP_GET, 0], "BAD_FIELD"),
        ([OpKind.OP_GET, 0, b"k", 0], "BAD_FIELD"),
        ([OpKind.OP_GET, 0, "k"], "BAD_FIELD"),
        ([OpKind.OP_GET, 256, b"k"], "BAD_FIELD"),
        ([OpKind.OP_GET], "BAD_FIELD"),
        ([OpKind.OP_ADD, 0, b"k", 2**63], "BAD_FIELD"),
        ([OpKind.OP_ADD, 0, b"k", 1.0], "BAD_FIELD"),
        ([OpKind.OP_RANGE, 0, b"", b"", 2**32], "BAD_FIELD"),
        ([OpKind.OP_TXN, 0, [[], []]], "BAD_FIELD"),
        ([OpKind.OP_TXN, 0, None], "BAD_FIELD"),
        ([OpKind.OP_TXN, 1, [[], [], []]], "COMMAND_INVALID"),
        ({}, "BAD_FIELD"),
    ],
)
def test_a_wrong_operation_is_refused_by_the_reader(wire: Any, status: str) -> None:
    """Unknown kinds are for a later feature level (COMMAND_INVALID); wrong shapes are nobody's."""
    assert decode(keys_payload(wire))[0] == Status[status]


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        ([1, 0, 0, 0, None, [[], [], []], 0], "BAD_FIELD"),
        ([1, 0, 0, 0, None], "BAD_FIELD"),
        ([0, 0, 0, 0, None, 0], "COMMAND_INVALID"),
        ([13, 0, 0, 0, None, 0], "COMMAND_INVALID"),
        ([1, 0, 1, 0, None, [[], [], []]], "BAD_FIELD"),  # a sequence without a session
        ([1, 9, 1, 2, None, [[], [], []]], "BAD_FIELD"),  # unanswered, and not yet asked
        ([1, 9, 2**63, 0, None, [[], [], []]], "BAD_FIELD"),
        ([1, 0, 0, 0, [b"k", 0], [[], [], []]], "BAD_FIELD"),
        ([1, 0, 0, 0, [b"", 1], [[], [], []]], "KEY_INVALID"),
        ([1, 0, 0, 0, [b"k" * 481, 1], [[], [], []]], "KEY_INVALID"),
        ([1, 0, 0, 0, [b"k"], [[], [], []]], "BAD_FIELD"),
        ([1, 0, 0, 0, False, [[], [], []]], "BAD_FIELD"),
        ([9, 0, 0, 0, None, 2**63], "BAD_FIELD"),
        ([2, 0, 0, 0, None, 1, 2**63, b""], "BAD_FIELD"),
        ([6, 0, 0, 0, None, 1, 1, 2**32], "BAD_FIELD"),
        ([5, 0, 0, 0, None, [[1, 2**63]]], "BAD_FIELD"),
        ([5, 0, 0, 0, None, [1]], "BAD_FIELD"),
        ([4, 0, 0, 0, None, [[1, 2]]], "BAD_FIELD"),
        ([4, 0, 0, 0, None, [0] * (LEASES_MAX + 1)], "BAD_FIELD"),
        ([], "BAD_LENGTH"),
        (0, "BAD_FIELD"),
    ],
)
def test_a_wrong_command_is_refused_by_the_reader(payload: Any, status: str) -> None:
    """The envelope and the fields of every kind."""
    assert decode(packed(payload))[0] == Status[status]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"kind": 0}, "COMMAND_INVALID"),
        ({"kind": 13}, "COMMAND_INVALID"),
        ({"ttl_ms": 1}, "COMMAND_INVALID"),
        ({"window": 1}, "COMMAND_INVALID"),
        ({"name": b"x"}, "COMMAND_INVALID"),
        ({"data": b"x"}, "COMMAND_INVALID"),
        ({"leases": [(1, 0)]}, "COMMAND_INVALID"),
        ({"id": 2**63}, "BAD_FIELD"),
        ({"sequence": 1}, "BAD_FIELD"),
        ({"session": 1, "sequence": 1, "lowest_unanswered": 2}, "BAD_FIELD"),
        ({"fence": (b"k", 0)}, "BAD_FIELD"),
        ({"fence": (b"k", 2**63)}, "BAD_FIELD"),
        ({"fence": (b"", 1)}, "KEY_INVALID"),
        ({"kind": CommandKind.COMMAND_LEASE_KEEP_ALIVE, "id": 0, "leases": [(1, 5)]}, "BAD_FIELD"),
        ({"kind": CommandKind.COMMAND_LEASE_EXPIRE, "id": 0, "leases": [(1, 2**63)]}, "BAD_FIELD"),
        ({"kind": CommandKind.COMMAND_LEASE_EXPIRE, "id": 0, "leases": [(1, 0)] * (LEASES_MAX + 1)}, "COMMAND_INVALID"),
        ({"kind": CommandKind.COMMAND_KEYS, "id": 0}, "COMMAND_INVALID"),  # no root transaction
        ({"kind": CommandKind.COMMAND_LEASE_REVOKE, "txns": [(0, 0, 0, 0, 0, 0)]}, "COMMAND_INVALID"),
        ({"kind": CommandKind.COMMAND_LEASE_GRANT, "ttl_ms": 2**63}, "BAD_FIELD"),
    ],
)
def test_a_wrong_command_is_refused_at_the_sender(changes: dict[str, Any], status: str) -> None:
    """A COMPACT made wrong in one way each."""
    fields = NOTHING | {"kind": CommandKind.COMMAND_COMPACT, "id": 5}
    assert command_encode(fields)[0] == Status.OK
    assert command_encode(fields | changes) == (Status[status], b"")


@pytest.mark.parametrize(
    "txn", [(1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 0, 2, 0, 0), (0, 0, 2**32 - 1, 1, 0, 0), (0, 0, 0, 0, 1, 1)]
)
def test_a_list_outside_of_its_arena_is_refused_at_the_sender(txn: tuple[int, ...]) -> None:
    """One operation, no compare; positions that wrap included."""
    fields = keys_command(Tree(then=[PUT]))
    assert command_encode(fields | {"txns": [txn]})[0] == Status.COMMAND_INVALID


@pytest.mark.parametrize("txn", [0, 1, 7])
def test_a_transaction_that_contains_itself_is_refused_at_the_sender(txn: int) -> None:
    """A cycle, and a position that does not exist."""
    fields = keys_command(Tree()) | {
        "txns": [(0, 0, 0, 1, 0, 0), (0, 0, 0, 1, 0, 0)],
        "ops": [op_struct({"kind": OpKind.OP_TXN, "txn": txn})],
    }
    assert command_encode(fields)[0] == Status.COMMAND_INVALID


def test_a_transaction_is_not_sent_by_the_path_of_a_single_operation() -> None:
    """It has lists of its own."""
    assert command_encode_op(op_struct({"kind": OpKind.OP_TXN}))[0] == Status.COMMAND_INVALID


# --- caps -------------------------------------------------------------------------------------------------------------
def nested(depth: int) -> Tree:
    return Tree(then=[nested(depth - 1)] if depth > 1 else [])


@pytest.mark.parametrize(("depth", "status"), [(4, "OK"), (5, "COMMAND_INVALID"), (60, "COMMAND_INVALID")])
def test_transactions_nest_at_most_four_deep(depth: int, status: str) -> None:
    """In both directions."""
    fields = keys_command(nested(depth))
    assert command_encode(fields)[0] == Status[status]
    assert decode(packed([*envelope_wire(fields), tree_wire(nested(depth))]))[0] == Status[status]


def test_operations_and_compares_are_counted_together() -> None:
    """The largest transaction, in four lists of two levels, and one more in each of them."""
    compare = VALUE_EQUAL
    get = {"kind": OpKind.OP_GET, "key": b"k"}
    quarter = OPS_MAX // 4

    def tree(*more: int) -> Tree:
        inner = Tree(then=[get] * (quarter + more[0]), otherwise=[get] * (quarter - 1 + more[1]))
        return Tree([compare] * (quarter + more[2]), [inner, *[get] * (quarter + more[3])])

    for more in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)):
        fields = keys_command(tree(*more))
        expected = Status.COMMAND_INVALID if any(more) else Status.OK
        assert command_encode(fields)[0] == expected
        assert decode(packed([*envelope_wire(fields), tree_wire(tree(*more))]))[0] == expected


@pytest.mark.parametrize("head", ["dd7fffffff", "ddffffffff", "dcffff", "dd00002710"])
@pytest.mark.parametrize("place", ["930000", "93{}", "9390{}", "939090{}", "9491{}"])
def test_a_count_that_was_only_claimed_takes_no_memory(place: str, head: str) -> None:
    """A list is bounded by the bytes that are left, and by OPS_MAX, before its arena grows."""
    decoder = CommandDecoder()
    status, _ = decoder.decode(guarded(bytes.fromhex("9601000000c0" + place.format(head))))
    assert status in WELL_FORMED
    assert decoder.arena_bytes < 4096


def test_the_largest_list_takes_a_bounded_arena() -> None:
    """A payload of megabytes that claims a million operations stops at the cap."""
    decoder = CommandDecoder()
    payload = keys_payload(*[[OpKind.OP_GET, 0, b"k"]] * 100_000)
    assert decoder.decode(payload)[0] == Status.COMMAND_INVALID
    assert decoder.arena_bytes < 4096


@pytest.mark.parametrize(("more", "status"), [(0, "OK"), (1, "VALUE_TOO_LARGE")])
def test_a_command_fits_a_frame_or_is_refused(more: int, status: str) -> None:
    """The largest payload and one byte more: by the single path, the general one and the reader alike."""
    head = len(keys_payload(op_wire({"kind": OpKind.OP_PUT, "flags": 0, "key": b"k", "value": bytes(1 << 20)}))) - (
        1 << 20
    )
    op = {"kind": OpKind.OP_PUT, "flags": 0, "key": b"k", "value": bytes(COMMAND_BYTES_MAX - head + more)}
    payload = keys_payload(op_wire(op))
    assert len(payload) == COMMAND_BYTES_MAX + more
    expected = (Status[status], b"" if more else payload)
    assert command_encode_op(op_struct(op)) == command_encode(keys_command(Tree(then=[op]))) == expected
    assert decode(payload)[0] == Status[status]


# --- whose answer a failure is ---
@given(st.integers(1, 2**64 - 1), st.integers(1, 2**63 - 1))
def test_a_refused_command_still_names_its_session(session: int, sequence: int) -> None:
    """The machine answers (session, sequence) when only what follows is wrong; before that nobody is named."""
    head = {"session": session, "sequence": sequence}
    assert decode(packed([13, session, sequence, 0, None, 0])) == (Status.COMMAND_INVALID, head)
    assert decode(packed([1, session, sequence, 0, None, 7])) == (Status.BAD_FIELD, head)
    assert decode(packed([1, session, sequence, sequence + 1, None, 7]))[1] == head
    assert decode(packed([1, session, -1, 0, None, 7])) == (Status.BAD_FIELD, {"session": 0, "sequence": 0})
