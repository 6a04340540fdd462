"""A sync that is missing is found: a sample of `python -m jepsen every-sync --lies`, which plants every kind of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.faults.promises import (
    KINDS,
    MARK,
    PARENT,
    RECEIVED,
    SWAPPED,
    Lie,
    Promise,
    Promises,
    contradictions,
    lies,
    unnoticed,
)
from jepsen.faults.shim import Action

SAMPLE = (
    Lie("log", Action.LIE, "b"),
    Lie("log", Action.EARLY, "all"),
    Lie("identity", Action.EARLY, "all"),
    Lie(MARK, Action.STRAY, "b"),
    Lie("checkpoint", Action.LIE, "b"),
    Lie("folder of the checkpoint", Action.STRAY, "all"),
    Lie("folder of the node", Action.LIE, "b"),
    Lie(PARENT, Action.LIE, "all"),
    Lie(RECEIVED, Action.EARLY, "b"),
    Lie("log", Action.SWAP, "b", "identity"),
    Lie("log", Action.SWAP, "all", "checkpoint"),
    Lie("identity", Action.SWAP, "b", "folder of the node"),
)


@pytest.fixture
def promises(tmp_path: Path) -> Iterator[Promises]:
    with Promises(tmp_path / "promises") as made:
        yield made


@pytest.mark.parametrize("is_tail_lost", [False, True])
def test_every_node_keeps_what_it_promised(promises: Promises, is_tail_lost: bool) -> None:
    """Everything that no sync made durable is gone, from all nodes; each alone knows who it is and what it had."""
    assert promises.broken(None, is_tail_lost=is_tail_lost) == []


def test_a_node_that_was_sent_its_state_keeps_it(promises: Promises) -> None:
    """Its folder was wiped, and it has learnt everything from the others."""
    assert promises.broken(None, is_joined=True) == []


@pytest.mark.parametrize("lie", SAMPLE, ids=str)
def test_a_missing_sync_is_found(promises: Promises, lie: Lie) -> None:
    """On the disk of one node, only that one has lost anything."""
    wrong = promises.broken(lie)
    assert wrong
    assert lie.disks == "all" or all(told.startswith(f"{lie.disks} ") for told in wrong)


def test_lies_are_of_every_kind_on_one_disk_and_on_all() -> None:
    """Left out, early, of another file, and of two files that are mistaken for each other."""
    planted = list(lies())
    assert len(planted) == len(set(planted)) == 3 * (2 * len(KINDS) - 1) + 2 * len(SWAPPED)
    assert {kind for pair in SWAPPED for kind in pair} < set(KINDS)
    assert set(SAMPLE) <= set(planted)


def test_every_broken_promise_is_told() -> None:
    """And one that was kept is not."""
    before = Promise(id=7, boot=1, term=3, last=90, snapshot=50)
    assert list(contradictions({"a": before}, {"a": Promise(id=7, boot=2, term=3, last=90, snapshot=50)})) == []
    worse = Promise(id=8, boot=1, term=2, last=89, snapshot=49)
    assert len(list(contradictions({"a": before}, {"a": worse}))) == 5
    assert list(contradictions({"a": before}, {"a": "gone"})) == ["a does not start: gone"]
    assert list(unnoticed({"a": before}, {"a": worse})) == []
    assert len(list(unnoticed({"a": before}, {"a": Promise(id=7, boot=2, term=3, last=89, snapshot=50)}))) == 1
