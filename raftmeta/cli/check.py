"""raftmeta check: is a recorded history linearizable?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from raftmeta.check import Limits, check, read_history, to_html, to_json, to_text
from raftmeta.check.files import FORMATS
from raftmeta.check.models import MODELS
from raftmeta.cli.session import Session, pass_session

EXIT_CODES = {"ok": 0, "violation": 1, "unknown": 2}


@click.command("check")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--model", type=click.Choice(sorted(MODELS)), default="kv", show_default=True, help="What the keys are.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0.001), default=300.0, show_default=True, help="Seconds, for everything."
)
@click.option(
    "--memory-limit", type=click.IntRange(min=1), default=1024, show_default=True, help="MiB, for each search."
)
@click.option("--keyed", is_flag=True, help="EDN: each value is a pair of key and value (Jepsen's independent).")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with the timeline.")
@pass_session
def check_command(
    session: Session, path: Path, model: str, time_limit: float, memory_limit: int, keyed: bool, page: Path | None
) -> None:
    """Check whether the history in PATH (.jsonl, .edn or .parquet) is linearizable.

    Exit codes: 0 it is, 1 it is not, 2 unknown: a limit was reached, or events make no sense.
    """
    limits = Limits(time_s=time_limit, memory_bytes=memory_limit << 20)
    try:
        history = read_history(path, is_keyed=keyed)
        checked = check(history, model=model, limits=limits)
    except (ValueError, ImportError, MemoryError) as error:
        known = ", ".join(FORMATS)
        click.echo(f"raftmeta check: {path}: {error or 'not enough memory'} (formats: {known})", err=True)
        sys.exit(EXIT_CODES["unknown"])
    if page is not None:
        page.write_text(to_html(checked, title=path.name, faults=history.faults), encoding="utf-8")
    session.show(to_json(checked), to_text(checked))
    sys.exit(EXIT_CODES[checked.verdict])


COMMANDS = (check_command,)
