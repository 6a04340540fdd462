"""Hypothesis drives a world: what its rules draw is the tape, and every invariant is asked after every rule.

A failing example becomes small by Hypothesis, and its tape is a file then: `raftmeta sim --tape` lives it again, and
`--shrink` draws it. What the rules never do: anything that a profile and a tape cannot say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from raftmeta.sim import Case, World
from raftmeta.sim.world.world_handle import KINDS, POINTS
from tests.lint.sources import ROOT

SETTLE_EVENTS = 300_000
BRISK = {"fault_gap_us": 20_000, "down_us": 50_000, "client_gap_us": 10_000, "election_timeout_ticks": 10}
PROFILES = st.fixed_dictionaries(
    {
        "nodes": st.integers(1, 7),
        "snapshot_entries": st.sampled_from([300, 16]),
        "append_bytes_max": st.sampled_from([262_144, 64]),
        "drop_ppm": st.sampled_from([0, 20_000]),
        "delay_ppm": st.sampled_from([0, 50_000]),
    }
)


class DrivenWorld(RuleBasedStateMachine):
    """One world, from its profile on."""

    settle_events = SETTLE_EVENTS
    tape = ROOT / "build" / "tapes" / "driven.json"

    def __init__(self) -> None:
        super().__init__()
        self.seed = 0
        self.world = World(0)

    @initialize(
        seed=st.integers(0, 9),
        profile=PROFILES,
        points=st.sets(st.sampled_from(sorted(POINTS)), max_size=3),
    )
    def begin(self, seed: int, profile: dict[str, int], points: set[str]) -> None:
        self.seed = seed
        self.world = World(seed, **BRISK, **profile, **dict.fromkeys(sorted(points), 100_000))
        self.world.follow([])

    @rule(kind=st.sampled_from(KINDS))
    def strike(self, kind: str) -> None:
        """At the next fault event, with whatever else was asked for until then."""
        self.world.strike(kind)

    @rule(kinds=st.sets(st.sampled_from(["isolate", "partition", "crash", "calls", "pause"]), min_size=2))
    def strike_together(self, kinds: set[str]) -> None:
        for kind in sorted(kinds):
            self.world.strike(kind)

    @rule(events=st.integers(1, 1_500))
    def run(self, events: int) -> None:
        self.world.run(events)

    @invariant()
    def every_invariant_holds(self) -> None:
        self._judge()

    def teardown(self) -> None:
        events = self.world.counts["events"]
        if self.world.violation is None:
            self.world.settle(self.settle_events)
            self._judge(events)

    def _judge(self, events: int | None = None) -> None:
        """Keep the tape of what fell: the last one kept is that of the smallest example."""
        violation = self.world.violation
        if violation is None:
            return
        events = self.world.counts["events"] if events is None else events
        tape = tuple(self.world.tape)
        self.tape.parent.mkdir(parents=True, exist_ok=True)
        Case(self.seed, self.world.profile, tape, events, self.settle_events, violation).save(self.tape)
        raise AssertionError(f"{violation}: raftmeta sim --tape {self.tape}")


DrivenWorld.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestDrivenWorld = DrivenWorld.TestCase


def test_what_it_finds_is_small_and_a_tape(tmp_path: Path) -> None:
    """A world that must converge in one event does not (I22); the smallest one needs no fault, and its file replays."""

    class Impatient(DrivenWorld):
        settle_events = 1
        tape = tmp_path / "impatient.json"

    with pytest.raises(AssertionError, match="I22"):
        run_state_machine_as_test(
            Impatient,
            settings=settings(max_examples=5, stateful_step_count=5, deadline=None, database=None, print_blob=False),
        )
    case = Case.load(tmp_path / "impatient.json")
    assert (case.tape, case.seed) == ((), 0)
    assert case.lived().violation == case.violation


def test_a_world_that_is_struck_by_hand_keeps_a_tape_of_it() -> None:
    """Its tape makes the same history; a fault that is asked for twice strikes once."""
    world = World(2, nodes=3, **BRISK)
    world.follow([])
    for kind in ("crash", "calls", "partition", "calls", "heal"):
        world.strike(kind)
        world.run(100)
    world.run(2_000)
    again = World(2, nodes=3, **BRISK)
    again.follow([*world.tape, *world.tape])
    again.run(2_500)
    assert again.trace_hash == world.trace_hash
    assert {kind for _, kind in world.tape} == {"crash", "calls", "partition", "heal"}


def test_only_a_world_with_a_tape_is_struck_by_hand() -> None:
    """Else what is drawn and what is asked for would have to share an order."""
    with pytest.raises(ValueError, match="follows a tape"):
        World(1).strike("crash")
    world = World(1)
    world.follow([])
    with pytest.raises(ValueError, match="earthquake"):
        world.strike("earthquake")
