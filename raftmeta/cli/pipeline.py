"""raftmeta pipeline: the commands that run on Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from raftmeta.check import Limits
from raftmeta.check.models import MODELS
from raftmeta.cli.pipeline_churn import COMMANDS as CHURN
from raftmeta.cli.pipeline_lake import COMMANDS as LAKE
from raftmeta.cli.pipeline_parts import NO, NOT_DONE, OK, answered, master_option, shown
from raftmeta.cli.session import Session, pass_session
from raftmeta.sim import Budget
from raftmeta.spark import Verified
from raftmeta.spark import sweep as sweep_seeds
from raftmeta.spark import verify as verify_runs

EXIT_CODES = {"ok": OK, "violation": NO, "unknown": NOT_DONE}


@click.group()
def pipeline() -> None:
    """Pipelines on Spark; they need the extra `spark` and Java 17."""


@pipeline.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for tables and report.")
@master_option
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
@click.option("--allow-empty", is_flag=True, help="A history without events is ok. Without this it is unknown.")
@pass_session
def verify(
    session: Session,
    runs: tuple[Path, ...],
    out: Path,
    master: str,
    model: str,
    time_limit: float,
    memory_limit: int,
    allow_empty: bool,
) -> None:
    """Check the RUNS, folders of fault runs or .parquet histories, and write tables and report.html into --out.

    Exit codes: 0 everything is right, 1 something is contradicted, 2 unknown: a limit was reached, events make no
    sense, a history has no events, or the command could not read the runs.
    """
    limits = Limits(time_s=time_limit, memory_bytes=memory_limit << 20)
    with answered("verify"), shown() as tell:
        verified = verify_runs(
            runs, out, master=master, model=model, limits=limits, allow_empty=allow_empty, on_progress=tell
        )
    _show(session, verified)
    sys.exit(EXIT_CODES[verified.verdict])


def _show(session: Session, verified: Verified) -> None:
    if session.is_json:
        histories = list(verified.histories)
        session.show({"verdict": verified.verdict, "histories": histories, "rows": verified.counts})
        return
    shown = ("run", "history", "verdict", "events", "ok", "fail", "info", "components", "quarantined")
    anomalies, quarantined = verified.counts["anomalies"], verified.counts["quarantine"]
    click.echo(f"{verified.verdict}: {anomalies} anomalies, {quarantined} in quarantine; {verified.out}/report.html")
    session.show_table([{name: row[name] for name in shown} for row in verified.histories])


# --- sweeps of the simulator ------------------------------------------------------------------------------------------
class Seeds(click.ParamType[tuple[int, int], str]):
    """A:B, from A up to but not B."""

    name = "A:B"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, _, end = str(value).partition(":")
        try:
            return int(first, 0), int(end, 0)
        except ValueError:
            self.fail(f"{value!r} is no A:B, as in 0:10000", param, context)


@pipeline.command()
@click.option("--seeds", required=True, type=Seeds(), help="From A up to but not B.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the sweep; it may have some.")
@master_option
@click.option("--profile", default="swarm", show_default=True, help="As of raftmeta sim.")
@click.option("--events", type=click.IntRange(min=1), default=Budget().events, show_default=True, help="Of one world.")
@click.option(
    "--settle", type=click.IntRange(min=1), default=Budget().settle_events, show_default=True, help="To converge in."
)
@click.option("--block", type=click.IntRange(min=1), default=50, show_default=True, help="Seeds of one task.")
@pass_session
def sweep(
    session: Session,
    seeds: tuple[int, int],
    out: Path,
    master: str,
    profile: str,
    events: int,
    settle: int,
    block: int,
) -> None:
    """Run simulated clusters, a block of seeds in each task, and write a table of failures and one of coverage.

    Seeds that the folder has do not run again. Exit codes: 0 every invariant held in the whole folder, 1 one fell, 2
    the sweep could not run.
    """
    budget = Budget(events, settle)
    with answered("sweep"), shown() as tell:
        swept = sweep_seeds(
            *seeds, out, profile=profile, budget=budget, block_seeds=block, master=master, on_progress=tell
        )
    failures = [{name: row[name] for name in ("seed", "verdict", "failure", "replay")} for row in swept.failures]
    if session.is_json:
        facts = {"seeds": swept.seeds, "lived": swept.lived, "failures": failures}
        session.show({**facts, "marks_reached": swept.reached, "marks_missing": swept.missing})
    else:
        click.echo(
            f"{len(failures):,} failures in {swept.seeds:,} seeds, {swept.lived:,} of them lived now; "
            f"{swept.reached} rare states reached, {len(swept.missing)} not; {swept.out}"
        )
        for row in failures:
            click.echo(f"{row['failure']}\n    {row['replay']}")
    sys.exit(NO if failures else OK)


for command in (*LAKE, *CHURN):
    pipeline.add_command(command)

COMMANDS = (pipeline,)
