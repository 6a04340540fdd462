"""The verdict of a run. It is ok only if all of this holds:

    every history is linearizable, and nothing of it is unknown; observations keep their rules
    at least half of what was asked outside of faults succeeded: a store that answers nothing is never wrong
    every nemesis that was asked for struck, and was seen to act
    no broker or client ended by itself, and in the end all members had the same state

This file decides what counts. What is linearizable, raftmeta/check says; what observations must obey,
jepsen/observed.py.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jepsen.observed import broken_rules
from jepsen.store import Fault
from raftmeta.check import History, check, to_text

OK_SHARE_MIN = 0.5
INVOKE, OK = 0, 1


@dataclass(slots=True)
class Verdict:
    """reasons: why it is not ok, in words; none: it is ok. histories: what was found of each.

    pipeline: what the pipeline on Spark found in the same files; "" where it was not asked.
    """

    reasons: list[str] = field(default_factory=list)
    histories: dict[str, dict[str, Any]] = field(default_factory=dict)
    ok_share: float = 0.0
    observed: dict[str, int] = field(default_factory=dict)
    pipeline: str = ""

    @property
    def is_ok(self) -> bool:
        return not self.reasons

    def write(self, path: Path) -> None:
        facts = {
            "verdict": "ok" if self.is_ok else "failed",
            "reasons": self.reasons,
            "histories": self.histories,
            "ok_share_outside_faults": round(self.ok_share, 4),
            "observed": self.observed,
            "pipeline": self.pipeline,
        }
        path.write_text(json.dumps(facts, indent=2) + "\n")


def judge(
    histories: dict[str, History],
    observed: Sequence[dict[str, Any]],
    models: dict[str, str],
    faults: Sequence[Fault],
    nemeses: Sequence[str],
    t0_ns: int,
    *,
    must_serve: bool = True,
) -> Verdict:
    """Everything that can be told from the files. must_serve: also that enough was answered, and that every
    nemesis was seen to act; without, that one of them was.
    """
    verdict = Verdict(reasons=broken_rules(observed, histories))
    for workload, model in models.items():
        checked = check(histories[workload], model=model)
        verdict.histories[workload] = {
            "model": checked.model,
            "verdict": checked.verdict,
            "operations": checked.operations,
            "components": checked.components,
            "engines": checked.engines,
        }
        if checked.verdict != "ok":
            verdict.reasons.append(f"{workload}: {checked.verdict}\n{to_text(checked)}")
    verdict.ok_share = _ok_share(histories.values(), faults, t0_ns)
    if must_serve and verdict.ok_share < OK_SHARE_MIN:
        verdict.reasons.append(f"only {verdict.ok_share:.0%} of the operations outside of faults succeeded")
    verdict.observed = {name: sum(one.observed for one in faults if one.nemesis == name) for name in nemeses}
    unseen = [name for name, count in verdict.observed.items() if not count]
    # What is ruined early leaves nothing for the others to strike.
    for name in unseen if must_serve or len(unseen) == len(nemeses) else ():
        struck = any(fault.nemesis == name for fault in faults)
        verdict.reasons.append(f"{name}: {'struck, and was not seen to act' if struck else 'never struck'}")
    return verdict


def _ok_share(histories: Any, faults: Sequence[Fault], t0_ns: int) -> float:
    """Of the operations that were invoked while no fault acted: how many succeeded. 0 if there were none."""
    windows = _merged([(fault.begin_ns - t0_ns, fault.end_ns - t0_ns) for fault in faults])
    begins = [begin for begin, _ in windows]
    asked = succeeded = 0
    for history in histories:
        outside: set[int] = set()
        for process, kind, time_ns in zip(history.process, history.kind, history.time_ns, strict=True):
            if kind == INVOKE:
                at = bisect_right(begins, time_ns) - 1
                if at < 0 or time_ns > windows[at][1]:
                    outside.add(process)
                    asked += 1
            elif process in outside:
                outside.remove(process)
                succeeded += kind == OK
    return succeeded / asked if asked else 0.0


def _merged(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time, as windows that do not touch."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(windows):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
