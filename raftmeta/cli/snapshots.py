"""raftmeta snapshot: backups that are checked, and a new cluster from one."""

from __future__ import annotations

from pathlib import Path

import click

from raftmeta import snapshot as files
from raftmeta.cli.serve import peers_of
from raftmeta.cli.session import Session, fates, pass_session, plain

_file = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def snapshot() -> None:
    """Backups: inspect, verify, restore. They are made by raftmeta.snapshot.save, in a program that runs a node."""


@snapshot.command()
@_file
@pass_session
def inspect(session: Session, path: Path) -> None:
    """Print what the file PATH holds, by its header and footer."""
    with fates():
        facts = plain(files.inspect(path))
        session.show(facts, "\n".join(f"{name}: {value}" for name, value in facts.items()))


@snapshot.command()
@_file
@pass_session
def verify(session: Session, path: Path) -> None:
    """Read all of the file PATH, check every checksum, and compare the state with its hash."""
    with fates():
        files.verify(path)
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
@pass_session
def restore(session: Session, path: Path, data_dir: Path, name: str, peers: tuple[str, ...]) -> None:
    """Make the folder of one member of a NEW cluster with the state of the file PATH; do it for each member."""
    with fates():
        files.restore(path, data_dir, name, peers_of(peers))
        session.show({"restored": str(data_dir)}, f"restored {data_dir}")


COMMANDS = (snapshot,)
