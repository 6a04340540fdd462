"""When which nemesis strikes: cycles of harm and quiet.

In each cycle some nemeses strike, begin and end at different moments, so that faults overlap; then nothing is struck
for a while, in which the cluster must serve: at least half of what is asked outside of faults has to succeed
(jepsen/checker.py). Nemeses come out of a bag, so that all of them strike before any strikes again. How many strike in
one cycle follows from how many were not seen to act yet, from the time that is left and from how long cycles last here.
A run whose time is over although some were not seen to act goes on with those, for some cycles more: a run without them
would have tested less than was asked for.
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
MORE_CYCLES = 6  # at most, when the time is over
AT_ONCE_MAX = 10  # more would keep each other from acting
RETRY_S = 0.2  # between two looks whether a node may be struck

log = logging.getLogger(__name__)


class Schedule:
    """Strikes for time_s seconds, beginning with a quiet while. A context: on exit everything has been healed.

    must_act: goes on until every nemesis was seen to act, for at most MORE_CYCLES.
    """

    def __init__(
        self,
        nemeses: Sequence[Nemesis],
        atlas: Atlas,
        faults: FaultLog,
        random: Random,
        *,
        time_s: float,
        must_act: bool = True,
    ) -> None:
        self._nemeses = list(nemeses)
        self._atlas = atlas
        self._faults = faults
        self._random = random
        self._time_s = time_s
        self._must_act = must_act
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schedule", daemon=True)
        self._lock = threading.Lock()
        self._failures: list[str] = []
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

    @property
    def failures(self) -> list[str]:
        """What nemeses raised: a tool that does not work is no test. The first one ends the schedule."""
        with self._lock:
            return list(self._failures)

    @property
    def unseen(self) -> list[str]:
        """Those that were not seen to act so far."""
        return [nemesis.name for nemesis in self._nemeses if not nemesis.observed]

    def _run(self) -> None:
        begun_s = time.monotonic()
        bag: list[Nemesis] = []
        cycles = more = 0
        while not self._stopping.wait(self._random.uniform(0.75, 1.25) * QUIET_S):
            left_s = begun_s + self._time_s - time.monotonic() - QUIET_S
            if self.failures or not self._nemeses:
                return
            if left_s <= 1:
                if not self._must_act or not self.unseen or more == MORE_CYCLES:
                    return
                left_s, more = CYCLE_S, more + 1
            one_s = (time.monotonic() - begun_s) / cycles if cycles else CYCLE_S + QUIET_S
            # When the time is over nobody else strikes: that might be what keeps these from acting.
            at_once = min(len(self.unseen), AT_ONCE_MAX) if more else self._at_once(left_s, one_s)
            if len(bag) < at_once:
                bag += [one for one in self._random.sample(self._nemeses, len(self._nemeses)) if one not in bag]
            bag.sort(key=lambda nemesis: nemesis.observed > 0)
            chosen, bag = bag[:at_once], bag[at_once:]
            observed = [nemesis.observed for nemesis in chosen]
            self._cycle(chosen, min(left_s, CYCLE_S))
            cycles += 1
            # What another fault kept from acting, or what found no node that it may strike, is next.
            bag[:0] = [nemesis for nemesis, before in zip(chosen, observed, strict=True) if nemesis.observed == before]

    def _at_once(self, left_s: float, one_s: float) -> int:
        """How many strike in the next cycle, so that all have struck in the seconds left. one_s: what a cycle takes."""
        cycles = max(int(left_s / one_s * (1 - AGAIN_SHARE)), 1)
        return min(max(math.ceil(len(self.unseen) / cycles), AT_ONCE_MIN), AT_ONCE_MAX, len(self._nemeses))

    def _cycle(self, nemeses: Sequence[Nemesis], cycle_s: float) -> None:
        """Let them strike within cycle_s seconds; returns when all is healed."""
        threads = []
        end_s = time.monotonic() + cycle_s
        for nemesis in nemeses:
            lasts_s = min(self._random.uniform(*nemesis.lasts_s), cycle_s)
            delay_s = self._random.uniform(0, cycle_s - lasts_s)
            strike = (nemesis, delay_s, lasts_s, end_s)
            threads.append(threading.Thread(target=self._guarded, args=strike, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, nemesis: Nemesis, delay_s: float, lasts_s: float, end_s: float) -> None:
        try:
            self._strike(nemesis, delay_s, lasts_s, end_s)
        except Exception as error:  # whatever it is, the run hears of it
            log.exception("%s failed", nemesis.name)
            with self._lock:
                self._failures.append(f"{nemesis.name}: {type(error).__name__}: {error}")

    def _strike(self, nemesis: Nemesis, delay_s: float, lasts_s: float, end_s: float) -> None:
        """As soon as the atlas allows it, after the delay; not any more when the cycle should have ended."""
        if self._stopping.wait(delay_s):
            return
        aim = self._atlas.aim(nemesis)
        while aim is None and time.monotonic() < end_s and not self._stopping.wait(RETRY_S):
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
