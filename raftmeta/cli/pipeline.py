"""raftmeta pipeline: what runs on Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from raftmeta.check import Limits
from raftmeta.check.models import MODELS
from raftmeta.cli.session import Session, pass_session
from raftmeta.errors import ConfigError
from raftmeta.spark import Verified
from raftmeta.spark import verify as verify_runs

EXIT_CODES = {"ok": 0, "violation": 1, "unknown": 2}


@click.group()
def pipeline() -> None:
    """Pipelines on Spark; they need the extra `spark` and Java 17."""


@pipeline.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for tables and report.")
@click.option("--master", default="local[*]", show_default=True, help="URL of a Spark cluster, or local[n].")
@click.option(
    "--model",
    type=click.Choice(sorted(MODELS)),
    default="kv",
    show_default=True,
    help="Of histories that are named themselves; a run folder says it.",
)
@click.option(
    "--time-limit", type=click.FloatRange(min=0.001), default=300.0, show_default=True, help="Seconds, for each bucket."
)
@click.option(
    "--memory-limit", type=click.IntRange(min=1), default=1024, show_default=True, help="MiB, for each search."
)
@pass_session
def verify(
    session: Session, runs: tuple[Path, ...], out: Path, master: str, model: str, time_limit: float, memory_limit: int
) -> None:
    """Check the RUNS, folders of fault runs or .parquet histories, and write tables and report.html into --out.

    Exit codes: 0 everything is right, 1 something is contradicted, 2 unknown: a limit was reached, events make no
    sense, or the runs could not be read.
    """
    limits = Limits(time_s=time_limit, memory_bytes=memory_limit << 20)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    try:
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("starting Spark", total=None)

            def tell(what: str, done: int, total: int) -> None:
                progress.update(task, description=what, completed=done, total=total or None)

            verified = verify_runs(runs, out, master=master, model=model, limits=limits, on_progress=tell)
    except (ConfigError, RuntimeError, OSError) as error:
        click.echo(f"raftmeta pipeline verify: {error}", err=True)
        sys.exit(EXIT_CODES["unknown"])
    _show(session, verified)
    sys.exit(EXIT_CODES[verified.verdict])


def _show(session: Session, verified: Verified) -> None:
    if session.is_json:
        histories = list(verified.histories)
        session.show({"verdict": verified.verdict, "histories": histories, "rows": verified.counts})
        return
    shown = ("run", "history", "verdict", "events", "ok", "fail", "info", "components", "quarantined")
    session.show_table([{name: row[name] for name in shown} for row in verified.histories])
    anomalies, quarantined = verified.counts["anomalies"], verified.counts["quarantine"]
    click.echo(f"{verified.verdict}: {anomalies} anomalies, {quarantined} in quarantine; {verified.out}/report.html")


COMMANDS = (pipeline,)
