"""raftmeta check: is a recorded history linearizable?"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from raftmeta.check import Limits, check, read_history, to_html, to_json, to_text
from raftmeta.check.files import FORMATS
from raftmeta.check.models import MODELS, Program, model_named
from raftmeta.cli.session import Session, pass_session

EXIT_CODES = {"ok": 0, "violation": 1, "unknown": 2}


@click.command("check")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--model",
    default="kv",
    show_default=True,
    metavar="NAME|MODULE:CLASS",
    help=f"What the keys are: {', '.join(sorted(MODELS))}, or a class of your own, also of a module in this folder.",
)
@click.option("--initial", metavar="JSON", help="What every key holds before the first operation. Default: nothing.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0.001), default=300.0, show_default=True, help="Seconds, for everything."
)
@click.option(
    "--memory-limit", type=click.IntRange(min=1), default=1024, show_default=True, help="MiB, for each search."
)
@click.option("--keyed", is_flag=True, help="EDN: each value is a pair of key and value (Jepsen's independent).")
@click.option("--allow-empty", is_flag=True, help="A history without events is ok. Without this it is unknown.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with the timeline.")
@pass_session
def check_command(
    session: Session,
    path: Path,
    model: str,
    initial: str | None,
    time_limit: float,
    memory_limit: int,
    keyed: bool,
    allow_empty: bool,
    page: Path | None,
) -> None:
    """Check whether the history in PATH (.jsonl, .edn or .parquet) is linearizable.

    Exit codes: 0 it is, 1 it is not, 2 unknown: a limit was reached, events make no sense, or there are no events.
    """
    limits = Limits(time_s=time_limit, memory_bytes=memory_limit << 20)
    try:
        begins_with = None if initial is None else _json(initial)
        with _modules_here():
            made = model_named(model)
        history = read_history(path, is_keyed=keyed)
        checked = check(
            history,
            model=model if isinstance(made, Program) else made,
            initial=begins_with,
            limits=limits,
            allow_empty=allow_empty,
        )
    except (ValueError, ImportError, MemoryError) as error:
        known = ", ".join(FORMATS)
        hint = f" (formats: {known})" if path.suffix not in FORMATS else ""
        click.echo(f"raftmeta check: {path}: {error or 'not enough memory'}{hint}", err=True)
        sys.exit(EXIT_CODES["unknown"])
    if page is not None:
        page.write_text(to_html(checked, title=path.name, faults=history.faults), encoding="utf-8")
    session.show(to_json(checked), to_text(checked))
    sys.exit(EXIT_CODES[checked.verdict])


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"initial: {text!r} is no JSON; a text needs quotes of its own, as in '\"free\"'") from None


@contextlib.contextmanager
def _modules_here() -> Iterator[None]:
    """Modules of the working directory can be imported, as in `python -m`."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


COMMANDS = (check_command,)
