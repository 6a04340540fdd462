"""raft/quorum against the dumbest possible counting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.faces.raft_parts import has_quorum, reached, votes

POSITIONS = st.sets(st.integers(0, 31), max_size=9)
VOTERS = st.sets(st.integers(0, 31), min_size=1, max_size=9)


def is_majority(voters: set[int], agreeing: set[int]) -> bool:
    """More than half of these voters agree; no voters agree with everything."""
    return not voters or len(voters & agreeing) * 2 > len(voters)


@given(VOTERS, POSITIONS, POSITIONS)
def test_joint_quorum_is_a_majority_of_each_set(incoming: set[int], outgoing: set[int], agreeing: set[int]) -> None:
    """Paper 6: "agreement requires separate majorities from both the old and new configurations"."""
    expected = is_majority(incoming, agreeing) and is_majority(outgoing, agreeing)
    assert has_quorum(incoming, outgoing, agreeing) is expected


def test_no_voters_decide_nothing() -> None:
    assert not has_quorum([], [], range(32))
    assert reached([], [], [9] * 32) == 0
    assert votes([], [], [0, 1], []) == "LOST"


@given(VOTERS, VOTERS, VOTERS)
def test_two_quorums_of_one_electorate_meet(incoming: set[int], one: set[int], other: set[int]) -> None:
    """What every rule of Raft rests on."""
    if has_quorum(incoming, [], one) and has_quorum(incoming, [], other):
        assert one & other & incoming


@given(VOTERS, POSITIONS, POSITIONS, POSITIONS)
def test_votes_are_won_lost_or_open(
    incoming: set[int], outgoing: set[int], granted: set[int], refused: set[int]
) -> None:
    """Lost means: even if all who have not answered granted, it would not be won."""
    refused -= granted
    result = votes(incoming, outgoing, granted, refused)
    everybody = set(range(32))
    if has_quorum(incoming, outgoing, granted):
        assert result == "WON"
    else:
        assert result == ("PENDING" if has_quorum(incoming, outgoing, everybody - refused) else "LOST")


@given(VOTERS, POSITIONS, st.lists(st.integers(0, 50), min_size=32, max_size=32))
def test_reached_is_the_greatest_number_a_quorum_holds(
    incoming: set[int], outgoing: set[int], numbers: list[int]
) -> None:
    """Paper 5.3: an index is committed when a majority holds it; the dumb way tries every index."""
    holders = {number: {i for i in range(32) if numbers[i] >= number} for number in range(51)}
    expected = max(number for number in holders if has_quorum(incoming, outgoing, holders[number]))
    assert reached(incoming, outgoing, numbers) == expected
