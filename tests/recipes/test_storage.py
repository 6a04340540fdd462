"""KIP-30 Storage and Listener Registry, contract by contract (docs/kip30.md)."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

import raftmeta
from raftmeta.interfaces import KeySetChange, Stored, ValueChange
from raftmeta.operations import Create, Delete, Put, Update
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face
from tests.recipes.test_group import next_of

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


def test_put_creates_and_update_replaces(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 put throws if the key exists, update if it does not; neither changes anything then."""
    storage, reader = face(nodes["a"]).store.storage, face(nodes["b"]).store.storage
    with pytest.raises(raftmeta.KeyMissing):
        storage.update(name, b"0")
    assert reader.get(name) is None
    first = storage.put(name, b"1")
    with pytest.raises(raftmeta.KeyExists):
        storage.put(name, b"2")
    assert reader.get(name) == Stored(b"1", first)
    second = storage.update(name, "3")
    assert reader.get(name) == Stored(b"3", second)
    assert second > first
    storage.delete(name)
    assert reader.get(name) is None
    with pytest.raises(raftmeta.KeyMissing):
        storage.delete(name)


def test_fetch_gives_a_future(nodes: Nodes, name: str) -> None:
    storage = nodes["a"].storage
    assert storage.fetch(name).result(30) is None
    storage.put(name, b"1")
    assert storage.fetch(name).result(30) == b"1"
    with pytest.raises(raftmeta.InvalidArgument):
        storage.fetch("").result(30)


def test_fetch_on_asyncio_is_under_way_before_it_is_awaited(nodes: Nodes, name: str) -> None:
    async def main() -> None:
        async with nodes["a"].aio() as face:
            await face.storage.put(name, b"1")
            fetches = [face.storage.fetch(name), face.storage.fetch(name + "/missing")]
            assert await asyncio.gather(*fetches) == [b"1", None]

    asyncio.run(main())


def test_compare_and_set(nodes: Nodes, face: MakeFace, name: str) -> None:
    storage = face(nodes["a"]).store.storage
    first = storage.put(name, b"1")
    second = storage.update(name, b"2", expected_revision=first)
    with pytest.raises(raftmeta.CompareFailed):
        storage.update(name, b"3", expected_revision=first)
    with pytest.raises(raftmeta.CompareFailed):
        storage.delete(name, expected_revision=first)
    assert storage.get(name) == Stored(b"2", second)
    storage.delete(name, expected_revision=second)


