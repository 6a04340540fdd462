"""raftmeta recover: ways out of an entry that no node can apply, and of the loss of a majority."""

from __future__ import annotations

from pathlib import Path

import click

from raftmeta import Encryption, recovery
from raftmeta.cli.serve import encryption_option, peers_of
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


# --- a majority is lost -----------------------------------------------------------------------------------------------
_left = click.option(
    "--data",
    "folders",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of a member that is left, its node stopped. Name all of them.",
)
_committed_only = click.option(
    "--committed-only",
    is_flag=True,
    help="Leave out what is not certainly committed. Acknowledged writes may be among that.",
)


@recover.command()
@_left
@_committed_only
@encryption_option
@pass_session
def plan(session: Session, folders: tuple[Path, ...], committed_only: bool, encryption: Encryption | None) -> None:
    """Tell what is left of a cluster whose majority is lost for good. Changes nothing.

    Which entries are certainly or possibly committed, whether some may be gone, which sessions and leases there are.
    """
    with fates():
        found = recovery.plan(folders, committed_only=committed_only, encryption=encryption)
        session.show(plain(found), _planned(found))


@recover.command("apply")
@click.argument("saved", type=click.Path(path_type=Path))
@_left
@click.option(
    "--node", "nodes", multiple=True, metavar="NAME=FOLDER", help="New folder of a member that lives on this machine."
)
@click.option("--peer", "peers", multiple=True, required=True, metavar="NAME=HOST:PORT", help="Each new member.")
@_committed_only
@click.option("--although-answered", is_flag=True, help="Other programs answer at the old voters' addresses.")
@encryption_option
@pass_session
def apply_(
    session: Session,
    saved: Path,
    folders: tuple[Path, ...],
    nodes: tuple[str, ...],
    peers: tuple[str, ...],
    committed_only: bool,
    although_answered: bool,
    encryption: Encryption | None,
) -> None:
    """Make a NEW cluster of what is left: write the file SAVED and its report, and the folders of --node.

    It has another id, so no node of the old cluster can come back. The old folders stay as they are. After an
    interruption give the same command again. It refuses while programs answer at a majority of the old addresses.
    """
    places = {}
    for pair in nodes:
        name, equals, folder = pair.partition("=")
        if not equals or name in places:
            raise click.BadParameter(f"{pair!r} is not NAME=FOLDER, each name once", param_hint="--node")
        places[name] = Path(folder)
    with fates():
        done = recovery.apply(
            folders,
            saved,
            places,
            peers_of(peers),
            cluster=session.cluster,
            committed_only=committed_only,
            although_answered=although_answered,
            encryption=encryption,
        )
        made = [f"made {places[name]}" for name in done.made] + [f"{places[name]} is there" for name in done.kept]
        told = [_planned(done.plan), f"saved {done.saved}; its report is {done.report}", *made]
        if rest := sorted(set(peers_of(peers)) - set(places)):
            told.append(f"on the machines of {', '.join(rest)}: raftmeta snapshot restore {done.saved.name} ...")
        facts = {**plain(done), "saved": str(done.saved), "report": str(done.report)}
        session.show(facts, "\n".join(told))


def _planned(found: recovery.Plan) -> str:
    salvaged = found.salvaged
    lines = [
        f"cluster {found.cluster_id}; state after entry {salvaged.index} of term {salvaged.term}: {salvaged.ending}",
        f"certainly committed: entries up to {salvaged.committed}",
    ]
    if salvaged.possibly_committed:
        lines.append(f"possibly committed: entries {salvaged.committed + 1} to {salvaged.index}")
    lines.append(f"possibly lost: {found.loss}" if found.is_loss_possible else f"lost: nothing; {found.loss}")
    for one in found.voters:
        state = "MISSING" if not one.folder else one.folder if one.is_whole else f"{one.folder}, which LOST WRITES"
        lines.append(f"voter {one.name} at {one.address}: {state}")
    lines += [f"lease {one.id:x}, {one.ttl_s:g} s, goes on: {one.note or 'no note'}" for one in found.leases]
    lines += [f"session {one.id:x} ends: the fate of its last operations stays unknown" for one in found.sessions]
    lines += [f"{folder.path}: {problem}" for folder in salvaged.folders for problem in folder.problems]
    lines.append(f"{found.keys} keys at revision {found.revision}, state hash {found.state_hash}, chain {found.chain}")
    return "\n".join(lines)


COMMANDS = (recover,)
