"""What may be a listener: a callable, or an object with the method of the KIP's interface; anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import raftmeta
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]

METHODS = ["group_change", "leader_change", "value_changed", "key_set_changed"]
SPELLINGS = {
    "group_change": ("on_group_change", "onGroupChange"),
    "leader_change": ("on_leader_change", "onLeaderChange"),
    "value_changed": ("value_changed", "valueChanged"),
    "key_set_changed": ("key_set_changed", "keySetChanged"),
}


def adder(store: Any, method: str, name: str) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
    """How a listener with this method is added, and removed."""
    if method == "group_change":
        return store.group(name).add_listener, store.group(name).remove_listener
    if method == "leader_change":
        return store.election(name).add_listener, store.election(name).remove_listener
    registry = store.listeners
    if method == "value_changed":
        return (
            lambda one: registry.add_value_change_listener(f"{name}/k", one),
            lambda one: registry.remove_value_change_listener(f"{name}/k", one),
        )
    return (
        lambda one: registry.add_key_set_change_listener(f"{name}/", one),
        lambda one: registry.remove_key_set_change_listener(f"{name}/", one),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spelling", [0, 1], ids=["python", "kip"])
def test_an_object_of_the_kip_is_told_what_the_kip_says(
    nodes: Nodes, face: MakeFace, name: str, method: str, spelling: int
) -> None:
    told: list[Any] = []
    listener = type("Listener", (), {SPELLINGS[method][spelling]: lambda _, change: told.append(change)})()
    add, remove = adder(face(nodes["a"]).store, method, name)
    add(listener)
    add(listener)
    node = nodes["b"]
    if method == "group_change":
        node.group(name).join("x")
        wanted: Any = {"x"}
    elif method == "leader_change":
        node.election(name).nominate("x")
        wanted = "x"
    else:
        node.put(f"{name}/k", b"v")
        wanted = b"v" if method == "value_changed" else {f"{name}/k"}
    wait_until(lambda: told, timeout_s=20, what="the listener to be told")
    assert told == [wanted]
    remove(listener)
    node.group(name).close()
    node.election(name).close()
    node.delete(f"{name}/k")
    assert told == [wanted]


@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_be_told_is_refused(nodes: Nodes, face: MakeFace, name: str, method: str) -> None:
    add, _ = adder(face(nodes["a"]).store, method, name)
    for wrong in (42, None, "x", object()):
        with pytest.raises(raftmeta.InvalidArgument) as refused:
            add(wrong)
        assert refused.value.field == "listener"
        assert SPELLINGS[method][0] in str(refused.value)


def test_callbacks_that_cannot_be_called_are_refused(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Before anything is held."""
    store = face(nodes["a"]).store
    calls: list[tuple[str, Callable[[], object]]] = [
        ("on_lost", lambda: store.group(name).join("x", on_lost=5)),
        ("on_lost", lambda: store.election(name).nominate("x", on_lost=5)),
        ("on_elected", lambda: store.election(name).nominate("x", on_elected=5)),
    ]
    for field, call in calls:
        with pytest.raises(raftmeta.InvalidArgument) as refused:
            call()
        assert refused.value.field == field
    assert store.group(name).membership_list() == set()
    assert store.election(name).get_leader() is None
