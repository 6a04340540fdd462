"""Who may be struck: told on clusters that exist only as reports."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from jepsen.atlas import Atlas
from jepsen.db import WaitFailed
from jepsen.nemesis import Harm, Nemesis, Target


class Reports:
    """What the atlas asks of a cluster: three founders and two spares, n1 leading, all up to date."""

    founders = ("n1", "n2", "n3")
    spares = ("n4", "n5")
    observers = ("o1", "o2")

    def __init__(self) -> None:
        self.nodes = {
            name: SimpleNamespace(
                is_answering=True,
                report={"role": "follower", "committed": 9, "persisted": 9, "is_ready": True, "lost_disks": []},
            )
            for name in self.founders
        }
        self.nodes["n1"].report["role"] = "leader"
        for name, feeder in (("o1", "n2"), ("o2", "o1")):
            self.nodes[name] = SimpleNamespace(
                is_answering=True, report={"role": "observer", "feeder": feeder, "committed": 9}
            )

    def voters(self) -> tuple[str, ...]:
        return self.founders

    def answering(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.is_answering]

    def leader(self) -> str | None:
        return "n1"

    def wait_for(self, condition: Any, what: str, *, timeout_s: float) -> Any:
        if not condition():
            raise WaitFailed(what)


def nemesis(harm_: Harm, *words: Target) -> Nemesis:
    class Harmful(Nemesis):
        name = f"test-{harm_.value}"
        targets: ClassVar[tuple[Target, ...]] = words
        harm = harm_

        def begin(self, nodes: tuple[str, ...]) -> str:
            return ""

        def end(self) -> None: ...

    return Harmful(cluster=None, random=Random(1))  # type: ignore[arg-type]


@pytest.fixture
def cluster() -> Reports:
    return Reports()


@pytest.fixture
def atlas(cluster: Reports) -> Atlas:
    return Atlas(cluster, Random(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(("word", "count"), [("none", 0), ("one", 1), ("minority", 1), ("majority", 2), ("all", 3)])
def test_a_word_is_so_many_of_the_voters(word: str, count: int, atlas: Atlas) -> None:
    """Of three: a majority is two."""
    aim = atlas.aim(nemesis(Harm.LIFE, word))
    assert aim is not None and len(set(aim.nodes)) == count


def test_a_process_is_in_one_hand_at_a_time(atlas: Atlas) -> None:
    """Who has two of three leaves one; links and clocks of all may be struck meanwhile; what is released is free."""
    majority = atlas.aim(nemesis(Harm.LIFE, "majority"))
    assert majority is not None
    assert atlas.aim(nemesis(Harm.LIFE, "all")) is None
    other = atlas.aim(nemesis(Harm.LIFE, "one"))
    assert other is not None and not set(other.nodes) & set(majority.nodes)
    assert atlas.aim(nemesis(Harm.NONE, "all")) is not None
    atlas.release(majority)
    atlas.release(other)
    assert atlas.aim(nemesis(Harm.LIFE, "all")) is not None


def test_one_change_of_members_is_under_way(atlas: Atlas) -> None:
    """The next waits for it."""
    first = atlas.aim(nemesis(Harm.MEMBERS, "none"))
    assert first is not None and atlas.aim(nemesis(Harm.MEMBERS, "none")) is None
    atlas.release(first)
    assert atlas.aim(nemesis(Harm.MEMBERS, "none")) is not None


def test_storage_is_taken_only_while_a_quorum_keeps_everything(atlas: Atlas, cluster: Reports) -> None:
    """One of three, and the next only when that one is a voter again that has caught up."""
    first = atlas.aim(nemesis(Harm.STORAGE, "one"))
    assert first is not None
    (lost,) = first.nodes
    assert atlas.aim(nemesis(Harm.STORAGE, "one")) is None
    cluster.nodes[lost].report["persisted"] = 3
    atlas.release(first)
    assert atlas.aim(nemesis(Harm.STORAGE, "one")) is None, "it is back, and has not caught up"
    cluster.nodes[lost].report["persisted"] = 9
    assert atlas.aim(nemesis(Harm.STORAGE, "one")) is not None


def test_no_storage_is_taken_while_members_change(atlas: Atlas) -> None:
    """Of three one is removed while another one's disk is wiped: the third alone is no majority of two."""
    change = atlas.aim(nemesis(Harm.MEMBERS, "none"))
    assert change is not None and atlas.aim(nemesis(Harm.STORAGE, "one")) is None
    atlas.release(change)
    assert atlas.aim(nemesis(Harm.STORAGE, "one")) is not None


def test_storage_stays_where_others_lag_or_are_down(atlas: Atlas, cluster: Reports) -> None:
    """A voter that has not written down what is committed keeps nothing safe; two of them, and none may be struck."""
    cluster.nodes["n2"].is_answering = False
    cluster.nodes["n3"].report["persisted"] = 8
    assert atlas.aim(nemesis(Harm.STORAGE, "one")) is None
    ruin = Atlas(cluster, Random(1), is_ruin=True)  # type: ignore[arg-type]
    assert ruin.aim(nemesis(Harm.STORAGE, "all")) is not None


def test_observers_and_their_feeders_are_struck_beside_the_voters(atlas: Atlas) -> None:
    """One observer, all of them, or a node that feeds one; each in one hand at a time."""
    one = atlas.aim(nemesis(Harm.LIFE, "observer"))
    assert one is not None and one.nodes[0] in ("o1", "o2")
    assert atlas.aim(nemesis(Harm.LIFE, "observers")) is None
    assert atlas.aim(nemesis(Harm.LIFE, "all")) is not None
    atlas.release(one)
    both = atlas.aim(nemesis(Harm.LIFE, "observers"))
    assert both is not None and both.nodes == ("o1", "o2")


def test_a_feeder_is_a_member_or_another_observer(atlas: Atlas, cluster: Reports) -> None:
    """Whom an observer names; nobody while none is fed."""
    aims = [atlas.aim(nemesis(Harm.LIFE, "feeder")) for _ in range(2)]
    assert {aim.nodes for aim in aims if aim} == {("n2",), ("o1",)}
    assert atlas.aim(nemesis(Harm.LIFE, "feeder")) is None
    for aim in aims:
        assert aim is not None
        atlas.release(aim)
    for name in cluster.observers:
        cluster.nodes[name].report["feeder"] = ""
    assert atlas.aim(nemesis(Harm.LIFE, "feeder")) is None
