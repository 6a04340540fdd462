"""raftmeta pki: the certificates of a cluster's nodes and clients, made and kept in one folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from raftmeta.cli.session import WRONG_USE, Session, fail, fates, pass_session

if TYPE_CHECKING:
    from raftmeta.security.pki import Pki

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
DAYS = click.IntRange(1, 36_500)

_kind = click.argument("kind", type=click.Choice(["node", "client"]))
_name = click.argument("name")
_days = click.option(
    "--days", type=DAYS, default=CERTIFICATE_DAYS, show_default=True, help="How long the certificate is valid."
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the certificates are."""

    folder: Path


pass_place = click.make_pass_decorator(Place)


def _class() -> type[Pki]:
    """The package is asked for when it is needed: all other commands work without it."""
    try:
        from raftmeta.security.pki import Pki
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "cryptography":
            raise
        fail("certificates need cryptography: pip install 'raftmeta[pki]'", WRONG_USE)
    return Pki


@click.group()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("pki"),
    show_default=True,
    help="Where the authority and all certificates are.",
)
@click.pass_context
def pki(context: click.Context, folder: Path) -> None:
    """Certificates: make an authority, and issue, renew, revoke and list what it signs.

    The folder holds the authority's private key. Keep it off the nodes, and bring each node or client the folder of
    its own name only.
    """
    context.obj = Place(folder)


@pki.command()
@click.option("--days", type=DAYS, default=AUTHORITY_DAYS, show_default=True, help="How long the authority is valid.")
@pass_place
@pass_session
def init(session: Session, place: Place, days: int) -> None:
    """Make the certificate authority of a cluster: raftmeta --cluster NAME pki init."""
    with fates():
        _class().found(place.folder, session.cluster, days=days)
        facts = {"made": str(place.folder), "cluster": session.cluster}
        session.show(facts, f"made {place.folder}, the authority of the cluster {session.cluster}")


@pki.command()
@_name
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A host name or IP address of the node, for programs that compare it. raftmeta does not.",
)
@_days
@pass_place
@pass_session
def node(session: Session, place: Place, name: str, hosts: tuple[str, ...], days: int) -> None:
    """Issue a key and a certificate to the node NAME."""
    with fates():
        _tell(session, _class()(place.folder).issue("node", name, hosts=hosts, days=days))


@pki.command()
@_name
@_days
@pass_place
@pass_session
def client(session: Session, place: Place, name: str, days: int) -> None:
    """Issue a key and a certificate to the client whose principal is NAME."""
    with fates():
        _tell(session, _class()(place.folder).issue("client", name, days=days))


@pki.command()
@_kind
@_name
@_days
@click.option("--new-key", is_flag=True, help="Make a new key as well; without it only the certificate is replaced.")
@click.option(
    "--if-due", "due_days", type=DAYS, help="Do nothing while the certificate is valid for more days than this."
)
@pass_place
@pass_session
def renew(session: Session, place: Place, kind: str, name: str, days: int, new_key: bool, due_days: int | None) -> None:
    """Replace the certificate of a node or client by one with the same identity and a later end."""
    with fates():
        opened = _class()(place.folder)
        known = _kind_of(kind)
        if due_days is not None:
            current = [
                one for one in opened.certificates() if (one.kind, one.name, one.is_current) == (kind, name, True)
            ]
            if current and current[0].days_left > due_days:
                left = current[0].days_left
                session.show({"days_left": left}, f"nothing to do: {left} days are left")
                return
        _tell(session, opened.renew(known, name, days=days, has_new_key=new_key))


@pki.command()
@_kind
@_name
@click.option("--replaced", is_flag=True, help="Only those that were replaced by a renewal; the present one stays.")
@pass_place
@pass_session
def revoke(session: Session, place: Place, kind: str, name: str, replaced: bool) -> None:
    """End all certificates of a node or client, and write the list for the others: revoked.pem."""
    with fates():
        serials = _class()(place.folder).revoke(_kind_of(kind), name, only_replaced=replaced)
        told = f"revoked {len(serials)}; bring {place.folder / 'revoked.pem'} to every node"
        session.show({"revoked": serials, "list": str(place.folder / "revoked.pem")}, told)


@pki.command()
@pass_place
@pass_session
def show(session: Session, place: Place) -> None:
    """List the authority and all its certificates: identity, dates, days left, revoked or not."""
    with fates():
        rows = []
        for one in _class()(place.folder).certificates():
            row = asdict(one)
            row["hosts"] = ",".join(one.hosts)
            row["valid_from"], row["valid_until"] = (
                time.isoformat(timespec="minutes") for time in (one.valid_from, one.valid_until)
            )
            rows.append(row)
        session.show_table(rows)


def _kind_of(text: str) -> Literal["node", "client"]:
    return "node" if text == "node" else "client"


def _tell(session: Session, made: Path) -> None:
    session.show({"folder": str(made)}, f"made {made}: bring this folder to its machine")


COMMANDS = (pki,)
