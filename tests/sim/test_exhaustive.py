"""Every history of small worlds of production cores: none breaks an invariant, and the spaces are closed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from raftmeta.cli.app import app
from raftmeta.sim import Exhaustive, small_world
from tests.faces.liar import node_facts

# Each closes; together they take some five seconds of one core.
CLOSED = {
    "one leader, an entry, a crash": "time_outs=1,proposals=1,crashes=1",
    "two leaders and a crash": "time_outs=2,proposals=0,crashes=1",
    "two leaders and an entry": "time_outs=2,proposals=1,crashes=0",
    "a member less, a crash": "target=vvl,changes=1,time_outs=1,proposals=0,crashes=1",
    "pre-votes that are answered": "time_outs=1,proposals=0,crashes=1,has_pre_votes=1",
    "heartbeats that arrive": "time_outs=1,proposals=0,crashes=0,heartbeats=1,has_heartbeats=1",
    "a change between disjoint majorities": "founding=vll,target=lvv,changes=1,time_outs=1,proposals=0,crashes=1",
    "tails of two lost leaders": "logs=1.2..,time_outs=1,proposals=0,crashes=1",
}


def closed(text: str) -> Exhaustive:
    """All of its states, taken."""
    world = small_world(text)
    while world.run(100_000):
        pass
    return world


@pytest.fixture(scope="module")
def worlds() -> dict[str, Exhaustive]:
    return {name: closed(text) for name, text in CLOSED.items()}


@pytest.mark.parametrize("name", CLOSED)
def test_no_history_of_a_small_world_breaks_an_invariant(worlds: dict[str, Exhaustive], name: str) -> None:
    """I1-I7, I9, I10 after every action of every order, and nothing is left to take."""
    world = worlds[name]
    assert world.violation is None, "\n".join(world.path())
    assert world.counts["taken"] == world.counts["found"]
    assert world.path() == []


def test_small_worlds_reach_what_they_are_for(worlds: dict[str, Exhaustive]) -> None:
    """A search that never elects, truncates or changes members would prove nothing."""
    two_leaders, change = worlds["two leaders and a crash"], worlds["a change between disjoint majorities"]
    assert two_leaders.counts["found"] > 50_000
    for mark in ("became_leader", "committed", "truncated", "vote_refused", "stepped_down"):
        assert two_leaders.marks[mark] > 0, mark
    assert change.marks["membership"] > 0
    assert worlds["pre-votes that are answered"].marks["became_pre_candidate"] > 0
    assert worlds["tails of two lost leaders"].marks["truncated"] > 0


# Small enough to be taken without any reduction, too.
REDUCED = [
    "time_outs=1,proposals=1,crashes=1",
    "logs=1.2..,time_outs=1,proposals=0,crashes=1",
    "founding=vll,target=lvv,changes=1,time_outs=1,proposals=0,crashes=1",
    "founding=vvl,target=vvv,changes=1,time_outs=1,proposals=0,crashes=0",
    "time_outs=1,proposals=0,crashes=1,has_pre_votes=1",
    "time_outs=1,proposals=0,crashes=0,heartbeats=1,has_heartbeats=1",
]


@pytest.mark.parametrize("text", REDUCED)
def test_the_reductions_leave_nothing_out(text: str) -> None:
    """Roles, terms, logs and disks of all states are those of a search without them, which takes many more."""
    reduced, plain = closed(text), closed(f"{text},is_plain=1")
    assert reduced.violation is None and plain.violation is None
    assert node_facts(reduced) == node_facts(plain)
    assert plain.counts["found"] > 5 * reduced.counts["found"]


def test_disks_that_are_fast_only_leave_out() -> None:
    """Without anything happening during a write there are fewer states, and none that is not there otherwise."""
    text = CLOSED["one leader, an entry, a crash"]
    fast, slow = closed(f"{text},has_slow_disks=0"), closed(text)
    assert fast.violation is None
    assert node_facts(fast) < node_facts(slow)


def test_the_same_bounds_are_the_same_search() -> None:
    """Numbers of states, steps and messages, and how far the last one is from the beginning."""
    text = CLOSED["one leader, an entry, a crash"]
    first, second = closed(text), small_world(text)
    while second.run(777):
        pass
    assert first.counts == second.counts
    assert first.counts["depth"] > 20


def test_a_larger_bound_contains_the_smaller_one() -> None:
    """One more proposal or crash only adds states."""
    found = [closed(f"time_outs=1,proposals={most},crashes={most}").counts["found"] for most in (0, 1)]
    assert found[0] < found[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_outs=9", "time_outs must be 0 to 6"),
        ("founding=lll", "must be 1 to 5 of v"),
        ("founding=vvv,target=vv", "target must say the role"),
        ("heartbeats=1", "only with has_heartbeats"),
        ("logs=21...", "terms 1 to 5 that do not fall"),
        ("logs=1..", "one log for each of the 3 nodes"),
        ("logs=5...,time_outs=4", "more than 8 terms"),
        ("seed=3", "'seed=3' is no bound of a small world"),
    ],
)
def test_bounds_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_world(text)


# --- raftmeta sim --exhaustive ----------------------------------------------------------------------------------------
def test_the_command_says_how_far_it_came() -> None:
    """Whether all states were taken; as a table for people, as JSON for programs."""
    usual = ["sim", "--exhaustive", "--profile", CLOSED["one leader, an entry, a crash"]]
    whole = CliRunner().invoke(app, [*usual, "--json"])
    assert whole.exit_code == 0, whole.output
    answer = json.loads(whole.output)
    assert answer["end"] == "all states taken" and answer["taken"] == answer["found"] and answer["path"] == []
    part = CliRunner().invoke(app, [*usual, "--events", "1000"])
    assert part.exit_code == 0, part.output
    assert "not all states taken" in part.output and "became_leader" in part.output


def test_the_command_refuses_bounds_that_cannot_be() -> None:
    """Exit code 2, and the reason in a line."""
    result = CliRunner().invoke(app, ["sim", "--exhaustive", "--profile", "crashes=99"])
    assert result.exit_code == 2
    assert "crashes must be 0 to 3" in result.output
