"""raftmeta recover: a way out of an entry that no node can apply."""

from __future__ import annotations

from pathlib import Path

import click

from raftmeta import Encryption, recovery
from raftmeta.cli.serve import encryption_option
from raftmeta.cli.session import Session, fates, pass_session, plain

SHOWN_BYTES = 64
_data = click.option(
    "--data", "data_dir", required=True, type=click.Path(path_type=Path), help="Folder of the stopped node."
)


@click.group()
def recover() -> None:
    """Ways out for nodes that stop at each start."""


def _told(found: recovery.Unappliable) -> str:
    shown = found.payload[:SHOWN_BYTES].hex()
    rest = f" ... ({len(found.payload)} bytes)" if len(found.payload) > SHOWN_BYTES else ""
    return "\n".join(
        [
            f"entry {found.index} of term {found.term}, hash {found.chain}: {found.reason}",
            f"its bytes: {shown}{rest}",
            f"reached from the state after entry {found.state_index}; committed up to {found.committed} is known here",
        ]
    )


def _facts(found: recovery.Unappliable) -> dict[str, object]:
    return {**plain(found), "payload": found.payload.hex()}


@recover.command()
@_data
@encryption_option
@pass_session
def look(session: Session, data_dir: Path, encryption: Encryption | None) -> None:
    """Tell the first entry in the folder that this version cannot apply. Changes nothing."""
    with fates():
        found = recovery.unappliable(data_dir, encryption=encryption)
        if found is None:
            session.show({"index": 0}, f"this version applies all entries in {data_dir}")
        else:
            session.show(_facts(found), _told(found))


@recover.command()
@_data
@click.option("--index", required=True, type=click.IntRange(min=1), help="The entry, as `recover look` tells.")
@encryption_option
@pass_session
def skip(session: Session, data_dir: Path, index: int, encryption: Encryption | None) -> None:
    """Let the node pass over the entry that it cannot apply. Do it for each member, while all are stopped."""
    with fates():
        found = recovery.skip(data_dir, index, encryption=encryption)
        session.show(
            _facts(found),
            f"{_told(found)}\nskipped in {data_dir}; skip it in the folder of every other member before you start one",
        )


COMMANDS = (recover,)