def test_children_are_the_keys_of_a_namespace(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Without the keys of the recipes, also where the namespace is everything."""
    one = face(nodes["a"]).store
    one.group(name).join("x")
    for key in ("/a", "/a/b", "0"):
        one.storage.put(name + key, b"")
    assert one.storage.children(name + "/") == {name + "/a", name + "/a/b"}
    everything = one.storage.children("")
    assert name + "0" in everything
    assert not any(key.startswith("_raftmeta/") for key in everything)


def test_multi_does_all_or_nothing(nodes: Nodes, face: MakeFace, name: str) -> None:
    storage = face(nodes["a"]).store.storage
    first = storage.put(f"{name}/1", b"1")
    with pytest.raises(raftmeta.KeyMissing):
        storage.multi([Create(f"{name}/2", b"2"), Update(f"{name}/3", b"3")])
    assert storage.children(name) == {f"{name}/1"}
    revision = storage.multi(
        [Create(f"{name}/2", b"2"), Update(f"{name}/1", b"9", expected_revision=first), Delete(f"{name}/3")]
    )
    assert storage.get(f"{name}/1") == Stored(b"9", revision)
    assert storage.get(f"{name}/2") == Stored(b"2", revision)
    with pytest.raises(raftmeta.InvalidArgument):
        storage.multi([Put(name, b"")])


def test_every_write_takes_a_fence(nodes: Nodes, face: MakeFace, name: str) -> None:
    """A lead or a member as it is; refused once it was given back."""
    one = face(nodes["a"]).store
    storage, group = one.storage, one.group(name)
    member = group.join("x")
    fence = member.fence
    storage.put(name, b"1", fence=fence)
    storage.update(name, b"2", fence=fence)
    storage.multi([Update(name, b"3")], fence=fence)
    group.leave("x")
    for write in (
        lambda: storage.put(f"{name}/new", b"", fence=fence),
        lambda: storage.update(name, b"4", fence=fence),
        lambda: storage.multi([Update(name, b"5")], fence=fence),
        lambda: storage.delete(name, fence=fence),
    ):
        with pytest.raises(raftmeta.Fenced):
            write()
    assert storage.get(name).data == b"3"


def test_a_fence_may_be_what_is_held(nodes: Nodes, name: str) -> None:
    member = nodes["a"].group(name).join("x")
    nodes["a"].storage.put(name, b"1", fence=member)
    nodes["a"].group(name).leave("x")
    with pytest.raises(raftmeta.Fenced):
        nodes["a"].storage.update(name, b"2", fence=member)


def test_the_keys_of_the_recipes_are_not_the_users(nodes: Nodes, face: MakeFace) -> None:
    one = face(nodes["a"]).store
    key = "_raftmeta/groups/g/x"
    for call in (
        lambda: one.storage.put(key, b""),
        lambda: one.storage.get(key),
        lambda: one.storage.multi([Delete(key)]),
        lambda: one.listeners.add_value_change_listener(key, print),
        lambda: one.listeners.add_key_set_change_listener("_raftmeta/", print),
        lambda: one.storage.put(b"bytes", b""),
    ):
        with pytest.raises(raftmeta.InvalidArgument):
            call()


# --- the listener registry --------------------------------------------------------------------------------------------


def test_value_listeners_are_told_every_value_and_the_deletion(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 valueChanged: the new value, None when it was deleted; several listeners to a key."""
    listeners, storage = face(nodes["a"]).store.listeners, nodes["b"].storage
    told: list[queue.Queue[ValueChange]] = [queue.Queue(), queue.Queue()]
    for one in told:
        listeners.add_value_change_listener(name, one.put)
    storage.put(name + "/below", b"another key")
    revisions = [storage.put(name, b"1"), storage.update(name, b"2")]
    storage.delete(name)
    storage.put(name, b"3")
    for one in told:
        changes = [next_of(one) for _ in range(4)]
        assert [change.value for change in changes] == [b"1", b"2", None, b"3"]
        assert [change.revision for change in changes[:2]] == revisions
        assert {change.key for change in changes} == {name}
    listeners.remove_value_change_listener(name, told[0].put)
    storage.update(name, b"4")
    assert next_of(told[1]).value == b"4"
    assert told[0].empty()
    listeners.remove_value_change_listener(name, told[1].put)
    listeners.remove_value_change_listener(name, told[1].put)
    listeners.remove_value_change_listener("never added", told[1].put)


def test_key_set_listeners_get_the_new_full_set(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 keySetChanged: when a key of the namespace appears or vanishes, not when a value changes."""
    listeners, storage = face(nodes["a"]).store.listeners, nodes["b"].storage
    told: queue.Queue[KeySetChange] = queue.Queue()
    listeners.add_key_set_change_listener(f"{name}/", told.put)
    storage.put(f"{name}/1", b"")
    storage.put(name, b"not below")
    storage.update(f"{name}/1", b"a value only")
    storage.multi([Create(f"{name}/2", b""), Create(f"{name}/3", b""), Delete(f"{name}/1")])
    storage.multi([Delete(f"{name}/3"), Create(f"{name}/3", b"the same set")])
    storage.delete(f"{name}/2")
    changes = [next_of(told) for _ in range(3)]
    assert [{key[len(name) :] for key in change.keys} for change in changes] == [{"/1"}, {"/2", "/3"}, {"/3"}]
    assert {change.namespace for change in changes} == {f"{name}/"}


def test_the_whole_keyspace_is_a_namespace_without_the_recipes(nodes: Nodes, face: MakeFace, name: str) -> None:
    listeners = face(nodes["a"]).store.listeners
    told: queue.Queue[KeySetChange] = queue.Queue()
    listeners.add_key_set_change_listener("", told.put)
    nodes["a"].group(name).join("x")  # no change of the user's keys
    nodes["a"].storage.put(name, b"")
    assert name in next_of(told).keys
    nodes["a"].group(name).close()


def test_a_listener_may_remove_itself_and_a_throwing_one_stops_nobody(nodes: Nodes, face: MakeFace, name: str) -> None:
    listeners = face(nodes["a"]).store.listeners
    told: queue.Queue[ValueChange] = queue.Queue()
    once: queue.Queue[ValueChange] = queue.Queue()
    removed = threading.Event()

    def throwing(change: ValueChange) -> None:
        raise ValueError("on purpose")

    def only_once(change: ValueChange) -> None:
        once.put(change)
        # On asyncio a listener may not block its own loop; another thread does it for this test of both faces.
        threading.Thread(target=lambda: (remove(), removed.set())).start()

    def remove() -> None:
        listeners.remove_value_change_listener(name, only_once)

    for listener in (throwing, only_once, told.put):
        listeners.add_value_change_listener(name, listener)
    nodes["b"].storage.put(name, b"1")
    assert removed.wait(10)
    nodes["b"].storage.update(name, b"2")
    assert [next_of(told).value for _ in range(2)] == [b"1", b"2"]
    wait_until(lambda: listeners.listener_failures == 2, timeout_s=20, what="two failures to be counted")
    assert once.qsize() == 1


def test_a_listener_that_is_a_coroutine_removes_itself(nodes: Nodes, name: str) -> None:
    """On asyncio, inside its own call."""

    async def main() -> None:
        async with nodes["a"].aio() as face:
            once: list[ValueChange] = []
            every: asyncio.Queue[ValueChange] = asyncio.Queue()

            async def only_once(change: ValueChange) -> None:
                await face.listeners.remove_value_change_listener(name, only_once)
                once.append(change)

            await face.listeners.add_value_change_listener(name, only_once)
            await face.listeners.add_value_change_listener(name, every.put_nowait)
            await face.storage.put(name, b"1")
            await face.storage.update(name, b"2")
            assert [(await asyncio.wait_for(every.get(), 10)).value for _ in range(2)] == [b"1", b"2"]
            assert len(once) == 1

    asyncio.run(main())


def test_a_registry_that_is_closed_tells_nobody(nodes: Nodes, face: MakeFace, name: str) -> None:
    one = face(nodes["a"])
    listeners = one.store.listeners
    told: queue.Queue[Any] = queue.Queue()
    listeners.add_value_change_listener(name, told.put)
    listeners.add_key_set_change_listener(name, told.put)
    listeners.close()
    listeners.close()
    nodes["a"].storage.put(name, b"1")
    nodes["b"].storage.get(name)
    assert told.empty()
    with pytest.raises(raftmeta.NodeClosed):
        listeners.add_value_change_listener(name, told.put)
