"""raftmeta sim: whole clusters under faults, many seeds in several processes, or one seed once more.

The command prints a violation with the line that replays it, and exits with 1. It does the same for small worlds, whose
every history it takes (sim_exhaustive), and for a user's own class (sim_user).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from raftmeta.cli.session import INTERRUPTED, NO, WRONG_USE, Session, fail, pass_session
from raftmeta.cli.sim_exhaustive import exhaust
from raftmeta.cli.sim_user import try_class
from raftmeta.sim import Budget, Case, Life, Shrinker, Totals, campaign, failing_case, live, profile_of
from raftmeta.sim.diagram import html_page, text_diagram
from raftmeta.sim.report import report_of, totals_of

USUAL = Budget()
SHRINK_MINUTES = 5.0
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, writable=True, path_type=Path)


class Number(click.ParamType[int, str]):
    """A whole number in Python's notation: 255 or 0xff."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return int(str(value), 0)
        except ValueError:
            self.fail(f"{value!r} is no number", param, context)


@click.command()
@click.argument("target", required=False)
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True, help="How many worlds.")
@click.option("--first", type=Number(), default=0, show_default=True, help="The first of their seeds.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option("--minutes", type=click.FloatRange(min=0.0), help="Begin no world later than that.")
@click.option("--events", type=click.IntRange(min=1), default=USUAL.events, show_default=True, help="Of one world.")
@click.option(
    "--settle",
    type=click.IntRange(min=1),
    default=USUAL.settle_events,
    show_default=True,
    help="Events to converge in.",
)
@click.option("--seed", type=Number(), help="Only this one, as a violation names it.")
@click.option("--tape", type=FILE, help="Only this one, as it was written when its invariant fell.")
@click.option(
    "--profile",
    default="swarm",
    show_default=True,
    help="swarm: the seed chooses, half of all seeds are dense and half sparse (docs/faults.md); dense; sparse; or"
    " name=number,... over the defaults.",
)
@click.option("--tapes", type=FOLDER, default=".", show_default=True, help="Where tapes and diagrams are written.")
@click.option(
    "--merge", "merged", type=FILE, multiple=True, help="Run nothing: add up reports of --json, file by file."
)
@click.option("--shrink", "shrinks", is_flag=True, help="Make what fails small, and draw it.")
@click.option(
    "--shrink-minutes",
    type=click.FloatRange(min=0.0),
    default=SHRINK_MINUTES,
    show_default=True,
    help="For one that fails; then, or at Ctrl-C, the smallest so far is kept.",
)
@click.option(
    "--exhaustive",
    "is_exhaustive",
    is_flag=True,
    help="Every history of a small world of cores: --profile has its bounds, --events the states to take at most.",
)
@click.option("--json", "is_json", is_flag=True, help="The result as JSON; no progress.")
@pass_session
def sim(
    session: Session,
    target: str | None,
    seeds: int,
    first: int,
    jobs: int,
    minutes: float | None,
    events: int,
    settle: int,
    seed: int | None,
    tape: Path | None,
    profile: str,
    tapes: Path,
    merged: tuple[Path, ...],
    shrinks: bool,
    shrink_minutes: float,
    is_exhaustive: bool,
    is_json: bool,
) -> None:
    """Run simulated clusters under faults and check every invariant after every event.

    Each seed is one history, to the byte: its size, its faults, its clients. Exit code 1: an invariant fell. The
    command then prints the line that replays it, and writes its tape, the list of the faults that struck, beside.
    Ctrl-C ends it with the report up to that moment, and exit code 130.

    TARGET: module:Class, a replicated class of yours. Then each seed is a history of its commands, on three nodes that
    crash, lag and load dumps; --events is the number of commands.
    """
    session = Session(session.url, session.cluster, session.timeout_s, is_json or session.is_json)
    usual = click.get_current_context().get_parameter_source("events") is ParameterSource.DEFAULT
    if is_exhaustive:
        exhaust(session, "" if profile == "swarm" else profile, None if usual else events)
        return
    if target is not None:
        chosen = range(first, first + seeds) if seed is None else (seed,)
        try_class(session, target, chosen, None if usual else events, minutes)
        return
    started = time.monotonic()
    was_interrupted = False
    shrink_s = 60 * shrink_minutes if shrinks else None
    totals = Totals()
    budget = Budget(events, settle)
    try:
        if merged:
            for path in merged:
                totals.merge(totals_of(json.loads(path.read_text())))
            _end(session, totals)
            return
        if tape is not None:
            sys.exit(_replay(Case.load(tape), tapes, shrink_s))
        if seed is not None:
            seeds, lives = 1, iter([live(seed, profile, budget)])
        else:
            lives = campaign(range(first, first + seeds), jobs=jobs, minutes=minutes, profile=profile, budget=budget)
        for one in lives if session.is_json else _shown(lives, seeds, totals):
            totals.add(one)
            if one.violation is not None:
                click.echo(f"{one.violation}\n    {one.replay} --events {events} --settle {settle}", err=True)
                _keep(one, budget, tapes, shrink_s)
    except ValueError as error:
        fail(str(error), WRONG_USE)
    except KeyboardInterrupt:
        was_interrupted = True
    totals.real_s = time.monotonic() - started
    _end(session, totals)
    if was_interrupted:
        sys.exit(INTERRUPTED)


def _end(session: Session, totals: Totals) -> None:
    _report(session, totals)
    if totals.violations:
        sys.exit(NO)


# --- what fails -------------------------------------------------------------------------------------------------------
def _keep(life: Life, budget: Budget, tapes: Path, shrink_s: float | None) -> None:
    """Write the tape of a world that fell; a world that took its process down has none."""
    if not life.counts:
        return
    case = failing_case(life.seed, profile_of(life.seed, life.profile), budget.events, budget.settle_events)
    if case is not None:
        _write(case, tapes, shrink_s)


def _write(case: Case, tapes: Path, shrink_s: float | None) -> None:
    """Write the tape before anything is tried with it. shrink_s: then make it small for so long; None: do not.

    Raises KeyboardInterrupt after all was written, when Ctrl-C stopped the shrinking.
    """
    path = tapes / f"raftmeta-sim-{case.seed:x}.json"
    case.save(path)
    was_interrupted = False
    if shrink_s is not None:
        shrinker = Shrinker(case, seconds_max=shrink_s, on_better=lambda better: better.save(path))
        case = shrinker.run()
        was_interrupted = shrinker.was_interrupted
        case.save(path)
        world = case.lived(story=True)
        title = f"seed {case.seed:#x}: {case.violation}"
        page = tapes / f"raftmeta-sim-{case.seed:x}.html"
        page.write_text(html_page(title, world.story(), case.profile["nodes"]))
        click.echo(text_diagram(world.story(), case.profile["nodes"], 60), err=True)
        click.echo(f"    {len(case.tape)} faults in {case.events} events; {page}", err=True)
    click.echo(f"    raftmeta sim --tape {path}", err=True)
    if was_interrupted:
        raise KeyboardInterrupt


def _replay(case: Case, tapes: Path, shrink_s: float | None) -> int:
    """The exit code: 1 when the invariant falls again."""
    violation = case.lived().violation
    click.echo(violation or f"it holds now; it was {case.violation}")
    if violation is not None and shrink_s is not None:
        _write(case, tapes, shrink_s)
    return NO if violation is not None else 0


# --- what is printed --------------------------------------------------------------------------------------------------
def _shown(lives: Iterator[Life], seeds: int, totals: Totals) -> Iterator[Life]:
    """The lives as they come, with a bar on a terminal."""
    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("worlds", total=seeds, text="")
        for one in lives:
            yield one
            rate = totals.counts["events"] / max(time.monotonic() - started, 0.001)
            text = f"{totals.seeds:,} seeds, {rate:,.0f} events/s, {totals.simulated_s / 3600:,.2f} h simulated, "
            text += f"{len(totals.marks)} marks"
            progress.update(task, advance=1, text=text)


def _report(session: Session, totals: Totals) -> None:
    report = report_of(totals)
    if session.is_json:
        session.show(report)
        return
    figures = {name: figure for name, figure in report.items() if isinstance(figure, int) or name == "simulated_h"}
    figures |= {"marks_missing": len(totals.marks_missing), "violations": len(totals.violations)}
    session.show_table([{"figure": name, "value": f"{value:,}"} for name, value in figures.items()])


COMMANDS = (sim,)
