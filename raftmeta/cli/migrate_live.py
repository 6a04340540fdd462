"""raftmeta migrate zookeeper live: move a running ensemble to the doors of raftmeta's nodes, and back if need be.

Each command is one step of a move, and each step may be killed and called again. The folder of --state holds the move
together. This file reads options and shows figures; raftmeta/migrate/live decides.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from raftmeta import ConfigError
from raftmeta.cli.session import NO, Session, fates

if TYPE_CHECKING:
    from raftmeta.migrate import live as moving

LINE_EVERY_S = 10.0  # where nobody looks at a terminal
_file = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class Sides:
    """The options before the step."""

    source: str
    target: str
    root: str
    state: Path
    source_auth: Path | None
    target_auth: Path | None
    source_authorities: Path | None
    source_certificate: Path | None
    source_key: Path | None
    target_authorities: Path | None
    target_certificate: Path | None
    target_key: Path | None
    files: Path | None
    has_kinds: bool
    zookeeper_root: str
    is_back: bool

    @contextlib.contextmanager
    def move(self, session: Session, *, overwrite: bool = False) -> Iterator[moving.Move]:
        """The move, with its progress on standard error."""
        with fates(), _telling(session) as tell, contextlib.ExitStack() as stack:
            live = _live()
            store = stack.enter_context(session.client()) if self.is_back and self.has_kinds else None
            with live.Move(
                _below(self.source, self.root),
                _below(self.target, self.root),
                self.state,
                is_back=self.is_back,
                old_access=live.Access(
                    _credentials(self.source_auth), self.source_authorities, self.source_certificate, self.source_key
                ),
                new_access=live.Access(
                    _credentials(self.target_auth), self.target_authorities, self.target_certificate, self.target_key
                ),
                overwrite=overwrite,
                files=self.files,
                store=store,
                zookeeper_root=self.zookeeper_root,
                on_progress=lambda nodes: tell(f"walking: {nodes} nodes"),
                on_status=lambda status: tell(_words(status)),
            ) as move:
                yield move


def _live() -> Any:
    try:
        from raftmeta.migrate import live
    except ModuleNotFoundError as error:
        raise ConfigError(f"this needs pip install 'raftmeta[zookeeper]': {error}", field="kazoo") from None
    return live


def _below(address: str, root: str) -> str:
    if "://" in address:
        raise ConfigError(f"host:port,host:port of servers that speak ZooKeeper's protocol, not {address}", field="to")
    return f"{address.rstrip('/')}/{root.strip('/')}".rstrip("/")


def _credentials(path: Path | None) -> list[tuple[str, str]]:
    """Lines of the file: scheme:credential, as in addauth; sasl:name:password is proved by SASL DIGEST-MD5."""
    if path is None:
        return []
    found = []
    for line in path.read_text().splitlines():
        scheme, colon, credential = line.strip().partition(":")
        if scheme and not colon:
            raise ConfigError(f"{path}: scheme:credential on each line, digest:user:password for example", field="auth")
        if scheme:
            found.append((scheme, credential))
    return found


@click.group("zookeeper live")
@click.option("--from", "source", required=True, metavar="ADDRESSES", help="host:port,... of the running ensemble.")
@click.option("--to", "target", required=True, metavar="ADDRESSES", help="host:port,... of the doors.")
@click.option("--root", default="", help="Move this path and all below it only.")
@click.option(
    "--state",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of this move: the same one for all its steps.",
)
@click.option("--from-auth", "source_auth", type=_file, help="File of scheme:credential lines for the ensemble.")
@click.option("--to-auth", "target_auth", type=_file, help="File of scheme:credential lines for the doors.")
@click.option(
    "--from-tls-ca", "source_authorities", type=_file, help="Speak TLS; who signs the ensemble's certificates."
)
@click.option("--from-tls-cert", "source_certificate", type=_file, help="Certificate of the migrator there.")
@click.option("--from-tls-key", "source_key", type=_file, help="Its private key.")
@click.option("--to-tls-ca", "target_authorities", type=_file, help="Speak TLS; who signs the nodes' certificates.")
@click.option("--to-tls-cert", "target_certificate", type=_file, help="Certificate of the migrator there.")
@click.option("--to-tls-key", "target_key", type=_file, help="Its private key.")
@click.option(
    "--files",
    type=click.Path(path_type=Path, exists=True),
    help="dataDir of a server of the source: only its files tell containers and nodes with a time to live.",
)
@click.option(
    "--kinds",
    "has_kinds",
    is_flag=True,
    help="On the way back: ask the cluster at --url for containers and nodes with a time to live.",
)
@click.option(
    "--zookeeper-root", default="zookeeper", show_default=True, help="The setting of the cluster, for --kinds."
)
@click.option("--back", "is_back", is_flag=True, help="After a cut over: from the doors to the ensemble.")
@click.pass_context
def live(context: click.Context, /, **settings: Any) -> None:
    """Move a running ensemble: follow, verify, cut-over; see docs/migration-live.md."""
    session = context.find_object(Session)
    assert session is not None
    context.obj = (session, Sides(**settings))


pass_both = click.make_pass_decorator(tuple)


@live.command()
@click.option("--overwrite", is_flag=True, help="The target has nodes already: remove those that the source has not.")
@pass_both
def follow(both: tuple[Session, Sides], /, overwrite: bool) -> None:
    """Mirror the source until Ctrl-C or SIGTERM."""
    session, sides = both
    ended = threading.Event()

    def end(number: int, _frame: object) -> None:
        ended.set()
        signal.signal(number, signal.SIG_DFL)  # the second one does not wait for the end of a walk

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    with sides.move(session, overwrite=overwrite) as move:
        move.follow(ended.is_set)
    _show(session, _live().read_status(sides.state))


@live.command()
@pass_both
def status(both: tuple[Session, Sides], /) -> None:
    """Show how far a migrator is, while it runs or after it ended."""
    session, sides = both
    with fates():
        _show(session, _live().read_status(sides.state))


@live.command()
@pass_both
def verify(both: tuple[Session, Sides], /) -> None:
    """Read both sides whole and compare them. Exit code 1: something differs."""
    session, sides = both
    with sides.move(session) as move:
        found = move.verify()
    _show(session, {"nodes": found.nodes, "differences": found.differences, **found.counts, "first": found.first})
    if found.differences:
        sys.exit(NO)


@live.command("cut-over")
@click.option(
    "--stop-writers", default="", metavar="COMMAND", help="Run this to stop all writers, in the place of locking nodes."
)
@click.option(
    "--refused", "refused_s_max", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
    help="Seconds of refused writes; then the source is opened again.",
)  # fmt: skip
@pass_both
def cut_over(both: tuple[Session, Sides], /, stop_writers: str, refused_s_max: float) -> None:
    """Lock the source, take over the last changes, verify, and leave the target in charge."""
    session, sides = both
    with sides.move(session) as move:
        moved = move.cut_over(stop_writers=shlex.split(stop_writers), refused_s_max=refused_s_max)
    ephemerals = _live().read_status(sides.state)["ephemerals"]
    _show(
        session,
        {
            "nodes": moved.nodes,
            "differences": 0,
            "seconds of refused writes": round(moved.refused_s, 3),
            "last zxid": f"{moved.last_zxid:#x}",
            "ephemeral nodes that their owners make anew": ephemerals,
            "next": f"start the programs on {sides.source if sides.is_back else sides.target}",
        },
    )


@live.command()
@pass_both
def abort(both: tuple[Session, Sides], /) -> None:
    """After an interrupted cut over: give the source's nodes their rights back."""
    session, sides = both
    with sides.move(session) as move:
        count = move.abort()
    _show(session, {"nodes that are open again": count})


# --- showing ----------------------------------------------------------------------------------------------------------


def _show(session: Session, report: dict[str, Any]) -> None:
    lines = []
    for name, value in report.items():
        if isinstance(value, list):
            lines += [f"{name}: {len(value)}", *(f"  {one}" for one in value)]
        else:
            lines.append(f"{name}: {value}")
    session.show(report, "\n".join(lines))


def _words(status: dict[str, Any]) -> str:
    return f"following: {status['nodes']} nodes, behind {status['behind']}, last zxid {status['last zxid']}"


@contextlib.contextmanager
def _telling(session: Session) -> Iterator[Any]:
    """A line that changes, on a terminal; elsewhere a line now and then. With --json nothing."""
    if session.is_json:
        yield lambda text: None
        return
    if not sys.stderr.isatty():
        told_s = 0.0

        def line(text: str) -> None:
            nonlocal told_s
            if time.monotonic() - told_s >= LINE_EVERY_S:
                told_s = time.monotonic()
                click.echo(text, err=True)

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("connecting", total=None)
        yield lambda text: bar.update(task, description=text)
