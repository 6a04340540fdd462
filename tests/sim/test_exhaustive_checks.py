"""A check that cannot fail proves nothing: each one of the small worlds is told a lie and must name its invariant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raftmeta.sim import Exhaustive, small_world
from tests.faces.liar import SmallLiar

FOLLOWER, CANDIDATE, LEADER = 1, 3, 4


@pytest.fixture
def world() -> Exhaustive:
    """Three nodes, one leader, one command: its states, each of them sound."""
    world = small_world("time_outs=1,proposals=1,crashes=0")
    while world.run(10_000):
        pass
    assert world.violation is None
    return world


def told(liar: SmallLiar, lie: Callable[[SmallLiar], None], world: Exhaustive) -> str:
    """The invariant that falls when everything happens in the state that was lied about."""
    lie(liar)
    if world.violation is None:
        liar.take()
    assert world.violation is not None
    return world.violation.split(" ")[0]


def test_the_states_that_are_lied_about_are_sound(world: Exhaustive) -> None:
    """Without a lie nothing falls in them."""
    for role, committed, length in ((LEADER, 0, 1), (LEADER, 1, 1), (FOLLOWER, 0, 1), (FOLLOWER, 1, 2)):
        SmallLiar(world, role, committed=committed, length=length).take()
        assert world.violation is None


def test_a_state_that_was_not_met_cannot_be_lied_about(world: Exhaustive) -> None:
    with pytest.raises(ValueError, match="no state has a node in role 4"):
        SmallLiar(world, LEADER, committed=9, length=9)


@pytest.mark.parametrize(
    ("invariant", "role", "committed", "length", "lie"),
    [
        ("I1", LEADER, 0, 1, SmallLiar.say_led_by_another),
        ("I2", FOLLOWER, 0, 1, SmallLiar.change_log),
        ("I3", LEADER, 0, 1, SmallLiar.commit_another),
        ("I4", FOLLOWER, 1, 2, SmallLiar.commit_another),
        ("I5", FOLLOWER, 0, 1, SmallLiar.lose_records),
        ("I6", FOLLOWER, 0, 1, SmallLiar.lose_term),
        ("I7", LEADER, 1, 1, SmallLiar.forget_disks),
        ("I9", LEADER, 1, 1, SmallLiar.step_back),
        ("I10", LEADER, 0, 1, SmallLiar.part_electorates),
    ],
)
def test_a_lie_is_seen(
    world: Exhaustive, invariant: str, role: int, committed: int, length: int, lie: Callable[[SmallLiar], None]
) -> None:
    """docs/invariants.md has the numbers."""
    assert told(SmallLiar(world, role, committed=committed, length=length), lie, world) == invariant


def test_two_open_changes_are_seen(world: Exhaustive) -> None:
    """I10: a leader with two entries that are not committed, as if both changed the membership."""
    liar = SmallLiar(world, LEADER, length=2, is_writing=True)
    assert told(liar, SmallLiar.call_all_memberships, world) == "I10"


def test_a_vote_that_is_not_on_the_disk_is_seen(world: Exhaustive) -> None:
    """I6: a follower is asked again and says once more that it has voted."""
    assert told(SmallLiar(world, FOLLOWER), SmallLiar.lose_vote, world) == "I6"


def test_a_vote_that_changes_within_its_term_is_seen(world: Exhaustive) -> None:
    """I6: the disk of a candidate holds a vote of this term for another node when its own is written."""
    assert told(SmallLiar(world, CANDIDATE, is_writing=True), SmallLiar.vote_for_another, world) == "I6"


def test_a_node_that_stops_itself_is_seen(world: Exhaustive) -> None:
    """The belief that proved wrong is told by its number."""
    told(SmallLiar(world, LEADER, length=1), SmallLiar.stop, world)
    assert world.violation == "a node stopped itself: b=10"
