"""Reports of campaigns as JSON: written by one run, read again, so that the runs of many days and machines add up.

It decides nothing; a report is the sum of its lives (campaign.Totals) and which seeds they were.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from raftmeta.sim.campaign import Life, Totals

__all__ = ["report_of", "totals_of"]


def report_of(totals: Totals) -> dict[str, Any]:
    """The text that totals_of reads again, with figures for people first."""
    events = totals.counts["events"]
    real_s = max(totals.real_s, 0.001)
    return {
        "seeds": totals.seeds,
        "events": events,
        "events_per_s": round(events / real_s),
        "simulated_h": round(totals.simulated_s / 3600, 3),
        "times_real_time": round(totals.simulated_s / real_s),
        "marks_reached": len(totals.marks),
        "marks_missing": totals.marks_missing,
        "violations": [
            {"seed": one.seed, "profile": one.profile, "replay": one.replay, "violation": one.violation,
             "trace_hash": one.trace_hash}
            for one in totals.violations
        ],
        "marks": sorted(totals.marks),
        "counts": dict(totals.counts),
        "real_s": round(totals.real_s, 3),
        "simulated_s": totals.simulated_s,
        "lived": {profile: _ranges(seeds) for profile, seeds in sorted(_by_profile(totals).items())},
    }  # fmt: skip


def totals_of(report: Mapping[str, Any]) -> Totals:
    """The sum that a report was made of. Raises ValueError for what is no such report."""
    try:
        lived = {
            (seed, profile)
            for profile, ranges in report["lived"].items()
            for first, end in ranges
            for seed in range(first, end)
        }
        violations = [
            Life(one["seed"], one["profile"], one["violation"], {}, 0.0, one["trace_hash"])
            for one in report["violations"]
        ]
        return Totals(
            seeds=report["seeds"],
            lived=lived,
            real_s=report["real_s"],
            simulated_s=report["simulated_s"],
            counts=Counter(report["counts"]),
            violations=violations,
            marks=set(report["marks"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no report of raftmeta sim --json: {error!r}") from error


def _by_profile(totals: Totals) -> dict[str, list[int]]:
    seeds: dict[str, list[int]] = defaultdict(list)
    for seed, profile in sorted(totals.lived):
        seeds[profile].append(seed)
    return seeds


def _ranges(seeds: list[int]) -> list[list[int]]:
    """Half-open ranges of a list in order."""
    ranges: list[list[int]] = []
    for seed in seeds:
        if ranges and ranges[-1][1] == seed:
            ranges[-1][1] = seed + 1
        else:
            ranges.append([seed, seed + 1])
    return ranges
