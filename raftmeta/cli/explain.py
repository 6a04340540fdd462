"""raftmeta explain: why the leader changed, a write was slow, a lease was lost."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from raftmeta import explain as explaining
from raftmeta.cli.session import Session, fates, pass_session
from raftmeta.explain.pages import as_html, as_text, as_value, gaps, moment

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
NEAR_S = 1.0
MEASURED = {"gil", "pause", "disk", "clock", "end"}  # causes rather than effects: told with --all


@click.command()
@click.argument("sources", metavar="[URL|FOLDER]...", nargs=-1, required=True)
@click.option(
    "--since", metavar="TIME", help="Only what ended after that: 90s, 10m, 2h, 1d ago, or an ISO time in UTC."
)
@click.option(
    "--at",
    metavar="TIME",
    help="What happened at that moment, say when an operation was slow, with the records around.",
)
@click.option("--leader-change", "number", type=click.IntRange(min=1), help="Only that one, with the records around.")
@click.option(
    "--all", "is_all", is_flag=True, help="Also pauses, slow disks, held GILs, clocks and ends by themselves."
)
@click.option("--records", is_flag=True, help="With the records around each incident.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write one page to that file.")
@pass_session
def explain(
    session: Session,
    sources: tuple[str, ...],
    since: str | None,
    at: str | None,
    number: int | None,
    is_all: bool,
    records: bool,
    page: Path | None,
) -> None:
    """Name the cause of each leader change, lost lease and slow write, by the flight recorders of all nodes.

    A URL (raft://host:port,host:port) asks each node that runs there; its user needs the right "admin" once rights are
    on. Of nodes that are dead give their folders, or copies of their files flight.ring. Nothing is changed. Each cause
    is certain, likely or unknown, and records that are missing are named.
    """
    since_s = _moment(since, "--since") if since else 0.0
    at_s = _moment(at, "--at") if at else None
    urls = [source for source in sources if "://" in source]
    folders = [Path(source) for source in sources if "://" not in source]
    missing = [folder for folder in folders if not folder.exists()]
    if missing:
        raise click.BadParameter(f"{str(missing[0])!r} does not exist", param_hint="FOLDER")
    with fates():
        asked = asyncio.run(_ask(session, urls)) if urls else None
        explained = explaining.explain(folders, asked=asked, since_s=since_s)
    shown = [one for one in explained.incidents if is_all or one.kind not in MEASURED]
    if at_s is not None:
        shown = [one for one in explained.incidents if one.begun_s - NEAR_S <= at_s <= one.ended_s + NEAR_S]
    if number is not None:
        shown = [one for one in explained.incidents if one.number == number]
        if not shown:
            raise click.UsageError(f"there is no leader change {number} in these files")
    if page is not None:
        page.write_text(as_html(explained, shown))
    elif session.is_json:
        session.show(as_value(explained, shown))
    else:
        for line in gaps(explained):
            click.echo(line)
        for ring in explained.rings:
            if ring.torn:
                click.echo(f"{ring.node}: {ring.torn} torn records were left out", err=True)
        for line in as_text(explained, shown, with_records=records or number is not None or at_s is not None):
            click.echo(line)
        if at_s is not None:
            for line in _unseen(explained, shown, at_s):
                click.echo(line)


def _unseen(explained: explaining.Explained, shown: list[explaining.Incident], at_s: float) -> Iterator[str]:
    """Whether nothing happened, or the records do not go back so far: a ring keeps the newest ones."""
    if not shown:
        yield f"nothing was recorded within {NEAR_S:.0f} s of that moment"
    for ring in explained.rings:
        begun_s = min((explained.timeline.at(record) for record in ring.records), default=None)
        if begun_s is None or begun_s > at_s:
            first = f" at {moment(begun_s)}" if begun_s else ""
            yield f"{ring.node}'s records begin later{first}"


async def _ask(session: Session, urls: list[str]) -> explaining.Asked:
    clients = {
        place.partition("://")[2].partition("?")[0]: session.aio_client_of(place)
        for url in urls
        for place in session.endpoints(url)
    }
    try:
        return await explaining.ask(clients, timeout_s=session.timeout_s)
    finally:
        await asyncio.gather(*(client.close() for client in clients.values()))


def _moment(text: str, option: str) -> float:
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if ago:
        return time.time() - float(ago[1]) * UNITS_S[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time", param_hint=option) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


COMMANDS = (explain,)
