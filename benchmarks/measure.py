"""What a measurement is: samples of one load, rows of a table, and the order in which competitors take turns.

It decides how several samples become one figure (the median, with the least and the greatest beside it) and whether a
target is reached. It never measures anything itself, and never leaves a sample out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one load: `count` operations in `seconds`, and how long single ones took, in milliseconds."""

    count: int
    seconds: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From what a process of a load generator printed or returned."""
        return cls(**{name: told[name] for name in cls.__slots__ if name in told})

    @classmethod
    def of_latencies(cls, seconds: float, latencies_s: Sequence[float], *, count: int | None = None) -> Self:
        """latencies_s: of all operations, or of some of `count`."""
        ordered = sorted(latencies_s)
        return cls(
            len(ordered) if count is None else count,
            seconds,
            *(1000 * percentile(ordered, share) for share in (0.5, 0.99, 0.999)),
        )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share lies; 0 without values."""
    return ordered[round(share * (len(ordered) - 1))] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What issue "Speed" asks of a row, in words, and whether this run reached it."""

    text: str
    is_reached: bool


def at_least(name: str, value: float, least: float, unit: str = "") -> Target:
    return Target(f"{name} >= {least:,g}{unit}", value >= least)


def at_most(name: str, value: float, most: float, unit: str = "") -> Target:
    return Target(f"{name} <= {most:,g}{unit}", value <= most)


@dataclass(slots=True)
class Row:
    """One line of a table. value: the median of `values`. parameters: what plots sort by. details: other figures."""

    name: str
    unit: str
    values: Sequence[float]
    parameters: dict[str, Any] = field(default_factory=dict)
    details: dict[str, float] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    def to_json(self) -> dict[str, Any]:
        found = {
            "name": self.name,
            "value": rounded(self.value),
            "least": rounded(min(self.values)),
            "greatest": rounded(max(self.values)),
            "unit": self.unit,
            "rounds": len(self.values),
            "parameters": self.parameters,
            "details": {name: rounded(value) for name, value in self.details.items()},
            "targets": [{"text": target.text, "reached": target.is_reached} for target in self.targets],
            "note": self.note,
        }
        return {name: value for name, value in found.items() if name == "unit" or value not in ({}, [], "")}


def rounded(value: float) -> float:
    """To four significant digits: no measurement here has more."""
    return float(f"{value:.4g}")


def row_of(name: str, samples: Sequence[Sample], **more: Any) -> Row:
    """A row of operations a second, with the median percentiles of the samples."""
    details = {
        percent: statistics.median(getattr(sample, percent) for sample in samples)
        for percent in ("p50_ms", "p99_ms", "p999_ms")
        if any(getattr(sample, percent) for sample in samples)
    }
    return Row(name, "/s", [sample.per_second for sample in samples], details=details, **more)


def interleaved(
    cases: Mapping[str, Callable[[], Sample]], *, rounds: int, advance: Callable[[str], None]
) -> dict[str, list[Sample]]:
    """Samples by case: A B C, A B C, ... so that what the machine does meanwhile meets all alike.

    advance: told the name of each case before it runs.
    """
    found: dict[str, list[Sample]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, measure in cases.items():
            advance(name)
            found[name].append(measure())
    return found


def ratios(ours: Iterable[Sample], theirs: Iterable[Sample]) -> list[float]:
    """Round by round: the two samples of a round were taken one after the other."""
    return [a.per_second / b.per_second for a, b in zip(ours, theirs, strict=True)]


def compare_with(row: Row, other: str, ours: Iterable[Sample], theirs: Iterable[Sample]) -> float:
    """Note in the row how many times faster it is than `other`: the median, and its spread over the rounds."""
    found = ratios(ours, theirs)
    median = statistics.median(found)
    row.details |= {f"x {other}": median, f"x {other}, least": min(found), f"x {other}, greatest": max(found)}
    return median
