"""When nemeses strike: all of them, again when they were not seen to act, and healed whatever happens."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from jepsen import schedule
from jepsen.nemesis import Harm
from jepsen.schedule import Schedule
from jepsen.store import FaultLog
from tests.processes.waiting import wait_until


class Recorded:
    """A nemesis that counts; acts_from: with which strike it begins to be observed."""

    harm = Harm.NONE
    lasts_s = (0.0, 0.01)

    def __init__(self, name: str, *, acts_from: int = 1, raises: bool = False) -> None:
        self.name = name
        self.begun = self.ended = self.observed = 0
        self._acts_from = acts_from
        self._raises = raises

    def begin(self, nodes: tuple[str, ...]) -> str:
        assert self.begun == self.ended, "struck twice without an end"
        self.begun += 1
        if self._raises:
            raise RuntimeError("the tool is broken")
        return "struck"

    def end(self) -> None:
        self.ended += 1
        self.observed += self.begun >= self._acts_from


class Everybody:
    """An atlas that allows everything from the given question on."""

    def __init__(self, *, allows_from: int = 0) -> None:
        self.asked = 0
        self._allows_from = allows_from
        self.released = 0

    def aim(self, nemesis: Any) -> Any:
        self.asked += 1
        return SimpleNamespace(word="all", nodes=("n1",)) if self.asked > self._allows_from else None

    def release(self, aim: Any) -> None:
        self.released += 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of hundredths of a second."""
    monkeypatch.setattr(schedule, "CYCLE_S", 0.02)
    monkeypatch.setattr(schedule, "QUIET_S", 0.01)
    monkeypatch.setattr(schedule, "RETRY_S", 0.001)


def struck(
    *nemeses: Recorded, atlas: Everybody | None = None, time_s: float = 1.6, must_act: bool = True
) -> tuple[Schedule, FaultLog]:
    faults = FaultLog()
    allowing: Any = atlas or Everybody()
    made = Schedule(nemeses, allowing, faults, Random(1), time_s=time_s, must_act=must_act)  # type: ignore[arg-type]
    with made:
        wait_until(lambda: made.is_over, timeout_s=20, what="the end of the schedule")
    return made, faults


def test_all_strike_and_each_strike_is_told() -> None:
    """Whoever struck has healed, and the log has a line for each strike with its time and what was observed."""
    nemeses = [Recorded(f"n{number}") for number in range(5)]
    made, faults = struck(*nemeses)
    assert not made.failures and all(one.begun and one.begun == one.ended for one in nemeses)
    assert len(faults.faults) == sum(one.begun for one in nemeses)
    assert all(0 < fault.begin_ns <= fault.end_ns and fault.observed == 1 for fault in faults.faults)


def test_what_did_not_act_strikes_again() -> None:
    """The first strike of one is not observed: it is next, before the others come a second time."""
    late, other = Recorded("late", acts_from=2), Recorded("other")
    struck(late, other)
    assert late.observed and late.begun >= 2


def test_what_may_not_strike_yet_comes_later() -> None:
    """The atlas says no at first."""
    nemesis, atlas = Recorded("patient"), Everybody(allows_from=3)
    struck(nemesis, atlas=atlas)
    assert nemesis.begun and atlas.released == nemesis.begun


def test_a_run_goes_on_until_all_were_seen_to_act() -> None:
    """Its time is over at once, and there are more of them than strike in one cycle; the last acts with its second."""
    nemeses = [Recorded(f"n{number}") for number in range(schedule.AT_ONCE_MAX + 3)]
    nemeses.append(Recorded("late", acts_from=2))
    made, _ = struck(*nemeses, time_s=0.0)
    assert made.unseen == [] and all(one.observed for one in nemeses)


def test_a_run_does_not_wait_forever_for_one_that_never_acts() -> None:
    """The verdict names it; a run that owes nothing ends with its time."""
    never = Recorded("never", acts_from=1000)
    made, _ = struck(never, time_s=0.0)
    assert (made.unseen, never.begun) == (["never"], schedule.MORE_CYCLES)
    none = Recorded("none")
    struck(none, time_s=0.0, must_act=False)
    assert none.begun == 0


def test_a_tool_that_is_broken_ends_the_schedule_healed() -> None:
    """end() is called, the nodes are given back, and the run hears of it."""
    nemesis, atlas = Recorded("broken", raises=True), Everybody()
    made, faults = struck(nemesis, atlas=atlas)
    assert (nemesis.begun, nemesis.ended, atlas.released, len(faults.faults)) == (1, 1, 1, 1)
    assert made.failures == ["broken: RuntimeError: the tool is broken"]
