"""raftmeta sim module:Class: a user's replicated class on nodes that crash, lag and load dumps."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable

import click

from raftmeta.cli.session import NO, WRONG_USE, Session, fail
from raftmeta.sim import Replicas, UserLife, live_user


def try_class(session: Session, target: str, seeds: Iterable[int], commands: int | None, minutes: float | None) -> None:
    """Live one life for each seed, and report on the class; exit code 1: it is not right."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does: the class is found where the user stands
    until = None if minutes is None else time.monotonic() + 60 * minutes
    lives: list[UserLife] = []
    try:
        with Replicas() as replicas:
            for seed in seeds:
                if until is not None and time.monotonic() >= until:
                    break
                options = {} if commands is None else {"commands": commands}
                lives.append(live_user(target, seed, replicas=replicas, **options))
                if lives[-1].violation is not None:
                    break  # a class that is wrong is wrong with most seeds: the first says enough
    except ValueError as error:
        fail(str(error), WRONG_USE)
    _report(session, lives)
    if any(life.violation is not None for life in lives):
        sys.exit(NO)


def _report(session: Session, lives: list[UserLife]) -> None:
    totals: Counter[str] = Counter()
    failed: dict[str, str] = {}
    for life in lives:
        totals.update(life.counts)
        failed = {**life.failed, **failed}
    violations = [{"violation": life.violation, "replay": life.replay} for life in lives if life.violation is not None]
    if session.is_json:
        session.show({"seeds": len(lives), "counts": dict(totals), "failed": failed, "violations": violations})
        return
    figures = {"seeds": len(lives), **totals}
    session.show_table([{"figure": name, "value": f"{value:,}"} for name, value in figures.items()])
    for kind, example in failed.items():
        click.echo(f"a command raises {kind}, on every node alike: {example}")
    for found in violations:
        click.echo(f"{found['violation']}\n    {found['replay']}", err=True)
