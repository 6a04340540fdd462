"""Tapes: what struck, struck again; made small; and drawn."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftmeta.sim import Case, Shrinker, World, failing_case, swarm_profile
from raftmeta.sim.diagram import html_page, text_diagram
from raftmeta.sim.world.world_handle import KINDS

STORMY = {
    "nodes": 5, "crash_ppm": 300_000, "partition_ppm": 300_000, "transfer_ppm": 300_000, "pause_ppm": 200_000,
    "drop_ppm": 20_000, "fault_gap_us": 50_000, "election_timeout_ticks": 10, "client_gap_us": 20_000,
}  # fmt: skip


def impatient_case(seed: int = 5) -> Case:
    """A history that must converge in one event, and does not: I22."""
    case = failing_case(seed, STORMY, 8_000, 1)
    assert case is not None and case.invariant == "I22 no progress after healing"
    return case


# --- the tape ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [1, 2, 11])
def test_a_tape_is_all_that_struck(seed: int) -> None:
    """The world that follows its own tape has the same history, to the byte."""
    world = World(seed, **swarm_profile(seed))
    world.run(20_000)
    again = World(seed, **swarm_profile(seed))
    again.follow(world.tape)
    again.run(20_000)
    assert again.trace_hash == world.trace_hash
    assert again.tape == world.tape


def test_a_fault_less_changes_no_other() -> None:
    """Each fault draws from a stream of its own: without one, the others strike as before."""
    world = World(3, **STORMY)
    world.run(20_000)
    rest = [decision for decision in world.tape if decision != next(one for one in world.tape if one[1] == "crash")]
    again = World(3, **STORMY)
    again.follow(rest)
    again.run(20_000)
    assert again.tape[: len(rest) // 2] == rest[: len(rest) // 2]
    assert again.trace_hash != world.trace_hash


def test_a_kind_that_is_none_is_refused() -> None:
    """The message shows the word."""
    with pytest.raises(ValueError, match="earthquake"):
        World(1).follow([(0, "earthquake")])


def test_a_tape_comes_before_the_first_event() -> None:
    """Half a history cannot be another one."""
    world = World(1)
    world.run(1)
    with pytest.raises(ValueError, match="from the first event on"):
        world.follow([])


@settings(max_examples=25, deadline=None)
@given(tape=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(KINDS)), max_size=60, unique=True))
def test_no_tape_breaks_an_invariant(tape: list[tuple[int, str]]) -> None:
    """Hypothesis writes the tape; what it finds, it makes small by itself."""
    world = World(9, **STORMY)
    world.follow(tape)
    world.run(6_000)
    world.settle()
    assert world.violation is None


# --- small ------------------------------------------------------------------------------------------------------------
def test_what_has_no_part_in_it_is_left_out() -> None:
    """No fault is needed to miss convergence in one event; the smallest history has none, and is short."""
    case = impatient_case()
    small = Shrinker(case).run()
    assert (small.tape, small.profile["drop_ppm"]) == ((), 0)
    assert small.events < case.events // 4
    assert small.invariant == case.invariant
    assert small.lived().violation == small.violation


def test_no_world_is_begun_when_the_time_is_over() -> None:
    """By a clock that goes on by a second at each look; what was found until then is kept."""
    case = impatient_case()
    seconds = count()
    hasty = Shrinker(case, seconds_max=12, clock=lambda: float(next(seconds)))
    small = hasty.run()
    patient = Shrinker(case)
    patient.run()
    assert 0 < hasty.tries < 12 < patient.tries
    assert small.events < case.events and small.lived().violation == small.violation


def test_without_any_time_a_case_stays_as_it_is() -> None:
    """Not one world is lived."""
    case = impatient_case()
    shrinker = Shrinker(case, seconds_max=0.0)
    assert (shrinker.run(), shrinker.tries) == (case, 0)


def test_ctrl_c_keeps_the_best_so_far() -> None:
    """The signal comes while it works; the third of the better cases is the last one."""
    better: list[Case] = []

    def note(one: Case) -> None:
        better.append(one)
        if len(better) == 3:
            signal.raise_signal(signal.SIGINT)

    shrinker = Shrinker(impatient_case(), on_better=note)
    assert shrinker.run() == better[2] == shrinker.best
    assert shrinker.was_interrupted and len(better) == 3


def test_a_case_is_kept_in_a_file(tmp_path: Path) -> None:
    """What was written is read again, and falls again."""
    case = impatient_case()
    case.save(tmp_path / "case.json")
    assert Case.load(tmp_path / "case.json") == case


def test_a_world_that_holds_is_no_case() -> None:
    """Nothing to make small."""
    assert failing_case(1, {"nodes": 3}, 2_000, 100_000) is None


# --- drawn ------------------------------------------------------------------------------------------------------------
def test_a_story_changes_nothing() -> None:
    """Kept or not, the history is the same; and it tells of messages, leaders, commits, crashes and faults."""
    world = World(4, **STORMY)
    world.keep_story()
    quiet = World(4, **STORMY)
    world.run(10_000)
    quiet.run(10_000)
    assert world.trace_hash == quiet.trace_hash
    assert {note["what"] for note in world.story()} == {"frame", "fault", "down", "up", "role", "commit"}
    assert quiet.story() == []


def test_a_diagram_shows_who_said_what_to_whom() -> None:
    """As text, and as a page that loads nothing."""
    world = World(4, **STORMY)
    world.keep_story()
    world.run(3_000)
    text = text_diagram(world.story(), 5, 4_000)
    assert "n0" in text and "n4" in text
    assert "VOTE t1" in text and "leader t1" in text and "committed" in text and ">" in text
    page = html_page("seed 4 <a story>", world.story(), 5)
    assert "&lt;a story&gt;" in page and "APPEND" in page and "</svg>" in page
    assert "http" not in page and "src=" not in page
