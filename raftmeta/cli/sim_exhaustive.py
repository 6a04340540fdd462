"""raftmeta sim --exhaustive: every history of a small world, until all are taken or one breaks an invariant."""

from __future__ import annotations

import sys
import time

import click

from raftmeta.cli.session import NO, WRONG_USE, Session, fail
from raftmeta.sim import Exhaustive, small_world

SLICE = 200_000  # states between two looks at the clock and at Ctrl-C
TOLD_S = 10.0  # between two lines of progress


def exhaust(session: Session, bounds: str, states_max: int | None) -> None:
    """Search the small world of these bounds and show how far the search came; exit code 1: an invariant fell."""
    try:
        world = small_world(bounds)
    except ValueError as error:
        fail(str(error), WRONG_USE)
    started = time.monotonic()
    told = started
    taken = 0
    is_closed = False
    while states_max is None or taken < states_max:
        done = world.run(SLICE if states_max is None else min(SLICE, states_max - taken))
        taken += done
        if done == 0:
            is_closed = world.violation is None
            break
        if time.monotonic() - told > TOLD_S:
            told = time.monotonic()
            counts = world.counts
            click.echo(f"{taken:,} of {counts['found']:,} states taken, {counts['depth']} actions deep", err=True)
    _report(session, world, is_closed, time.monotonic() - started)
    if world.violation is not None:
        sys.exit(NO)


def _report(session: Session, world: Exhaustive, is_closed: bool, real_s: float) -> None:
    counts = world.counts
    end = world.violation or ("all states taken" if is_closed else "not all states taken")
    figures = {**counts, "states_per_s": round(counts["taken"] / max(real_s, 0.001))}
    if session.is_json:
        session.show({"end": end, **figures, "marks": world.marks, "path": world.path()})
        return
    session.show_table([{"figure": name, "value": f"{value:,}"} for name, value in figures.items()])
    marks = ", ".join(f"{name} {number:,}" for name, number in world.marks.items() if number)
    click.echo(f"marks: {marks}\n{end}")
    for number, line in enumerate(world.path(), 1):
        click.echo(f"{number:4}  {line}")
