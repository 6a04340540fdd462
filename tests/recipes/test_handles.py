"""Handles: two components of one process share a group, an election or a registry, and each closes its own."""

from __future__ import annotations

import gc
import queue
from typing import Any

import pytest

import raftmeta
from tests.processes.waiting import wait_until
from tests.recipes.test_group import MakeFace, Nodes, next_of


def test_a_handle_that_is_closed_ends_what_was_done_through_it(nodes: Nodes, face: MakeFace, name: str) -> None:
    store = face(nodes["a"]).store
    one, other = store.group(name), store.group(name)
    told: queue.Queue[Any] = queue.Queue()
    mine: queue.Queue[Any] = queue.Queue()
    one.add_listener(mine.put)
    other.add_listener(told.put)
    one.join("1")
    other.join("2")
    assert one.membership_list() == other.membership_list() == {"1", "2"}
    one.close()
    wait_until(lambda: other.membership_list() == {"2"}, timeout_s=20, what="the member of the closed handle to leave")
    with pytest.raises(raftmeta.NodeClosed, match="handle"):
        one.join("3")
    while next_of(told).ids != {"2"}:
        pass
    assert all("1" in change.ids for change in list(mine.queue))
    again = store.group(name)
    again.join("1")
    assert other.membership_list() == {"1", "2"}
    one.close()
    again.leave("2")  # members belong to the group, whichever handle they came through
    other.close()
    again.close()
    assert store.group(name).membership_list() == frozenset()


def test_a_name_works_again_when_all_its_handles_are_closed(nodes: Nodes, face: MakeFace, name: str) -> None:
    """As long as the store lives: the part is closed with its last handle, and opened by the next one."""
    store = face(nodes["a"]).store
    for _ in range(3):
        group, election = store.group(name), store.election(name)
        group.join("m")
        assert election.nominate("c")
        group.close()
        election.close()
        assert store.group(name).membership_list() == frozenset()
        assert store.election(name).get_leader() is None
    for handle in (store.storage, store.listeners):
        handle.close()
    store.storage.put(name, b"v")
    store.storage.delete(name)


def test_a_closed_handle_of_an_election_ends_its_candidates_only(nodes: Nodes, face: MakeFace, name: str) -> None:
    store = face(nodes["a"]).store
    one, other = store.election(name), store.election(name)
    assert one.nominate("1")
    assert not other.nominate("2")
    terms = other.terms("3")
    one.close()
    wait_until(lambda: other.get_leader() == "2", timeout_s=20, what="the next candidate")
    other.resign("2")
    assert next(terms).id == "3"
    other.close()
    assert next(terms, None) is None


def test_what_a_collected_handle_did_stays(nodes: Nodes, face: MakeFace, name: str) -> None:
    """node.group("g").join("m"): nobody holds that handle."""
    store = face(nodes["a"]).store
    told: queue.Queue[Any] = queue.Queue()
    store.group(name).join("m")
    listener = told.put
    store.group(name).add_listener(listener)
    gc.collect()
    one = store.group(name)
    one.join("n")
    if (first := next_of(told).ids) == {"m"}:  # the copy of the keys may hear of m behind the listener
        first = next_of(told).ids
    assert first == {"m", "n"}
    one.close()
    assert next_of(told).ids == {"m"}
    store.group(name).remove_listener(listener)
    store.group(name).leave("m")
    assert store.group(name).membership_list() == frozenset()
    assert told.empty()


def test_a_listener_that_two_handles_added_is_told_until_both_are_closed(
    nodes: Nodes, face: MakeFace, name: str
) -> None:
    store = face(nodes["a"]).store
    told: queue.Queue[Any] = queue.Queue()
    listener = told.put
    one, other = store.listeners, store.listeners
    for handle in (one, other):
        handle.add_value_change_listener(name, listener)
    nodes["b"].put(name, b"1")
    assert next_of(told).value == b"1"
    one.close()
    nodes["b"].put(name, b"2")
    assert next_of(told).value == b"2"
    other.close()
    third: queue.Queue[Any] = queue.Queue()
    again = store.listeners
    again.add_value_change_listener(name, third.put)
    nodes["b"].put(name, b"3")
    assert next_of(third).value == b"3"
    assert told.empty()
    again.close()


class Counted:
    """A listener that counts how often it is compared."""

    compared = 0

    def __call__(self, change: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return self is other

    __hash__ = None  # type: ignore[assignment]


def test_a_listener_is_looked_for_among_those_of_its_key_only(nodes: Nodes, face: MakeFace, name: str) -> None:
    """10,000 of them took 48 s: each was compared with all listeners of the process."""
    registry = face(nodes["a"]).store.listeners
    Counted.compared = 0
    for number in range(20):
        registry.add_value_change_listener(key=f"{name}/{number}", listener=Counted())
    registry.close()
    assert Counted.compared < 100
