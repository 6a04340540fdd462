"""Names of any script and length are parts of keys, and come back as they were given."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest

import raftmeta
from raftmeta.interfaces import Owner
from raftmeta.recipes.keys import name_in, pack_holder, part_of, prefix_of, tells_name, unpack_holder
from tests.recipes.faces import Face
from tests.recipes.test_group import next_of

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


@pytest.mark.parametrize("letter", ["a", "ж", "語", "/", "%"])
def test_long_names_are_members_and_leaders(nodes: Nodes, face: MakeFace, name: str, letter: str) -> None:
    """255 characters each; listeners are told of them, also when they go."""
    name, id = name + letter * (255 - len(name)), letter * 255
    group = face(nodes["a"]).store.group(name)
    told: queue.Queue[Any] = queue.Queue()
    group.add_listener(told.put)
    group.join(id, "data")
    group.join("short")
    assert group.membership() == {id: b"data", "short": b""}
    assert nodes["b"].group(name).membership_list() == {id, "short"}
    group.leave(id)
    assert [next_of(told).ids for _ in range(3)] == [{id}, {id, "short"}, {"short"}]
    with pytest.raises(raftmeta.IdConflict, match="short"):
        nodes["b"].group(name).join("short")
    election = face(nodes["a"]).store.election(name)
    assert election.nominate(id)
    assert nodes["c"].election(name).get_leader() == id
    election.close()


def test_names_of_one_kind_are_told_apart() -> None:
    """A name that looks like a hash is none; short ones are as they always were."""
    long = "ж" * 60
    hashed = part_of(long, "id")
    assert part_of("broker-1", "id") == "broker-1"
    assert part_of("a/b", "id") == "a%2Fb"
    assert part_of(hashed, "id") != hashed
    assert tells_name(f"p/{part_of(hashed, 'id')}".encode(), "p/")
    assert name_in(f"p/{part_of(hashed, 'id')}".encode(), "p/") == hashed
    assert not tells_name(f"p/{hashed}".encode(), "p/")
    assert len({part_of("ж" * number, "id") for number in range(1, 300)}) == 299


def test_a_holder_has_the_name_that_its_key_does_not_tell() -> None:
    owner, prefix = Owner("a", 1, 2), prefix_of("groups", "g")
    short = pack_holder(owner, b"x", key=prefix + part_of("m", "id"), id="m")
    assert short == pack_holder(owner, b"x")
    assert unpack_holder(short) == (owner, b"x", "")
    long = pack_holder(owner, b"x", key=prefix + part_of("ж" * 99, "id"), id="ж" * 99)
    assert unpack_holder(long) == (owner, b"x", "ж" * 99)


def test_errors_name_the_argument(nodes: Nodes, name: str) -> None:
    node = nodes["a"]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("group", lambda: node.group("x" * 1025)),
        ("group", lambda: node.group("")),
        ("group", lambda: node.group("\ud800")),
        ("id", lambda: node.group(name).join("x" * 1025)),
        ("id", lambda: node.group(name).join("\ud800")),
        ("service", lambda: node.election("x" * 1025)),
        ("candidate", lambda: node.election(name).nominate("x" * 1025)),
    ]
    for field, call in calls:
        with pytest.raises(raftmeta.InvalidArgument, match=f"^{field}: ") as refused:
            call()
        assert refused.value.field == field
