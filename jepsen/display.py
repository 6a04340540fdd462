"""What a person sees of a run: operations per second, errors by fate, how the brokers stand, what acts."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jepsen.db import Brokers
from jepsen.schedule import Schedule
from tests.processes.remote import RemoteProcess

ERRORS_SHOWN = 6


class Counts:
    """What all clients have counted, over all lives of their processes."""

    def __init__(self) -> None:
        self._lives: dict[tuple[str, int], dict[str, Any]] = {}
        self._shown: tuple[float, int] = (time.monotonic(), 0)
        self.rate = 0.0

    def look(self, processes: list[RemoteProcess]) -> None:
        """Read their newest reports."""
        for process in processes:
            if "counts" in process.report:
                self._lives[process.name, process.life] = process.report
        now_s, total = time.monotonic(), sum(self.total("counts").values())
        before_s, before = self._shown
        if now_s - before_s >= 1.0:
            self.rate, self._shown = (total - before) / (now_s - before_s), (now_s, total)

    def total(self, what: str) -> Counter[str]:
        """ "counts" by fate, or "errors" by fate and class."""
        found: Counter[str] = Counter()
        for report in self._lives.values():
            found.update(report[what])
        return found


class Display:
    """On a terminal a picture that is drawn anew; elsewhere a line every ten seconds."""

    LINE_S = 10.0

    def __init__(
        self, console: Console, cluster: Brokers, schedule: Schedule, counts: Counts, *, time_s: float
    ) -> None:
        self._console = console
        self._cluster = cluster
        self._schedule = schedule
        self._counts = counts
        self._time_s = time_s
        self._begun_s = self._line_s = time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self) -> None:
        """Show how things stand now."""
        if self._live is not None:
            self._live.update(Group(self._headline(), self._brokers(), self._errors()))
        elif time.monotonic() - self._line_s >= self.LINE_S:
            self._line_s = time.monotonic()
            self._console.print(self._headline(), soft_wrap=True)

    def _headline(self) -> Text:
        fates = self._counts.total("counts")
        acting = self._schedule.acting
        passed_s = time.monotonic() - self._begun_s
        waiting = self._schedule.unseen if passed_s > self._time_s else []
        return Text(
            f"{passed_s:5.0f} s of {self._time_s:.0f}  {self._counts.rate:6.0f} operations/s  "
            f"ok {fates['ok']}  fail {fates['fail']}  info {fates['info']}  "
            f"{'; '.join(acting) if acting else 'no fault acts'}"
            f"{'; not seen to act yet: ' + ' '.join(waiting) if waiting else ''}"
        )

    def _brokers(self) -> Table:
        table = Table("broker", "life", "stands", "role", "term", "applied", "revision")
        for name, node in self._cluster.nodes.items():
            if node.life:
                stands = "paused" if node.is_paused else "runs" if node.is_alive else "down"
                words = (str(node.report.get(word, "")) for word in ("role", "term", "applied", "revision"))
                table.add_row(name, str(node.life), stands, *words)
        return table

    def _errors(self) -> Text:
        common = self._counts.total("errors").most_common(ERRORS_SHOWN)
        return Text("  ".join(f"{name}: {count}" for name, count in common))
