"""Transactions as trees: a strategy, their msgpack by the msgpack package, and the arenas they are decoded into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.wire.names import CompareFlags, CompareResult, CompareTarget, OpFlags, OpKind

NUMBER = st.integers(0, 2**63 - 1) | st.integers(0, 300)
ANY_64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)
SIGNED = st.integers(-(2**63), 2**63 - 1)
EDGE_LENGTHS = st.sampled_from([1, 31, 32, 255, 256, 460])
KEYS = st.binary(min_size=1, max_size=20) | EDGE_LENGTHS.map(bytes)
LONG_KEYS = KEYS | st.just(b"k" * 480)
BOUNDS = LONG_KEYS | st.just(b"")
VALUES = st.binary(max_size=40) | st.sampled_from([255, 256]).map(bytes)

# docs/formats.md "Commands": the fields of each operation behind [kind, flags, and the flags it knows.
OP_FIELDS: dict[str, list[str]] = {
    "OP_PUT": ["key", "value", "lease", "result_from"],
    "OP_CREATE": ["key", "value", "lease", "result_from"],
    "OP_UPDATE": ["key", "value", "lease", "expected_revision"],
    "OP_DELETE": ["key", "expected_revision"],
    "OP_DELETE_RANGE": ["start", "end"],
    "OP_GET": ["key"],
    "OP_RANGE": ["start", "end", "limit"],
    "OP_ADD": ["key", "number"],
}
OP_FLAGS: dict[str, list[str]] = {
    "OP_PUT": ["OP_WANT_PREVIOUS", "OP_KEEP_LEASE", "OP_KEY_FROM_RESULT", "OP_KEEP_VALUE"],
    "OP_CREATE": ["OP_KEY_FROM_RESULT"],
    "OP_UPDATE": ["OP_WANT_PREVIOUS", "OP_KEEP_LEASE", "OP_KEEP_VALUE"],
    "OP_DELETE": ["OP_WANT_PREVIOUS", "OP_MUST_EXIST"],
    "OP_DELETE_RANGE": ["OP_WANT_PREVIOUS"],
    "OP_GET": [],
    "OP_RANGE": [],
    "OP_ADD": [],
}
FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "key": LONG_KEYS,
    "start": BOUNDS,
    "end": BOUNDS,
    "value": VALUES,
    "lease": ANY_64,
    "expected_revision": NUMBER,
    "limit": st.integers(0, 2**32 - 1),
    "number": SIGNED,
    "result_from": st.just(0),
}
STRUCT_FIELDS = [
    *("kind", "flags", "result_from", "limit", "txn", "key", "end", "value", "lease", "expected_revision", "number"),
]
EMPTY: dict[str, Any] = {name: b"" if name in ("key", "end", "value") else 0 for name in STRUCT_FIELDS}


@dataclass
class Tree:
    """One transaction. Operations are dicts of struct fields, or a Tree."""

    compares: list[tuple[Any, ...]] = field(default_factory=list)
    then: list[Any] = field(default_factory=list)
    otherwise: list[Any] = field(default_factory=list)


def op_struct(op: dict[str, Any]) -> tuple[Any, ...]:
    """The tuple that wire_handle shows for an operation."""
    return tuple((EMPTY | op)[name] for name in STRUCT_FIELDS)


def op_wire(op: dict[str, Any]) -> list[Any]:
    """What stands in the message: kind, flags and the fields of its kind."""
    names = OP_FIELDS[OpKind(op["kind"]).name]
    whole = EMPTY | op
    return [op["kind"], whole["flags"], *(whole["key" if name == "start" else name] for name in names)]


def compare_wire(compare: tuple[Any, ...]) -> list[Any]:
    target, result, key, end, value, number = compare
    of_all = target & CompareFlags.COMPARE_OF_ALL
    kind = target - of_all
    operand = {CompareTarget.COMPARE_VALUE: value, CompareTarget.COMPARE_RANGE_EMPTY: end}.get(kind, number)
    return [target, result, key, [end, operand] if of_all else operand]


def tree_wire(tree: Tree) -> list[Any]:
    """[compares, then, otherwise] for the msgpack package."""

    def listed(ops: list[Any]) -> list[Any]:
        return [[OpKind.OP_TXN, 0, tree_wire(op)] if isinstance(op, Tree) else op_wire(op) for op in ops]

    return [[compare_wire(compare) for compare in tree.compares], listed(tree.then), listed(tree.otherwise)]


def tree_arenas(root: Tree) -> dict[str, list[Any]]:
    """The arenas of a decoded Command: a list takes its place before what is nested in it."""
    txns: list[Any] = [None]
    compares: list[Any] = []
    ops: list[Any] = []

    def place_list(listed: list[Any]) -> tuple[int, int]:
        first = len(ops)
        ops.extend([None] * len(listed))
        for place, op in enumerate(listed):
            if isinstance(op, Tree):
                txns.append(None)
                position = len(txns) - 1
                ops[first + place] = op_struct({"kind": OpKind.OP_TXN, "txn": position})
                place_tree(op, position)
            else:
                ops[first + place] = op_struct(op)
        return first, len(listed)

    def place_tree(tree: Tree, position: int) -> None:
        first = len(compares)
        compares.extend(tree.compares)
        txns[position] = (first, len(tree.compares), *place_list(tree.then), *place_list(tree.otherwise))

    place_tree(root, 0)
    return {"txns": txns, "compares": compares, "ops": ops}


# --- strategies -----------------------------------------------------------------------------------------------------
@st.composite
def compares(draw: st.DrawFn) -> tuple[Any, ...]:
    target = draw(st.sampled_from(list(CompareTarget)))
    is_range = target == CompareTarget.COMPARE_RANGE_EMPTY
    is_value = target == CompareTarget.COMPARE_VALUE
    is_of_all = not is_range and draw(st.booleans())
    results = list(CompareResult)[: 2 if is_range else 4]
    return (
        int(target) + (int(CompareFlags.COMPARE_OF_ALL) if is_of_all else 0),
        draw(st.sampled_from(results)),
        draw(BOUNDS if is_range or is_of_all else LONG_KEYS),
        draw(BOUNDS) if is_range or is_of_all else b"",
        draw(VALUES) if is_value else b"",
        draw(ANY_64) if not is_range and not is_value else 0,
    )


@st.composite
def single_ops(draw: st.DrawFn, earlier: list[Any] = []) -> dict[str, Any]:  # noqa: B006 (never changed)
    """A valid operation that is no transaction; `earlier` is its list so far."""
    name = draw(st.sampled_from(list(OP_FIELDS)))
    op = {"kind": OpKind[name]} | {
        "key" if each == "start" else each: draw(FIELD_VALUES[each]) for each in OP_FIELDS[name]
    }
    flags = sum(OpFlags[flag] for flag in OP_FLAGS[name] if draw(st.booleans()))
    additions = [
        place for place, each in enumerate(earlier) if isinstance(each, dict) and each["kind"] == OpKind.OP_ADD
    ]
    if flags & OpFlags.OP_KEY_FROM_RESULT:
        if additions:
            op |= {"key": draw(KEYS), "result_from": draw(st.sampled_from(additions))}
        else:
            flags &= ~OpFlags.OP_KEY_FROM_RESULT
    if flags & OpFlags.OP_KEEP_VALUE:
        op["value"] = b""
    if flags & OpFlags.OP_KEEP_LEASE:
        op["lease"] = 0
    return op | {"flags": flags}


@st.composite
def trees(draw: st.DrawFn, depth: int = 1) -> Tree:
    """A valid transaction, nested at most 4 deep."""

    def listed() -> list[Any]:
        ops: list[Any] = []
        for _ in range(draw(st.integers(0, 4))):
            is_nested = depth < 4 and draw(st.integers(0, 4)) == 0
            ops.append(draw(trees(depth + 1)) if is_nested else draw(single_ops(ops)))
        return ops

    return Tree(draw(st.lists(compares(), max_size=3)), listed(), listed())


@st.composite
def envelopes(draw: st.DrawFn) -> dict[str, Any]:
    """session, sequence, lowest_unanswered and fence."""
    sequence = draw(NUMBER)
    session = draw(ANY_64)
    return {
        "session": session,
        "sequence": sequence if session else 0,
        "lowest_unanswered": draw(st.integers(0, sequence)) if session else 0,
        "fence": draw(st.none() | st.tuples(LONG_KEYS, st.integers(1, 2**63 - 1))),
    }
