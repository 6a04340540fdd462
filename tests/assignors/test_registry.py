"""Assignors by name and by place; members and assignments as bytes; groups that are no groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta import ConfigError, InvalidArgument, assignors
from raftmeta.assignors import Codec, Incremental, Member, OwnCodec, Resources, Sticky

PLACE = "tests.assignors.test_registry:MINE"
MINE = Incremental(delay_max_s=7.0)


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    for name in ("mine", "sticky"):
        assignors.unregister(name)


@pytest.mark.parametrize("name", assignors.names())
def test_an_assignor_has_the_name_by_which_it_is_found(name: str) -> None:
    assert assignors.assignor(name).name == name


def test_a_place_is_imported() -> None:
    assert assignors.assignor(PLACE) == MINE


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("made", [MINE, PLACE])
def test_a_registered_assignor_is_found_before_our_own(made: Incremental | str) -> None:
    for name in ("mine", "sticky"):
        assignors.register(name, made)
        assert assignors.assignor(name) == MINE
        assert name in assignors.names()
        assignors.unregister(name)
    assert assignors.assignor("sticky") == Sticky()
    assert "mine" not in assignors.names()


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("name", ["nobody", "nowhere.at.all:X", "tests.assignors.test_registry:NOT_THERE", ":X", "x:"])
def test_what_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        assignors.assignor(name)
    assert name in str(refused.value)
    assert refused.value.field == "assignor"


@pytest.mark.parametrize(("name", "made"), [("a:b", MINE), ("mine", "no-place"), ("mine", "x:")])
def test_a_name_that_could_not_be_found_is_not_registered(name: str, made: Incremental | str) -> None:
    with pytest.raises(ConfigError):
        assignors.register(name, made)
    assert name not in assignors.names()


# --- groups that are none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", assignors.names())
@pytest.mark.parametrize(
    ("members", "field"),
    [([Member("a"), Member("a")], "id"), ([Member("a", "i"), Member("b", "i")], "instance_id")],
    ids=["one id", "one instance"],
)
def test_two_members_under_one_name_are_refused(name: str, members: list[Member], field: str) -> None:
    with pytest.raises(InvalidArgument, match=f"the {field} '") as refused:
        assignors.assignor(name).assign(members, Resources.of_topics({"t": 1}))
    assert refused.value.field == "members"


@pytest.mark.parametrize("name", assignors.names())
def test_a_group_without_members_or_resources_has_an_empty_plan(name: str) -> None:
    assign = assignors.assignor(name).assign
    assert assign([], Resources.of_topics({"t": 3})).assignments == {}
    assert assign([Member("a"), Member("b", topics=["t"])], Resources({})).assignments == {"a": (), "b": ()}


def test_a_resource_stands_in_one_topic() -> None:
    with pytest.raises(InvalidArgument, match="'x'"):
        Resources({"a": ["x"], "b": ["y", "x"]})
    with pytest.raises(InvalidArgument, match="'x'"):
        Resources.of_names(["x", "x"])


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    assert Resources.of_topics({"t": 12}).names[9:] == ("t-9", "t-10", "t-11")
    assert Resources.of_names(["b", "a"]).topics == {"": ("a", "b")}


# --- bytes ------------------------------------------------------------------------------------------------------------

NAMES = st.text(max_size=5)
CODEC: Codec = OwnCodec()


@given(
    topics=st.none() | st.frozensets(NAMES, max_size=3),
    owned=st.lists(NAMES, unique=True, max_size=4),
    generation=st.integers(-1, (1 << 63) - 1),
    metadata=st.binary(max_size=8),
)
def test_a_member_comes_back_from_its_bytes(
    topics: frozenset[str] | None, owned: list[str], generation: int, metadata: bytes
) -> None:
    member = Member("a", "i", topics, tuple(sorted(owned)), generation, metadata)
    data = CODEC.encode_member(member)
    assert CODEC.decode_member(data, id="a", instance_id="i") == member
    longer = msgpack.packb([2, *msgpack.unpackb(data)[1:], "of a later version"])
    assert CODEC.decode_member(longer, id="a", instance_id="i") == member


@given(resources=st.lists(NAMES, max_size=4), revoked=st.lists(NAMES, max_size=4))
def test_an_assignment_comes_back_from_its_bytes(resources: list[str], revoked: list[str]) -> None:
    data = CODEC.encode_assignment(resources, revoked)
    assert CODEC.decode_assignment(data) == (tuple(resources), tuple(revoked))


def test_the_bytes_are_those_of_the_document() -> None:
    """docs/assignors.md "Bytes"."""
    member = Member("a", topics=("t",), owned=("t-0",), generation=3, metadata=b"m")
    assert CODEC.encode_member(member).hex() == "950191a17491a3742d3003c4016d"
    assert CODEC.encode_assignment(["t-0"], ["t-1"]).hex() == "930191a3742d3091a3742d31"
    plan = Incremental().assign([Member("a")], Resources.of_topics({"t": 1}))
    assert plan.memory.hex() == "96019193c3a16191a3742d30c0c200c0"


@given(data=st.binary(max_size=30))
def test_any_bytes_are_a_member_or_refused(data: bytes) -> None:
    with suppress(InvalidArgument):
        CODEC.decode_member(data, id="a")
    with suppress(InvalidArgument):
        CODEC.decode_assignment(data)


@pytest.mark.parametrize(
    "fields",
    [
        [0, None, [], -1, b""],
        [True, None, [], -1, b""],
        [1, None, [], -1],
        [1, "t", [], -1, b""],
        [1, [3], [], -1, b""],
        [1, None, None, -1, b""],
        [1, None, [], -2, b""],
        [1, None, [], 1 << 63, b""],
        [1, None, [], True, b""],
        [1, None, [], -1, "m"],
        {},
        7,
    ],
)
def test_each_wrong_field_of_a_member_is_refused(fields: object) -> None:
    with pytest.raises(InvalidArgument, match="member"):
        CODEC.decode_member(msgpack.packb(fields), id="a")
