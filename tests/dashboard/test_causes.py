"""The dashboard asks for flight recorders once for each change of the leader, and not again when it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from raftmeta.aio import Client
from raftmeta.dashboard.causes import Causes
from raftmeta.dashboard.reigns import Reigns
from raftmeta.errors import PermissionDenied, RaftmetaError
from raftmeta.explain import Asked


class Asking:
    """Counts the questions, and answers each with an error."""

    def __init__(self, error: RaftmetaError) -> None:
        self.count = 0
        self.error = error

    async def __call__(self, clients: Mapping[str, Client]) -> Asked:
        self.count += 1
        raise self.error


async def looked(causes: Causes, *terms: int) -> None:
    """One look of a watcher, and the end of the question that it begins."""
    causes.want(terms)
    if causes._task is not None:
        await causes._task


@pytest.mark.parametrize(("error", "count"), [(RaftmetaError("silent"), 2), (PermissionDenied("no"), 1)])
def test_a_change_is_asked_for_once(error: RaftmetaError, count: int) -> None:
    async def look() -> int:
        asking = Asking(error)
        causes = Causes({}, ask=asking, settle_s=0.0)
        for _ in range(3):
            await looked(causes, 2, 3)
        for _ in range(3):
            await looked(causes, 2, 3, 5)
        assert causes.of(3) == {"cause": "", "confidence": ""}
        await causes.close()
        return asking.count

    assert asyncio.run(look()) == count


def test_only_a_leader_after_another_one_has_a_cause() -> None:
    """Neither the first that was seen, nor one that is found again in its term."""
    reigns = Reigns()
    for term, leader in [(3, "a"), (3, ""), (3, "a"), (4, ""), (4, "b"), (6, "a")]:
        reigns.saw(term, leader, 0.0)
    assert reigns.changed() == [4, 6]
