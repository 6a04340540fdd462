"""Runs with observers: what the command line asks for, and the lies that are planted in observers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import raftmeta
from jepsen.observing import GAP_EVERY, lying
from jepsen.plan import Plan, PlanError


def plan(store: Path, **wanted: Any) -> Plan:
    usual = {"nodes": 3, "workload": "register", "nemesis": "none", "time_s": 9, "rate": 100, "seed": 1}
    return Plan.check(**{**usual, **wanted}, store=store)


def test_callers_are_in_observers_too(tmp_path: Path) -> None:
    """Each broker has as many, whether it holds a place or not."""
    _, inside = plan(tmp_path, observers=2).slots(0)
    assert set(inside) == {"n1", "n2", "n3", "o1", "o2"}
    assert len({len(slots) for slots in inside.values()}) == 1


def test_nemeses_of_observers_need_observers(tmp_path: Path) -> None:
    """`all` leaves them out without; their names and their mistakes end the command with what to add."""
    without = plan(tmp_path, nemesis="all")
    assert "--observers" in without.left_out["observer-kill"]
    assert "observer-kill" in plan(tmp_path, nemesis="all", observers=1).nemeses
    for wrong in ({"nemesis": "observer-wipe"}, {"plant": "stale"}, {"observers": 5}):
        with pytest.raises(PlanError, match="--observers"):
            plan(tmp_path, **wrong)


class Store:
    """What was asked of it, and a watch of many batches."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def get(self, key: str, **options: Any) -> None:
        self.asked.append(options)

    def watch(self, **_options: Any) -> Any:
        async def batches() -> AsyncIterator[Any]:
            for revision in range(1, 2 * GAP_EVERY + 1):
                yield raftmeta.WatchBatch(revision, 0.0, [SimpleNamespace(revision=revision)], True)  # type: ignore[list-item]

        return SimpleNamespace(batches=batches)


def told(lies: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[int]]:
    """The options of one read, and the revisions of the events of a watch."""

    async def act() -> list[int]:
        store = lying(asked, lies)  # type: ignore[arg-type]
        await store.get("x", timeout_s=1.0)
        return [event.revision async for batch in store.watch().batches() for event in batch.events]

    asked = Store()
    return asked.asked, asyncio.run(act())


def test_a_lie_is_told_and_nothing_else() -> None:
    """stale: reads are local. gap: one event in so many batches is left out. `open` is a mistake of others."""
    revisions = list(range(1, 2 * GAP_EVERY + 1))
    assert told(("open",)) == ([{"timeout_s": 1.0}], revisions)
    assert told(("stale",)) == ([{"timeout_s": 1.0, "local": True}], revisions)
    assert told(("gap",)) == ([{"timeout_s": 1.0}], [one for one in revisions if one % GAP_EVERY])
