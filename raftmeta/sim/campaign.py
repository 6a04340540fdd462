"""Many worlds, one after the other, in several processes.

A world is one seed and one profile. It lives for a number of events under faults, then everything heals and it must
converge. This file decides how long, in how many processes, and when to stop. It never looks inside a
world. Processes and not threads: a world that takes its process down with it is found by its seed, too.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from raftmeta.native import buggify, marks
from raftmeta.sim.world.world_handle import SWARMS, World, swarm_profile

__all__ = ["Budget", "Life", "Totals", "campaign", "live", "profile_of", "profile_text", "replay_line"]

EVENTS = 50_000  # of one world under faults
LOOK_S = 0.2  # how long Ctrl-C waits at most until a campaign sees it
SETTLE_EVENTS = 2_000_000  # at most, until a healed cluster must have converged (I22)
# The marks that a campaign shall reach: the rare states of production code, and each buggify point having fired.
MARKS = (*marks.NAMES, *(f"BUGGIFY_{name}" for name in buggify.names()))


@dataclass(frozen=True, slots=True)
class Budget:
    """How long one world lives: events under faults, and events at most until it has converged afterwards."""

    events: int = EVENTS
    settle_events: int = SETTLE_EVENTS


@dataclass(frozen=True, slots=True)
class Life:
    """How one world ended.

    violation: the first invariant that fell, in words; None: all held. marks: the rare states that it reached
    (raftmeta/native/marks.pxd) and the points that fired (raftmeta/native/buggify.pxd).
    """

    seed: int
    profile: str
    violation: str | None
    counts: dict[str, int]
    simulated_s: float
    trace_hash: int
    marks: frozenset[str] = frozenset()

    @property
    def replay(self) -> str:
        """The command line that lives this life again."""
        return replay_line(self.seed, self.profile)


@dataclass(slots=True)
class Totals:
    """The sum of many lives, of one run or of several."""

    seeds: int = 0
    lived: set[tuple[int, str]] = field(default_factory=set)  # (seed, profile): nothing counts twice
    real_s: float = 0.0
    simulated_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Life] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)

    def add(self, life: Life) -> None:
        self.seeds += 1
        self.lived.add((life.seed, life.profile))
        self.simulated_s += life.simulated_s
        self.counts.update(life.counts)
        self.marks |= life.marks
        if life.violation is not None:
            self.violations.append(life)

    def merge(self, other: Totals) -> None:
        """Add another run's sum. Raises ValueError when both have lived the same seed of the same profile."""
        twice = self.lived & other.lived
        if twice:
            seed, profile = min(twice)
            raise ValueError(f"both runs have lived seed {seed:#x} of profile {profile}: it would count twice")
        self.seeds += other.seeds
        self.lived |= other.lived
        self.real_s += other.real_s
        self.simulated_s += other.simulated_s
        self.counts.update(other.counts)
        self.violations += other.violations
        self.marks |= other.marks

    @property
    def marks_missing(self) -> list[str]:
        """Rare states that none of these worlds has reached, in the order of the headers."""
        return [name for name in MARKS if name not in self.marks]


# --- one world --------------------------------------------------------------------------------------------------------
def profile_of(seed: int, text: str) -> dict[str, int]:
    """The arguments of World that a profile's text stands for: `swarm`, `dense`, `sparse` (swarm_profile), or
    `name=number,...` over the defaults.

    Raises ValueError for a part that is no name=number.
    """
    if text in SWARMS:
        return swarm_profile(seed, text)
    profile = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if not name.isidentifier() or not number.isdecimal():
            raise ValueError(f"a profile is one of {', '.join(SWARMS)}, or name=number,...: {part!r} is neither")
        profile[name] = int(number)
    return profile


def profile_text(seed: int, profile: Mapping[str, int]) -> str:
    """The shortest text of which profile_of makes this profile again."""
    for kind in SWARMS:
        if profile == swarm_profile(seed, kind):
            return kind
    usual = World(seed).profile
    return ",".join(f"{name}={number}" for name, number in profile.items() if usual.get(name) != number) or "nodes=3"


def replay_line(seed: int, profile: str) -> str:
    """The command that makes this world again."""
    return f"raftmeta sim --seed {seed:#x} --profile {profile}"


def live(seed: int, profile: str = "swarm", budget: Budget = Budget()) -> Life:
    """One world from its birth to its end. Raises ValueError for a profile that World refuses."""
    world = World(seed, **profile_of(seed, profile))
    marks.clear()
    world.run(budget.events)
    world.settle(budget.settle_events)
    reached = frozenset(marks.reached()) | {name.upper() for name in world.buggified}
    return Life(seed, profile, world.violation, world.counts, world.simulated_s, world.trace_hash, reached)


# --- many worlds ------------------------------------------------------------------------------------------------------
@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until this is left, and raise KeyboardInterrupt then.

    A pool that is interrupted while it starts a process, or while it holds the locks of futures, waits for ever when it
    is shut down. Signals come to the main thread only, so other threads need nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)  # for the handler that was there before


def campaign(
    seeds: Iterable[int],
    *,
    jobs: int = 1,
    minutes: float | None = None,
    profile: str = "swarm",
    budget: Budget = Budget(),
) -> Iterator[Life]:
    """Live the worlds of all seeds, `jobs` at a time, and give each when it has ended.

    minutes: no world begins later than that. A world that takes its process down ends the campaign, with a violation
    for each seed that was under way then. KeyboardInterrupt ends it too: no other world begins.
    """
    until = None if minutes is None else time.monotonic() + 60 * minutes
    waiting = iter(seeds)
    running: dict[Future[Life], int] = {}
    # A terminal's Ctrl-C reaches every process of the group; it is this one's to say what it means.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), signal.signal, ignored)
    try:
        while True:
            while len(running) < 2 * jobs and (until is None or time.monotonic() < until):
                seed = next(waiting, None)
                if seed is None:
                    break
                with _uninterrupted():
                    running[pool.submit(live, seed, profile, budget)] = seed
            if not running:
                return
            with _uninterrupted():
                ended = deque(wait(running, timeout=LOOK_S, return_when=FIRST_COMPLETED).done)
            while ended:
                future = ended.popleft()
                seed = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    until = 0.0
                    yield Life(seed, profile, "the process of this world, or of one beside it, died", {}, 0.0, 0)
    finally:
        with _uninterrupted():
            pool.shutdown(wait=True, cancel_futures=True)
