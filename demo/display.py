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

from demo.report import EXAMPLES_MAX, Report

BARS = " ▁▂▃▄▅▆▇█"
RATES_KEPT = 60
EVENTS_SHOWN = 14


@dataclasses.dataclass(frozen=True)
class NodeView:
    """One row of the picture."""

    name: str
    pid: int
    life: int
    is_alive: bool
    is_ready: bool
    role: str
    term: int
    applied: int
    watched: int


class Display(Protocol):
    """What the story tells its listeners."""

    def event(self, text: str, *, style: str = "") -> None: ...
    def picture(self, nodes: Sequence[NodeView], promised: int, rate: float) -> None: ...
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

    def event(self, text: str, *, style: str = "") -> None:
        print(f"{time.monotonic() - self._began:6.2f} s  {text}", file=self._out, flush=True)

    def picture(self, nodes: Sequence[NodeView], promised: int, rate: float) -> None:
        """Lines do not move."""

    def verdict(self, report: Report) -> None:
        for what, value, right in report.checks():
            print(f"  {what:34} {value:36} {'ok' if right else 'WRONG'}", file=self._out)
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

    def event(self, text: str, *, style: str = "") -> None:
        line = Text.assemble((f"{time.monotonic() - self._began:6.2f} s  ", "dim"), (text, style))
        self._events.append(line)
        self._redraw()

    def picture(self, nodes: Sequence[NodeView], promised: int, rate: float) -> None:
        self._rates.append(rate)
        self._top = self._nodes(nodes), self._traffic(promised, rate)
        self._redraw()

    def verdict(self, report: Report) -> None:
        self._live.stop()
        for line in self._events:
            self._console.print(line)
        table = Table(title="What was promised, and what is there", title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        table.add_column()
        for what, value, right in report.checks():
            table.add_row(what, value, Text("ok", "green") if right else Text("WRONG", "bold red"))
        self._console.print(table)
        for example in report.lost[:EXAMPLES_MAX]:
            self._console.print(f"lost: {example}", style="red")

    def _redraw(self) -> None:
        self._live.update(Group(*(self._top or ()), *self._events[-EVENTS_SHOWN:]))

    def _nodes(self, nodes: Sequence[NodeView]) -> Table:
        table = Table(title="raftmeta: who is killed, who leads, who has caught up", title_justify="left")
        for column in ("node", "pid", "life", "role", "term", "applied", "watched"):
            table.add_column(column, justify="left" if column in ("node", "role") else "right", min_width=6)
        for node in nodes:
            table.add_row(
                node.name,
                str(node.pid),
                str(node.life),
                role_of(node),
                f"{node.term:,}",
                f"{node.applied:,}",
                f"{node.watched:,}",
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


def role_of(node: NodeView) -> Text:
    if not node.is_alive:
        return Text("killed", "bold red")
    if not node.is_ready:
        return Text("starting", "yellow")
    return Text(node.role, "bold green" if node.role == "leader" else "")
