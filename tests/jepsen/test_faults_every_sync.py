"""A sample of the power cuts at every sync of a script; all of them are `python -m jepsen every-sync`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jepsen.faults.every_sync import EverySync, contradictions
from jepsen.faults.script import CONFLICT_AT, OPERATIONS, is_add, key_of

# Shares of the script: its founding, the log conflict and its end, with a change of the membership on the way.
SAMPLE = (0.04, 0.5, 0.97)


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EverySync]:
    with EverySync(tmp_path_factory.mktemp("syncs") / "disks") as made:
        yield made


@pytest.mark.mounts
def test_no_sampled_sync_is_a_bad_moment_to_lose_power(cuts: EverySync) -> None:
    """Before and after it: whatever was acknowledged by then is on every voter, nothing is there that nobody wrote."""
    syncs = cuts.count_syncs()
    points = list(cuts.points(int(share * syncs) for share in SAMPLE))
    assert [(point.sync, point.action, point.wrong) for point in points if point.wrong] == []
    assert sum(point.was_struck for point in points) >= len(points) - 2  # no two runs make quite the same syncs
    assert max(point.acknowledged for point in points) > CONFLICT_AT
    assert syncs > OPERATIONS


@pytest.mark.mounts
def test_disks_that_sync_nothing_are_found_out(cuts: EverySync) -> None:
    """So the cut takes what was not synced, and the look afterwards would see it."""
    point = cuts.on_lying_disks()
    assert point.acknowledged > OPERATIONS / 2
    assert point.wrong


def told(numbers: set[int], **changed: Any) -> dict[str, Any]:
    """What a node with exactly these writes says."""
    keys = {key_of(number): str(number) for number in numbers if not is_add(number)}
    return {"keys": keys, "counter": sum(map(is_add, numbers))} | changed


def test_every_contradiction_is_told() -> None:
    """A lost write, a lost add, one too many, a stranger, a lone voter, nodes that differ; and what is right is not."""
    begun, acknowledged = set(range(12)), set(range(10))

    def wrong(**nodes: dict[str, Any]) -> str:
        return "; ".join(contradictions(nodes, begun, acknowledged))

    right = told(begun)
    assert wrong(a=right, b=right) == wrong(a=told(acknowledged), b=told(acknowledged)) == ""
    lost = told(acknowledged - {3})
    assert wrong(a=lost, b=lost) == "a lost [3]; b lost [3]"
    assert wrong(a=right, b=told(begun, counter=1)) == "b counted 1, not 2 to 3; ['a', 'b'] do not agree"
    assert "a counted 4" in wrong(a=told(begun, counter=4), b=right)
    assert "which nobody wrote" in wrong(a=told(begun | {33}), b=right)
    assert wrong(a=right) == "only ['a'] vote"
