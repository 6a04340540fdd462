"""raftmeta snapshot: backups that are checked, and a new cluster from one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

from raftmeta import Encryption
from raftmeta import snapshot as files
from raftmeta.cli.serve import encryption_option, peers_of
from raftmeta.cli.session import Session, fates, pass_session, plain

SAVE_S = 60.0
_file = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def snapshot() -> None:
    """Backups: save, inspect, verify, restore."""


@snapshot.command()
@_file
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0.001),
    default=SAVE_S,
    show_default=True,
    help="Seconds until a node has written its own copy.",
)
@click.option(
    "--data",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder of a stopped node: save all that is left in it. Name the folders of all members that are left.",
)
@click.option(
    "--committed-only",
    is_flag=True,
    help="With --data: leave out what is not certainly committed. Acknowledged writes may be among that.",
)
@encryption_option
@pass_session
def save(
    session: Session,
    path: Path,
    wait_s: float,
    folders: tuple[Path, ...],
    committed_only: bool,
    encryption: Encryption | None,
) -> None:
    """Save everything to the file PATH while writes go on. The command checks the file before it is there."""
    if folders:
        with fates():
            salvaged = files.save(folders, path, committed_only=committed_only, encryption=encryption)
            facts = {"saved": str(path), "bytes": path.stat().st_size, **plain(salvaged)}
            session.show({**facts, "possibly_committed": salvaged.possibly_committed}, _told(path, salvaged))
        return
    if committed_only:
        raise click.UsageError("--committed-only goes with --data: a running cluster gives committed entries only")
    if encryption is not None:
        raise click.UsageError(
            "--encryption-key-file goes with --data: a running node's file is encrypted as its own are"
        )
    with session.client() as client, _progress(session) as tell:
        files.save(client, path, timeout_s=wait_s, on_progress=tell)
        session.show({"saved": str(path), "bytes": path.stat().st_size}, f"saved {path}")


def _told(path: Path, salvaged: files.Salvaged) -> str:
    """The content of the file, for people."""
    behind = salvaged.possibly_committed
    certain = f"entries up to {salvaged.committed} are certainly committed"
    doubtful = f"; entries {salvaged.committed + 1} to {salvaged.index} may be" if behind else ""
    lines = [
        f"saved {path}",
        f"up to entry {salvaged.index} of term {salvaged.term}, from {salvaged.path}: {salvaged.ending}",
        certain + doubtful,
    ]
    if salvaged.left_out:
        lines.append(f"{salvaged.left_out} entries were left out")
    for folder in salvaged.folders:
        copy = f"a copy of the state up to entry {folder.copy_index}" if folder.copy_index else "no copy of the state"
        log = f"log entries {folder.first} to {folder.last}" if folder.last >= folder.first else "no log entries"
        lines.append(f"{folder.path} ({folder.name or 'name not known'}): {copy}, {log}")
        lines += [f"  {problem}" for problem in folder.problems]
    return "\n".join(lines)


@contextlib.contextmanager
def _progress(session: Session) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, if a person looks at it."""
    with Progress(
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        disable=session.is_json or not sys.stderr.isatty(),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)


@snapshot.command()
@_file
@encryption_option
@pass_session
def inspect(session: Session, path: Path, encryption: Encryption | None) -> None:
    """Print the content of the file PATH, by its header and footer."""
    with fates():
        facts = plain(files.inspect(path, encryption=encryption))
        session.show(facts, "\n".join(f"{name}: {value}" for name, value in facts.items()))


@snapshot.command()
@_file
@encryption_option
@click.option("--checksums-only", is_flag=True, help="Check the checksums alone, which needs no key.")
@pass_session
def verify(session: Session, path: Path, encryption: Encryption | None, checksums_only: bool) -> None:
    """Read all of the file PATH, check every checksum, and compare the state with its hash."""
    with fates():
        files.verify(path, encryption=encryption, checksums_only=checksums_only)
        session.show({"sound": True}, "sound")


@snapshot.command()
@_file
@click.option(
    "--data", "data_dir", required=True, type=click.Path(path_type=Path), help="The new node's folder: empty."
)
@click.option("--name", required=True, help="The new node's name.")
@click.option(
    "--peer", "peers", multiple=True, required=True, metavar="NAME=HOST:PORT", help="Each member, this one too."
)
@encryption_option
@pass_session
def restore(
    session: Session, path: Path, data_dir: Path, name: str, peers: tuple[str, ...], encryption: Encryption | None
) -> None:
    """Make the folder of one member of a NEW cluster with the state of the file PATH; do it for each member."""
    with fates():
        files.restore(path, data_dir, name, peers_of(peers), encryption=encryption)
        session.show({"restored": str(data_dir)}, f"restored {data_dir}")


COMMANDS = (snapshot,)
