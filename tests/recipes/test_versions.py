"""Versions of mappings and sets: each is what it was, however many came after it, and costs what it changed."""

from __future__ import annotations

import queue
import random
import threading
from typing import Any

import raftmeta
from raftmeta.interfaces import KeySetChange
from raftmeta.operations import Create, Delete
from raftmeta.recipes import listeners
from raftmeta.recipes.versions import KeySet, Versions
from tests.recipes.test_group import next_of


def test_every_version_is_as_the_model_has_it() -> None:
    chance = random.Random(7)
    model: dict[str, int] = {str(number): number for number in range(20)}
    version: Versions[str, int] = Versions(dict(model))
    kept = [(version, dict(model))]
    for _ in range(300):
        changes: dict[str, int | None] = {
            str(chance.randrange(40)): chance.choice([None, chance.randrange(9)]) for _ in range(chance.randrange(4))
        }
        version = version.changed(changes)
        for key, value in changes.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        kept.append((version, dict(model)))
    for found, wanted in chance.sample(kept, len(kept)):
        assert len(found) == len(wanted)
        assert all(found.get(str(key)) == wanted.get(str(key)) for key in range(41))
        assert all((str(key) in found) == (str(key) in wanted) for key in range(41))
        assert found == wanted
        assert dict(found) == wanted
        assert sorted(found.items()) == sorted(wanted.items())


def test_a_key_set_is_a_set() -> None:
    first = Versions({"a": True, "b": True})
    keys = KeySet(first)
    first.changed({"c": True, "a": None})
    assert keys == {"a", "b"} == frozenset(keys)
    assert keys - {"a"} == {"b"}
    assert isinstance(keys - {"a"}, frozenset)
    assert hash(keys) == hash(frozenset("ab"))
    assert "c" not in keys
    assert len(keys) == 2


def test_a_version_may_be_read_while_others_are_made() -> None:
    first: Versions[int, int] = Versions(dict.fromkeys(range(1000), 0))
    wanted, wrong = dict.fromkeys(range(1000), 0), []

    def read() -> None:
        for _ in range(100):
            if 5 not in first or len(first) != 1000:
                wrong.append("part")
            first._whole = None
            if first != wanted:
                wrong.append("whole")

    reader = threading.Thread(target=read)
    reader.start()
    version = first
    for _ in range(3000):
        version = version.changed({5: None, 7: 1})
    reader.join()
    assert not wrong


def test_a_change_of_a_large_set_is_told_without_making_it(nodes: dict[str, raftmeta.Node], name: str) -> None:
    """A listener that looks at what was added, and at the size, does not pay for 5,000 keys."""
    nodes["a"].put_many([(f"{name}/{number}", b"") for number in range(5000)])
    nodes["a"].storage.get(name)
    told: queue.Queue[KeySetChange] = queue.Queue()
    nodes["a"].listeners.add_key_set_change_listener(f"{name}/", told.put)
    nodes["a"].storage.multi([Create(f"{name}/x", b""), Delete(f"{name}/7")])
    nodes["a"].storage.put(f"{name}/y", b"")
    first, second = next_of(told), next_of(told)
    assert (first.added, first.removed, len(first.keys)) == ({f"{name}/x"}, {f"{name}/7"}, 5000)
    assert (second.added, second.removed, len(second.keys)) == ({f"{name}/y"}, frozenset(), 5001)
    assert f"{name}/y" in second.keys
    assert f"{name}/y" not in first.keys
    assert first.keys._keys._whole is None and second.keys._keys._whole is None  # type: ignore[attr-defined]
    assert second.keys - first.keys == {f"{name}/y"}


def test_calls_that_stand_for_many_name_the_whole_difference() -> None:
    def change(revision: int, added: set[str], removed: set[str]) -> KeySetChange:
        return KeySetChange("", frozenset(), revision, False, frozenset(added), frozenset(removed))

    changes: Any = [change(1, {"a", "b"}, {"x"}), change(2, {"c"}, {"a"}), change(3, {"x", "a"}, {"b"})]
    found: Any = listeners.coalesced(changes)
    assert (found.added, found.removed, found.revision, found.coalesced) == ({"a", "c"}, frozenset(), 3, True)
