"""KIP-30 Storage and Listener Registry, line by line."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from raftmeta import CompareFailed, InvalidArgument, KeyExists, KeyMissing, Unsupported
from raftmeta.conformance.kit import Kit, Told, check, equal, eventually, raises
from raftmeta.operations import Create, Delete, Update

AREA = "storage"
LISTENERS = "listeners"
BIG = bytes(range(256)) * 256
CHANGES = 100
KEY_BYTES = 480  # the longest that every back end takes
MANY = 3000  # more of them than one answer of a node holds
MULTI = 100  # operations of one multi, which every back end takes
LARGE_MULTI = 1000  # of one that a back end may refuse


@check(AREA, "fetch gives a future: the value, or none")
def _(kit: Kit) -> None:
    storage, key = kit.first.storage, kit.name("key")
    equal(storage.fetch(key).result(20), None, "before put")
    storage.put(key, b"\x00value\xff")
    equal(storage.fetch(key).result(20), b"\x00value\xff", "after put")


@check(AREA, "put throws if the key exists, and changes nothing")
def _(kit: Kit) -> None:
    storage, key = kit.first.storage, kit.name("key")
    storage.put(key, "1")
    with raises(KeyExists, "a second put"):
        storage.put(key, "2")
    stored = storage.get(key)
    equal(stored.data if stored else None, b"1", "what is stored")


@check(AREA, "update throws if the key does not exist, and makes none")
def _(kit: Kit) -> None:
    storage, key = kit.first.storage, kit.name("key")
    with raises(KeyMissing, "update"):
        storage.update(key, "1")
    equal(storage.get(key), None, "what is stored")


@check(AREA, "put and update return the revision that get shows, and it grows")
def _(kit: Kit) -> None:
    storage, key = kit.first.storage, kit.name("key")
    first = storage.put(key, "1")
    second = storage.update(key, "2")
    equal(second > first, True, f"{second} after {first}")
    stored = storage.get(key)
    equal((stored.data, stored.revision) if stored else None, (b"2", second), "get")


@check(AREA, "delete removes a key and throws if it does not exist")
def _(kit: Kit) -> None:
    storage, key = kit.first.storage, kit.name("key")
    storage.put(key, "1")
    storage.delete(key)
    equal(storage.get(key), None, "what is stored")
    with raises(KeyMissing, "a second delete"):
        storage.delete(key)
    storage.put(key, "2")


@check(AREA, "children are the whole keys that begin with the namespace")
def _(kit: Kit) -> None:
    storage, namespace = kit.first.storage, kit.name("space")
    for key in (f"{namespace}/a", f"{namespace}/a/b", f"{namespace}/c", f"{namespace}2/d"):
        storage.put(key, "")
    equal(storage.children(f"{namespace}/"), {f"{namespace}/a", f"{namespace}/a/b", f"{namespace}/c"}, "children")


@check(AREA, "values may be empty and large, keys any text")
def _(kit: Kit) -> None:
    storage = kit.first.storage
    for odd in ("/", "ä ö", "'; DROP TABLE kv; --", "%s", "a" * 300):
        key = kit.name(odd)
        for value in (b"", BIG):
            if storage.get(key) is None:
                storage.put(key, value)
            else:
                storage.update(key, value)
            stored = storage.get(key)
            equal(stored.data if stored else None, value, f"the value of {key!r}")


@check(AREA, "update and delete compare the revision they expect", needs="compare_and_set")
def _(kit: Kit) -> None:
    storage, key = kit.first.storage, kit.name("key")
    first = storage.put(key, "1")
    second = storage.update(key, "2", expected_revision=first)
    with raises(CompareFailed, "update of an old revision"):
        storage.update(key, "3", expected_revision=first)
    with raises(CompareFailed, "delete of an old revision"):
        storage.delete(key, expected_revision=first)
    storage.delete(key, expected_revision=second)


@check(AREA, "of writers that race on one revision exactly one wins", needs="compare_and_set", parties=2)
def _(kit: Kit) -> None:
    key, wins = kit.name("key"), []
    expected = kit.first.storage.put(key, "0")

    def race(number: int) -> None:
        storage = kit.backends[number % len(kit.backends)].storage
        try:
            storage.update(key, str(number), expected_revision=expected)
            wins.append(number)
        except CompareFailed:
            pass

    racers = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    equal(len(wins), 1, "winners")
    stored = kit.first.storage.get(key)
    equal(stored.data if stored else None, str(wins[0]).encode(), "what is stored")


@check(AREA, "multi does all in one revision, or nothing", needs="multi")
def _(kit: Kit) -> None:
    storage, one, two = kit.first.storage, kit.name("one"), kit.name("two")
    revision = storage.multi([Create(one, "1"), Create(two, "2")])
    equal([stored.revision for key in (one, two) if (stored := storage.get(key))], [revision] * 2, "revisions")
    with raises(KeyExists, "a multi that cannot be done"):
        storage.multi([Update(one, "changed"), Create(two, "again")])
    stored = storage.get(one)
    equal(stored.data if stored else None, b"1", "nothing was changed")
    storage.multi([Delete(one, must_exist=True), Update(two, "alone")])
    equal(storage.get(one), None, "deleted")


@check(AREA, "children are all of them, however long and many", needs="multi")
def _(kit: Kit) -> None:
    storage, namespace = kit.first.storage, kit.name("space") + "/"
    keys = [f"{namespace}{number:06}".ljust(KEY_BYTES, "k") for number in range(MANY)]
    for first in range(0, MANY, MULTI):
        storage.multi([Create(key, "") for key in keys[first : first + MULTI]])
    found = storage.children(namespace)
    equal(len(found), MANY, "how many of them")
    equal(found, frozenset(keys), "the keys")
    for first in range(0, MANY, MULTI):
        storage.multi([Delete(key) for key in keys[first : first + MULTI]])


@check(AREA, "a large multi is done whole, or refused before anything of it is done", needs="multi")
def _(kit: Kit) -> None:
    storage, namespace = kit.first.storage, kit.name("space") + "/"
    keys = [f"{namespace}{number:06}" for number in range(LARGE_MULTI)]
    try:
        storage.multi([Create(key, "") for key in keys])
    except InvalidArgument:
        keys = []
    equal(storage.children(namespace), frozenset(keys), "the keys")
    for first in range(0, len(keys), MULTI):
        storage.multi([Delete(key) for key in keys[first : first + MULTI]])


@check(AREA, "multi is refused in plain words where it is not promised", lacks="multi")
def _(kit: Kit) -> None:
    with raises(Unsupported, "multi"):
        kit.first.storage.multi([Create(kit.name("key"), "1")])


@check(AREA, "a read sees every write that was answered before, anywhere", needs="linearizable_reads", parties=2)
def _(kit: Kit) -> None:
    key = kit.name("key")
    kit.first.storage.put(key, "0")
    for number in range(1, CHANGES):
        writer = kit.backends[number % len(kit.backends)].storage
        reader = kit.backends[(number + 1) % len(kit.backends)].storage
        writer.update(key, str(number))
        stored = reader.get(key)
        equal(stored.data if stored else None, str(number).encode(), "the newest value")


# --- listeners --------------------------------------------------------------------------------------------------------
@check(LISTENERS, "a value listener hears of put, update and delete", parties=2)
def _(kit: Kit) -> None:
    key, told = kit.name("key"), Told()
    kit.first.listeners.add_value_change_listener(key, told)
    storage = kit.second.storage
    storage.put(key, "1")
    told.until(lambda change: change.value == b"1", "put")
    storage.update(key, "2")
    told.until(lambda change: change.value == b"2", "update")
    storage.delete(key)
    told.until(lambda change: change.value is None, "delete")
    equal({change.key for change in told.changes}, {key}, "key in the change")


@check(LISTENERS, "a key set listener gets the new full set", parties=2)
def _(kit: Kit) -> None:
    namespace, told = kit.name("space") + "/", Told()
    kit.first.listeners.add_key_set_change_listener(namespace, told)
    storage = kit.second.storage
    storage.put(f"{namespace}a", "1")
    storage.put(f"{namespace}b", "1")
    told.until(lambda change: change.keys == {f"{namespace}a", f"{namespace}b"}, "both keys")
    storage.update(f"{namespace}a", "2")
    storage.delete(f"{namespace}a")
    told.until(lambda change: change.keys == {f"{namespace}b"}, "the key that is left")
    sets = [change.keys for change in told.changes]
    equal(all(before != after for before, after in itertools.pairwise(sets)), True, "each call is a change")


@check(LISTENERS, "every change is told in order, or coalesced with a mark", needs="ordered_listeners", parties=2)
def _(kit: Kit) -> None:
    key, told = kit.name("key"), Told()
    kit.first.listeners.add_value_change_listener(key, told)
    revisions = [kit.second.storage.put(key, "0")]
    revisions += [kit.second.storage.update(key, str(number)) for number in range(1, CHANGES)]
    told.until(lambda change: change.value == str(CHANGES - 1).encode(), "the last change")
    heard = [change.revision for change in told.changes]
    equal(heard, sorted(set(heard)), "order")
    if not any(change.coalesced for change in told.changes):
        equal([int(change.value) for change in told.changes], list(range(CHANGES)), "every change")


@check(LISTENERS, "a removed listener is not called, one may remove itself, and one that throws stops no other")
def _(kit: Kit) -> None:
    key, told, removed, calls = kit.name("key"), Told(), Told(), []
    registry = kit.first.listeners

    def once(change: Any) -> None:
        calls.append(change)
        registry.remove_value_change_listener(key, once)
        raise RuntimeError("a listener that throws")

    for listener in (removed, once, told):
        registry.add_value_change_listener(key, listener)
    registry.remove_value_change_listener(key, removed)
    kit.first.storage.put(key, "1")
    kit.first.storage.update(key, "2")
    told.until(lambda change: change.value == b"2", "the last change")
    equal((len(calls), removed.changes), (1, []), "calls of the others")
    registry.remove_value_change_listener("never added", told)
    registry.remove_key_set_change_listener("never added", told)


@check(LISTENERS, "listeners of a key hear nothing of its neighbours")
def _(kit: Kit) -> None:
    key, told, heard = kit.name("key"), Told(), Told()
    kit.first.listeners.add_value_change_listener(key, told)
    kit.first.listeners.add_value_change_listener(key + "x", heard)
    kit.first.storage.put(key + "x", "1")
    heard.until(lambda change: change.value == b"1", "the neighbour's change")
    eventually(lambda: told.changes == [], "nothing")
