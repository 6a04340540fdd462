"""What an acceptance is given, and what it leaves: checks with names, times and causes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.doors.servers import KINDS, Servers


@dataclass(slots=True)
class Check:
    """One thing that was looked at. failure: empty if it holds."""

    name: str
    seconds: float
    failure: str = ""


@dataclass(slots=True)
class Trial:
    """One acceptance on servers of one kind. minutes: how long those with faults last. notes: what it told beside.

    reports: the folder that keeps the outcomes of conformance suites.
    """

    name: str
    kind: str
    folder: Path
    minutes: float = 10.0
    reports: Path | None = None
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def servers(self, **options: Any) -> Servers:
        """A context of three servers."""
        return KINDS[self.kind](self.folder / "servers", **options)

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """A part of the acceptance: its failure is told, and ends the acceptance."""
        begun_s = time.monotonic()
        try:
            yield
        except Exception as error:
            self.add(name, time.monotonic() - begun_s, f"{type(error).__name__}: {error}")
            raise
        self.add(name, time.monotonic() - begun_s)

    def add(self, name: str, seconds: float, failure: str = "") -> None:
        self.checks.append(Check(name, seconds, failure))
        verdict = f"failed: {failure}" if failure else "ok"
        print(f"{self.kind:9} {self.name:12} {name:32} {seconds:7.1f} s  {verdict}", flush=True)

    def tell(self, text: str) -> None:
        self.notes.append(text)
        print(text, file=sys.stderr, flush=True)

    def result(self) -> dict[str, Any]:
        """All that is worth keeping, for JSON."""
        return {
            "name": self.name,
            "on": self.kind,
            "verdict": self.verdict(),
            "checks": [[check.name, round(check.seconds, 1), check.failure or "ok"] for check in self.checks],
            "notes": self.notes,
        }

    def verdict(self) -> str:
        failed = [check.name for check in self.checks if check.failure]
        held = f"{len(self.checks) - len(failed)} of {len(self.checks)} checks hold"
        return held + (f"; not: {', '.join(failed)}" if failed else "")

    @property
    def holds(self) -> bool:
        return bool(self.checks) and not any(check.failure for check in self.checks)
