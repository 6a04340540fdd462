"""The shared parts of the verbs of `raftmeta pipeline`: options, progress, and one line for an error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from raftmeta.errors import RaftmetaError
from raftmeta.spark import Progress as Told

OK, NO, NOT_DONE = 0, 1, 2

master_option = click.option(
    "--master", default="local[*]", show_default=True, help="URL of a Spark cluster, or local[n]."
)

# Of a verb that starts Spark only for what is large, or where it is named.
lake_master_option = click.option(
    "--master", help="URL of a Spark cluster, or local[n]. Default: no Spark for a small lake, else local[*]."
)


@contextlib.contextmanager
def answered(verb: str) -> Iterator[None]:
    """Turn an error into one line and exit code 2."""
    try:
        yield
    except (RaftmetaError, RuntimeError, OSError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        click.echo(f"raftmeta pipeline {verb}: {text}", err=True)
        sys.exit(NOT_DONE)


@contextlib.contextmanager
def shown() -> Iterator[Told]:
    """A callback for the progress of a job: it shows the progress on a terminal, and nowhere else."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting Spark", total=None)

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total or None)

        yield tell
