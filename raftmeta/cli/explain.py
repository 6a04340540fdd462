"""raftmeta explain: why the leader changed, a write was slow, a lease was lost."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from raftmeta import explain as explaining
from raftmeta.cli.session import Session, fates, pass_session
from raftmeta.explain.pages import as_html, as_text, as_value

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MEASURED = {"gil", "pause", "disk", "clock", "end"}  # causes rather than effects: told with --all


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--since", metavar="TIME", help="Only what ended after that: 90s, 10m, 2h, 1d ago, or an ISO time in UTC."
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
    folders: tuple[Path, ...],
    since: str | None,
    number: int | None,
    is_all: bool,
    records: bool,
    page: Path | None,
) -> None:
    """Name the cause of each leader change, lost lease and slow write, by the flight recorders in FOLDERS.

    Give the folders of all nodes of a cluster, or copies of their files flight.ring. Nodes may run or be dead; nothing
    is asked of them, and nothing is changed. Each cause is certain, likely or unknown.
    """
    with fates():
        explained = explaining.explain(folders, since_s=_moment(since) if since else 0.0)
    shown = [one for one in explained.incidents if is_all or one.kind not in MEASURED]
    if number is not None:
        shown = [one for one in explained.incidents if one.number == number]
        if not shown:
            raise click.UsageError(f"there is no leader change {number} in these files")
    if page is not None:
        page.write_text(as_html(explained, shown))
    elif session.is_json:
        session.show(as_value(explained, shown))
    else:
        for ring in explained.rings:
            if ring.torn:
                click.echo(f"{ring.node}: {ring.torn} torn records were left out", err=True)
        for line in as_text(explained, shown, with_records=records or number is not None):
            click.echo(line)


def _moment(text: str) -> float:
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if ago:
        return time.time() - float(ago[1]) * UNITS_S[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time", param_hint="--since") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


COMMANDS = (explain,)
