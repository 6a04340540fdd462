"""When which nemesis strikes: cycles of harm and quiet.

In each cycle some nemeses strike, begin and end at different moments, so that faults overlap; then nothing is struck
for a while, in which the cluster must serve: at least half of what is asked outside of faults has to succeed
(jepsen/checker.py). Nemeses come out of a bag, so that all of them strike before any strikes again. How many strike in
one cycle follows from how many there are and how long the run lasts.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from random import Random

from jepsen.atlas import Aim, Atlas
from jepsen.nemesis import Nemesis
from jepsen.store import FaultLog

CYCLE_S = 7.0  # of harm, on average
QUIET_S = 4.0
AT_ONCE_MIN = 3  # if there are so many: what breaks is often what two faults do to each other
AGAIN_SHARE = 0.25  # of the cycles, kept for those that have to strike again
RETRY_S = 0.2  # between two looks whether a node may be struck

log = logging.getLogger(__name__)


class Schedule:
    """Strikes for time_s seconds, beginning with a quiet while. A context: on exit everything has been healed."""

    def __init__(
        self, nemeses: Sequence[Nemesis], atlas: Atlas, faults: FaultLog, random: Random, *, time_s: float
    ) -> None:
        self._nemeses = list(nemeses)
        self._atlas = atlas
        self._faults = faults
        self._random = random
        self._time_s = time_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schedule", daemon=True)
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._acting: list[str] = []

    def __enter__(self) -> Schedule:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def acting(self) -> list[str]:
        """What acts just now, for people."""
        with self._lock:
            return list(self._acting)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what a nemesis raised: a tool that does not work is no test."""
        if self._failures:
            raise self._failures[0]

    def _run(self) -> None:
        deadline_s = time.monotonic() + self._time_s
        bag: list[Nemesis] = []
        cycles = max(int(self._time_s / (CYCLE_S + QUIET_S) * (1 - AGAIN_SHARE)), 1)
        at_once = min(max(math.ceil(len(self._nemeses) / cycles), AT_ONCE_MIN), len(self._nemeses))
        while not self._stopping.wait(self._random.uniform(0.75, 1.25) * QUIET_S):
            left_s = deadline_s - time.monotonic() - QUIET_S
            if left_s <= 1 or not self._nemeses or self._failures:
                return
            if len(bag) < at_once:
                bag += [one for one in self._random.sample(self._nemeses, len(self._nemeses)) if one not in bag]
            chosen, bag = bag[:at_once], bag[at_once:]
            observed = [nemesis.observed for nemesis in chosen]
            self._cycle(chosen, min(left_s, CYCLE_S))
            # What another fault kept from acting, or what found no node that it may strike, is next.
            bag[:0] = [nemesis for nemesis, before in zip(chosen, observed, strict=True) if nemesis.observed == before]

    def _cycle(self, nemeses: Sequence[Nemesis], cycle_s: float) -> None:
        """Let them strike within cycle_s seconds; returns when all is healed."""
        threads = []
        for nemesis in nemeses:
            lasts_s = min(self._random.uniform(*nemesis.lasts_s), cycle_s)
            delay_s = self._random.uniform(0, cycle_s - lasts_s)
            threads.append(threading.Thread(target=self._guarded, args=(nemesis, delay_s, lasts_s), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, nemesis: Nemesis, delay_s: float, lasts_s: float) -> None:
        try:
            self._strike(nemesis, delay_s, lasts_s)
        except BaseException as error:
            log.exception("%s failed", nemesis.name)
            with self._lock:
                self._failures.append(error)

    def _strike(self, nemesis: Nemesis, delay_s: float, lasts_s: float) -> None:
        if self._stopping.wait(delay_s):
            return
        aim = self._atlas.aim(nemesis)
        patience_s = time.monotonic() + lasts_s
        while aim is None and time.monotonic() < patience_s and not self._stopping.wait(RETRY_S):
            aim = self._atlas.aim(nemesis)
        if aim is None:
            return  # not a good moment
        try:
            self._strike_these(nemesis, aim, lasts_s)
        finally:
            self._atlas.release(aim)

    def _strike_these(self, nemesis: Nemesis, aim: Aim, lasts_s: float) -> None:
        before = nemesis.observed
        what = f"{nemesis.name} {aim.word} {','.join(aim.nodes)}"
        fault = self._faults.begin(nemesis.name, aim)
        with self._lock:
            self._acting.append(what)
        try:
            fault.detail = nemesis.begin(aim.nodes)
            self._stopping.wait(lasts_s)
        finally:
            try:
                nemesis.end()
            finally:
                self._faults.end(fault, nemesis.observed - before)
                with self._lock:
                    self._acting.remove(what)
