"""Plain values as bytes and back (raftmeta/user_machines/values.py)."""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raftmeta
from raftmeta.user_machines.values import pack, unpack

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
hashables = st.recursive(scalars, lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=3)))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(hashables, inner, max_size=4),
        st.sets(hashables, max_size=4),
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """A value with its types, which == does not tell: 1 == True == 1.0."""
    if isinstance(value, dict):
        return dict, [(shape(key), shape(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [shape(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(repr(shape(each)) for each in value)
    return type(value), repr(value)


@settings(max_examples=50)
@given(values)
def test_a_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    assert shape(unpack(pack(value))) == shape(value)


@given(st.sets(st.text(), max_size=20))
def test_equal_sets_are_equal_bytes(elements: set[str]) -> None:
    """Their order differs between processes (PYTHONHASHSEED), that of their bytes must not."""
    turned: set[str] = set()
    turned.update(sorted(elements, reverse=True))
    assert pack(elements) == pack(turned)


class Colour(enum.IntEnum):
    RED = 1


def nested(depth: int) -> tuple[Any, ...]:
    value: tuple[Any, ...] = ()
    for _ in range(depth):
        value = (value,)
    return value


@pytest.mark.parametrize(
    "value", [object(), OrderedDict(), Colour.RED, [range(2)], {"x": print}, "\ud800", nested(5000), Ellipsis]
)
def test_anything_else_is_refused(value: Any) -> None:
    """Never approximated: what a copy loads must be what was dumped."""
    with pytest.raises(raftmeta.InvalidArgument):
        pack(value)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\xc0\xc0", b"\xd4\x09\x00", b"\xd4\x01\xc0"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(raftmeta.InvalidArgument):
        unpack(data)
