"""raftmeta tck: the conformance suite of back ends, and its matrix."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

import raftmeta
from raftmeta.cli.session import NO, WRONG_USE, Session, fail, fates, pass_session
from raftmeta.conformance import Outcome, Report, Servers, html_of, matrix_of, run, text_of
from raftmeta.conformance.report import MARKS

_WRITERS: dict[str, Callable[[Sequence[Report]], str]] = {
    ".json": lambda reports: reports[0].to_json() + "\n",
    ".html": html_of,
    ".md": text_of,
}


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--aio", "is_aio", is_flag=True, help="Check the asyncio face of the back end.")
@click.option("--backend", "plugin", default="", metavar="MODULE:OBJECT", help="The back end, if none is installed.")
@click.option("--party-url", metavar="URL", help="For processes that are killed and frozen; several use it at once.")
@click.option("--stop", default="", metavar="CMD", help="A shell command that kills all servers, and returns then.")
@click.option("--start", default="", metavar="CMD", help="A shell command that starts them again in the same places.")
@click.option("--kill", default="", metavar="CMD", help="A shell command that kills one server; the others go on.")
@click.option("--freeze", default="", metavar="CMD", help="A shell command that stops one server by a signal.")
@click.option("--heal", default="", metavar="CMD", help="A shell command that undoes --kill and --freeze.")
@click.option("--area", "areas", multiple=True, help="Only the checks of this area; may be given several times.")
@click.option("--report", "paths", multiple=True, metavar="FILE", help="Write a report, as .json, .html or .md.")
@pass_session
def tck(
    session: Session,
    urls: tuple[str, ...],
    is_aio: bool,
    plugin: str,
    party_url: str | None,
    stop: str,
    start: str,
    kill: str,
    freeze: str,
    heal: str,
    areas: tuple[str, ...],
    paths: tuple[str, ...],
) -> None:
    """Run the conformance suite on the back end behind the URLs, and print what it promises and keeps.

    Give two URLs or more of one cluster: many contracts are between two parties. A URL that many processes may open at
    once (raft://, zookeeper://) counts as two. Exit code 1: a check failed. A check that is marked "?" did not run, and
    says what it needs.
    """
    if bool(stop) != bool(start):
        raise click.UsageError("--stop and --start belong together")
    if bool(kill or freeze) != bool(heal):
        raise click.UsageError("--kill and --freeze need --heal")
    writers = [_writer_of(path) for path in paths]

    def tell(outcome: Outcome) -> None:
        if not session.is_json:
            why = f"  ({outcome.why})" if outcome.why else ""
            click.echo(f"{MARKS[outcome.state]:>6}  {outcome.check.name}{why}")

    with fates():
        for url in urls:
            if plugin:
                raftmeta.backends.register(url.partition("://")[0], plugin)
        shared = [url for url in (*urls, *([party_url] if party_url else [])) if _takes_owners(url)]
        party = party_url or (shared[0] if shared else None)
        capabilities, found = run(
            [*urls, *urls] if len(urls) == 1 and urls[0] in shared else list(urls),
            party_url=party,
            has_owners=party in shared,
            servers=Servers(start=start, stop=stop, kill=kill, freeze=freeze, heal=heal),
            is_aio=is_aio,
            plugin=plugin,
            areas=areas,
            on_outcome=tell,
        )
        report = Report.of(urls[0].partition("://")[0], capabilities, found, is_aio=is_aio)
        for path, write in zip(paths, writers, strict=True):
            Path(path).write_text(write([report]))
    counts = report.counts()
    if session.is_json:
        click.echo(report.to_json())
    else:
        session.show_table(matrix_of([report]))
        click.echo(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    if counts["failed"]:
        sys.exit(NO)


@click.command("tck-matrix")
@click.argument("files", nargs=-1, required=True, metavar="FILE.json...")
@click.option("--report", "paths", multiple=True, metavar="FILE", help="Write the matrix, as .html or .md.")
@pass_session
def tck_matrix(session: Session, files: tuple[str, ...], paths: tuple[str, ...]) -> None:
    """Show reports of raftmeta tck side by side: a column for each back end."""
    with fates():
        reports = [Report.read(path) for path in files]
        for path in paths:
            if Path(path).suffix == ".json":
                raise click.UsageError(f"{path}: a matrix is written as .html or .md")
            Path(path).write_text(_writer_of(path)(reports))
    session.show_table(matrix_of(reports))


def _takes_owners(url: str) -> bool:
    """Whether any number of processes may open this URL, each as an owner of its own."""
    return bool(getattr(raftmeta.backends.plugin_of(url.partition("://")[0]), "takes_owners", False))


def _writer_of(path: str) -> Callable[[Sequence[Report]], str]:
    writer = _WRITERS.get(Path(path).suffix)
    if writer is None:
        fail(f"--report: {path!r} must end with {', '.join(_WRITERS)}", WRONG_USE)
    return writer


COMMANDS = (tck, tck_matrix)
