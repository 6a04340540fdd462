"""Replicas compare their states while they run (docs/decisions/state-hash.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raftmeta
from raftmeta.errors import StateDiverged
from tests.faces.divergence import DivergenceHandle, make_state_wrong
from tests.node.nodes import leader_of, running
from tests.processes.waiting import wait_until

AGREE, DIFFER, WRONG = range(3)
OK, BAD_FIELD, ALREADY = 0, 69, 74


# --- who is wrong -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("voters", "said", "expected"),
    [
        (3, {}, AGREE),
        (3, {1: 7}, AGREE),
        (3, {1: 7, 2: 7, 3: 7}, AGREE),
        (3, {2: 8, 3: 8}, AGREE),  # this member is not there yet
        (3, {1: 7, 2: 7, 3: 8}, DIFFER),
        (3, {1: 7, 2: 8}, DIFFER),
        (3, {1: 7, 2: 8, 3: 9}, DIFFER),
        (3, {1: 7, 2: 8, 3: 8}, WRONG),
        (2, {1: 7, 2: 8}, DIFFER),
        (5, {1: 7, 2: 8, 3: 8}, DIFFER),
        (5, {1: 7, 2: 8, 3: 8, 4: 7, 5: 8}, WRONG),
        (1, {1: 7}, AGREE),
    ],
)
def test_only_a_majority_is_believed_against_the_own_state(voters: int, said: dict[int, int], expected: int) -> None:
    divergence = DivergenceHandle(1, list(range(1, voters + 1)))
    for member, state_hash in said.items():
        assert divergence.note(member, 20, state_hash) == OK
    assert divergence.judge(20) == expected


@given(
    voters=st.integers(3, 7),
    lies=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 9)), max_size=60),
    data=st.data(),
)
def test_lies_of_a_minority_stop_nobody(voters: int, lies: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """SECURITY.md A5: liars say any hash of any point, also of points to come, in any order; the honest say 7."""
    liars = list(range(voters, voters - (voters - 1) // 2, -1))
    divergence = DivergenceHandle(1, list(range(1, voters + 1)))
    for point in range(10, 60, 10):
        for _ in range(data.draw(st.integers(0, 4))):
            if lies:
                number, place, state_hash = lies.pop()
                divergence.note(liars[number % len(liars)], 10 * place, state_hash)
        for member in range(1, voters + 1):
            if member not in liars:
                assert divergence.note(member, point, 7) == OK
        assert divergence.judge(point) in (AGREE, DIFFER)


def test_learners_are_told_but_do_not_count() -> None:
    learner = DivergenceHandle(9, [1, 2, 3], [9])
    for member, state_hash in ((9, 7), (1, 8), (2, 8)):
        learner.note(member, 10, state_hash)
    assert learner.judge(10) == WRONG
    voter = DivergenceHandle(1, [1, 2, 3], [8, 9])
    for member, state_hash in ((1, 7), (8, 8), (9, 8), (2, 8)):
        voter.note(member, 10, state_hash)
    assert voter.judge(10) == DIFFER


def test_strangers_count_for_nothing() -> None:
    divergence = DivergenceHandle(1, [1, 2, 3])
    for member, state_hash in ((1, 7), (40, 8), (41, 8), (42, 8)):
        assert divergence.note(member, 10, state_hash) == OK
    assert divergence.judge(10) == AGREE


def test_only_marks_of_the_same_point_are_compared() -> None:
    divergence = DivergenceHandle(1, [1, 2, 3])
    divergence.note(1, 20, 7)
    for member in (2, 3):
        divergence.note(member, 10, 8)
        divergence.note(member, 30, 8)
    assert divergence.judge(20) == divergence.judge(10) == divergence.judge(30) == AGREE


def test_newer_marks_replace_older_ones_and_never_the_other_way() -> None:
    divergence = DivergenceHandle(1, [1, 2, 3])
    divergence.note(1, 10, 7)
    for member in (2, 3):
        divergence.note(member, 10, 8)
    assert divergence.judge(10) == WRONG
    for member in (2, 3):
        assert divergence.note(member, 90, 8) == OK
        assert divergence.note(member, 10, 8) == ALREADY
    assert divergence.judge(10) == AGREE


def test_marks_of_no_point_are_refused() -> None:
    divergence = DivergenceHandle(1, [1, 2, 3])
    assert divergence.note(2, 11, 7) == BAD_FIELD
    assert divergence.note(0, 10, 7) == BAD_FIELD


def test_members_that_come_and_go_do_not_fill_the_table() -> None:
    divergence = DivergenceHandle(1, [1, 2, 3])
    divergence.note(1, 1000, 7)
    for stranger in range(100, 200):
        assert divergence.note(stranger, 10, 8) == OK
    for member in (2, 3):
        assert divergence.note(member, 1000, 8) == OK
    assert divergence.judge(1000) == WRONG


# --- on nodes ---------------------------------------------------------------------------------------------------------
def pass_a_point(node: raftmeta.Node) -> None:
    """Write until the members have compared their states once more."""
    before = node.metrics()["states_compared"]
    for i in range(2 * 1024):
        node.put(f"key-{i % 100}", b"value")
        if node.metrics()["states_compared"] > before:
            return
    raise AssertionError("no point in 2,048 entries")


def compared(nodes: dict[str, raftmeta.Node]) -> bool:
    marks = {node.metrics()["states_compared"] for node in nodes.values()}
    return len(marks) == 1


def test_the_odd_one_out_of_three_stops_and_the_others_go_on(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        pass_a_point(leader)
        wait_until(lambda: compared(nodes), timeout_s=30, what="all to compare")
        assert all(node.metrics()["state_differences"] == 0 for node in nodes.values())
        wrong = nodes[min(set(nodes) - {leader.name})]
        make_state_wrong(wrong)
        pass_a_point(leader)
        wait_until(lambda: wrong.status().state == "stopped", timeout_s=30, what="the wrong one to stop")
        with pytest.raises(StateDiverged, match="remove it"):
            wrong.put("key", b"value")
        leader.put("key", b"still here")
        told = [event.facts["is_wrong"] for event in wrong.events(timeout_s=0) if event.name == "state_diverged"]
        assert told in ([1], [0, 1])  # the mark of the second member may come later
        assert wrong.metrics()["state_differences"] == 1


def test_a_leader_that_is_wrong_stops_too(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        make_state_wrong(leader)
        other = nodes[min(set(nodes) - {leader.name})]
        pass_a_point(other)
        wait_until(lambda: leader.status().state == "stopped", timeout_s=30, what="the leader to stop")
        other.put("key", b"a new leader took it", timeout_s=10)
