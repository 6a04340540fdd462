"""How the demonstration looks: live on a terminal, or in plain lines with times."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.report import EXAMPLES_MAX, Report, Row

BARS = " ▁▂▃▄▅▆▇█"
RATES_KEPT = 60
EVENTS_SHOWN = 14


@dataclasses.dataclass(frozen=True)
class MemberView:
    """One row of the picture. state: "killed", "frozen", "starting", or "" where its role says it all."""

    name: str
    pid: int
    life: int
    state: str
    role: str
    is_controller: bool
    epoch: int
    term: int
    applied: int
    partitions: int


class Display(Protocol):
    """What the story tells its listeners."""

    def event(self, text: str, style: str = "") -> None: ...
    def picture(self, title: str, members: Sequence[MemberView], promised: int, rate: float) -> None: ...
    def verdict(self, report: Report) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PlainDisplay:
    """A line for each event, and the table at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._began = time.monotonic()

    def event(self, text: str, style: str = "") -> None:
        print(f"{time.monotonic() - self._began:6.2f} s  {text}", file=self._out, flush=True)

    def picture(self, title: str, members: Sequence[MemberView], promised: int, rate: float) -> None:
        """Lines do not move."""

    def verdict(self, report: Report) -> None:
        print(f"  {'':34} {'raftmeta':52} {'':6} {'PySyncObj' if report.peer else report.peer_failure}", file=self._out)
        for row in report.rows():
            print(f"  {row.what:34} {row.value:52} {mark_of(row):6} {row.peer}".rstrip(), file=self._out)
        for example in report.lost[:EXAMPLES_MAX]:
            print(f"  lost: {example}", file=self._out)
        print("nothing was lost" if report.is_right else "THE TABLE IS NOT RIGHT", file=self._out, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._out.flush()


class LiveDisplay:
    """A picture of the cluster that moves, with the last events below it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._began = time.monotonic()
        self._events: list[Text] = []
        self._rates: deque[float] = deque([0.0] * RATES_KEPT, maxlen=RATES_KEPT)
        self._top: tuple[Table, Text] | None = None

    def event(self, text: str, style: str = "") -> None:
        line = Text.assemble((f"{time.monotonic() - self._began:6.2f} s  ", "dim"), (text, style))
        self._events.append(line)
        self._redraw()

    def picture(self, title: str, members: Sequence[MemberView], promised: int, rate: float) -> None:
        self._rates.append(rate)
        self._top = self._members(title, members), self._traffic(promised, rate)
        self._redraw()

    def verdict(self, report: Report) -> None:
        self._live.stop()
        for line in self._events:
            self._console.print(line)
        table = Table(title="What was promised, and what is there", title_justify="left")
        for column in ("", "raftmeta", "", "PySyncObj" if report.peer else ""):
            table.add_column(column)
        for row in report.rows():
            table.add_row(
                row.what, row.value, Text(mark_of(row), "bold red" if row.right is False else "green"), row.peer
            )
        self._console.print(table)
        for example in report.lost[:EXAMPLES_MAX]:
            self._console.print(f"lost: {example}", style="red")

    def _redraw(self) -> None:
        self._live.update(Group(*(self._top or ()), *self._events[-EVENTS_SHOWN:]))

    def _members(self, title: str, members: Sequence[MemberView]) -> Table:
        table = Table(title=title, title_justify="left")
        for column in ("id", "pid", "life", "role", "controller", "term", "applied", "partitions"):
            table.add_column(column, justify="left" if column in ("id", "role") else "right", min_width=6)
        for member in members:
            table.add_row(
                member.name,
                str(member.pid),
                str(member.life),
                role_of(member),
                Text(f"epoch {member.epoch}", "bold yellow") if member.is_controller else "",
                f"{member.term:,}",
                f"{member.applied:,}",
                f"{member.partitions:,}",
            )
        return table

    def _traffic(self, promised: int, rate: float) -> Text:
        highest = max(max(self._rates), 1.0)
        bars = "".join(BARS[round(one / highest * (len(BARS) - 1))] for one in self._rates)
        return Text.assemble(
            ("promised ", "dim"), (f"{promised:,}", "bold"), (f"  {rate:>7,.0f}/s ", "dim"), (bars, "cyan"), "\n"
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()


def role_of(member: MemberView) -> Text:
    if member.state:
        return Text(member.state, "yellow" if member.state == "starting" else "bold red")
    return Text(member.role, "bold green" if member.role == "leader" else "")


def mark_of(row: Row) -> str:
    return "" if row.right is None else "ok" if row.right else "WRONG"
