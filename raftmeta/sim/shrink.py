"""From a failing world to a small one: fewer faults, fewer kinds of them, a shorter run, and the same invariant falls.

A world's tape says which faults struck, and when (World.tape). Every fault draws from a stream of its own, so taking
one off the tape leaves the draws of all others alone. This file decides what to try next, and when it is enough.
It never accepts a world in which another invariant falls, nor loses the best one when it is stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from raftmeta.sim.world.world_handle import POINTS, World

__all__ = ["Case", "Shrinker", "failing_case"]

RATES_OF_FRAMES = (
    "drop_ppm", "duplicate_ppm", "corrupt_ppm", "reorder_ppm", "delay_ppm", "slow_disk_ppm", "drift_ppm",
)  # fmt: skip
TRIES_MAX = 400


@dataclass(frozen=True, slots=True)
class Case:
    """A history that breaks an invariant: all that makes it again, and which invariant falls."""

    seed: int
    profile: dict[str, int]
    tape: tuple[tuple[int, str], ...]
    events: int  # under faults, before everything heals
    settle_events: int
    violation: str
    story: str = ""  # of a mended bug: what happened
    reaches: tuple[str, ...] = ()  # of a mended bug: marks and counts without which this history would show nothing

    @property
    def invariant(self) -> str:
        """The violation without where and when."""
        return self.violation.split(": node")[0]

    def world(self, *, story: bool = False) -> World:
        """The world of this history, before its first event."""
        world = World(self.seed, **self.profile)
        world.follow(self.tape)
        if story:
            world.keep_story()
        return world

    def lived(self, *, story: bool = False) -> World:
        """The same after its last event."""
        world = self.world(story=story)
        world.run(self.events)
        if world.violation is None:
            world.settle(self.settle_events)
        return world

    def save(self, path: Path) -> None:
        """Write the case as JSON, a line for each field."""
        lines = [f'  "{name}": {json.dumps(field)}' for name, field in asdict(self).items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    @staticmethod
    def load(path: Path) -> Case:
        """Read what save wrote."""
        fields = json.loads(path.read_text())
        fields["tape"] = tuple((int(strike), str(kind)) for strike, kind in fields["tape"])
        fields["reaches"] = tuple(fields.get("reaches", ()))
        return Case(**fields)


def failing_case(seed: int, profile: dict[str, int], events: int, settle_events: int) -> Case | None:
    """The case of a seed whose world breaks an invariant; None: it does not."""
    world = World(seed, **profile)
    world.run(events)
    if world.violation is None:
        world.settle(settle_events)
    if world.violation is None:
        return None
    return Case(seed, world.profile, tuple(world.tape), events, settle_events, world.violation)


class Shrinker:
    """Makes a case smaller, step by step.

    best: the smallest so far. was_interrupted: Ctrl-C ended the last run. tries_max: worlds that are lived at most.
    seconds_max: wall time after which no more are, None: no limit; one under way is lived to its end. on_better: is
    told each new best. clock: seconds that only grow.
    """

    def __init__(
        self,
        case: Case,
        *,
        tries_max: int = TRIES_MAX,
        seconds_max: float | None = None,
        on_better: Callable[[Case], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.best = case
        self.tries = 0
        self.was_interrupted = False
        self._tries_max = tries_max
        self._seconds_max = seconds_max
        self._on_better = on_better
        self._clock = clock
        self._began = clock()

    def run(self) -> Case:
        """The smallest case found until it can be no smaller, tries or time are used up, or Ctrl-C is pressed."""
        self._began = self._clock()
        self.was_interrupted = False
        try:
            self._make_small()
        except KeyboardInterrupt:
            self.was_interrupted = True
        return self.best

    @property
    def _is_over(self) -> bool:
        if self.tries >= self._tries_max:
            return True
        return self._seconds_max is not None and self._clock() - self._began >= self._seconds_max

    def _make_small(self) -> None:
        self._shorten()
        before = None
        while before != self.best and not self._is_over:
            before = self.best
            self._calm()
            self._thin_tape()
            self._shorten()

    def _try(self, case: Case) -> bool:
        """Does the same invariant fall? Then this case is the best."""
        if self._is_over:
            return False
        self.tries += 1
        violation = case.lived().violation
        if violation is None or violation.split(": node")[0] != self.best.invariant:
            return False
        self.best = replace(case, violation=violation)
        if self._on_better is not None:
            self._on_better(self.best)
        return True

    def _shorten(self) -> None:
        """The run ends with the event in which the invariant fell, and the tape with what struck until then."""
        if self._is_over:
            return
        world = self.best.lived()
        tape = tuple(world.tape)
        events = min(self.best.events, world.counts["events"])
        self._try(replace(self.best, tape=tape, events=events))
        while self.best.events > 500 and self._try(replace(self.best, events=self.best.events * 3 // 4)):
            pass

    def _calm(self) -> None:
        """All buggify points are left out, or each that can be; and so is each fault of frames, syncs and clocks."""
        fired = [point for point in POINTS if self.best.profile.get(point)]
        for rates in (fired, *([rate] for rate in (*fired, *RATES_OF_FRAMES))):
            if any(self.best.profile.get(rate) for rate in rates):
                self._try(replace(self.best, profile={**self.best.profile, **dict.fromkeys(rates, 0)}))

    def _thin_tape(self) -> None:
        """Parts of the tape are left out, large ones first (Zeller, "Yesterday, my program worked")."""
        part = max(len(self.best.tape) // 2, 1)
        while part >= 1 and self.best.tape and not self._is_over:
            at = 0
            while at < len(self.best.tape) and not self._is_over:
                rest: Sequence[tuple[int, str]] = self.best.tape[:at] + self.best.tape[at + part :]
                if not self._try(replace(self.best, tape=tuple(rest))):
                    at += part
            part //= 2
