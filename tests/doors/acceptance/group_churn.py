"""A hundred members of one group come and go while nodes fail (jepsen/churn.py): consumers of Kafka through the doors.

Three checks: the run, and two runs with a planted mistake, which must both be red. Members without their fences must be
found by the recorder, and members that ask for new plans for no reason by the count of generations.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from rich.console import Console

from jepsen.churn import Churned, churn
from jepsen.plan import Plan
from jepsen.workloads import CHURNS
from tests.doors.acceptance.trial import Trial
from tests.doors.software import kafka_python_clients

MEMBERS, FEW = 100, 10
SHOWN = 5
# By the mistake: strikes that show it, and a word of the reason.
LIES = {"unfenced": (("freeze-members",), "old fence accepted"), "restless": (("hold-gil",), "generation")}


def run(trial: Trial, *, only: str = "") -> None:
    """only: names of jepsen.workloads.CHURNS, as `churn|kafka-churn`."""
    for kind in only.split("|") if only else ["kafka-churn"]:
        with trial.check(f"{kind}: {trial.minutes:g} minutes with {MEMBERS} members"):
            found = _churned(trial, kind, MEMBERS, 60 * trial.minutes)
            _tell(trial, kind, found)
            assert not found.reasons, "; ".join(found.reasons[:SHOWN])
        for lie, (strikes, word) in LIES.items():
            with trial.check(f"{kind}: {lie} members are found"):
                found = _churned(trial, f"{kind}-{lie}", FEW, 1, strikes)
                assert any(word in reason for reason in found.reasons), f"not found: {found.reasons[:SHOWN]}"


def _churned(trial: Trial, kind: str, members: int, time_s: float, strikes: Collection[str] = ()) -> Churned:
    plan = Plan.check(
        nodes=3, workload="register", nemesis="none", time_s=time_s, rate=10, seed=1, store=trial.folder / kind
    )
    _, found = churn(
        plan,
        Console(file=sys.stderr, highlight=False),
        members=members,
        kind=CHURNS[kind],
        strikes=strikes,
        environment={"PYTHONPATH": str(kafka_python_clients())},
    )
    return found


def _tell(trial: Trial, kind: str, found: Churned) -> None:
    trial.tell(
        f"{kind}: {found.strikes} strikes, {found.generations} generations, {found.spurious} of them for no reason, "
        f"phases missed {found.missed} times, left out: {', '.join(found.left_out) or 'nothing'}"
    )
    for name, times_s in found.times_s.items():
        middle_s = sorted(times_s)[len(times_s) // 2]
        trial.tell(f"{name}: {len(times_s)} strikes, {middle_s:.1f} s in the middle, {max(times_s):.1f} s at most")
