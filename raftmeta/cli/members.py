"""raftmeta member: list and change the members of the cluster through any node that serves clients."""

from __future__ import annotations

import click

import raftmeta
from raftmeta.cli.cluster import statuses
from raftmeta.cli.session import Session, fates, pass_session

CHANGE_S = 30.0  # unless --wait says otherwise: a new member may have much to catch up with

_wait = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0.001),
    default=CHANGE_S,
    show_default=True,
    help="Seconds until the change must be committed.",
)


@click.group()
def member() -> None:
    """Members: list, add, remove, replace, promote, demote.

    A change states a goal, so you may safely ask for it again. ADDRESS is HOST:PORT where peers reach the node.
    """


@member.command("list")
@click.option("--observers", "wants_observers", is_flag=True, help="List the observers instead, with lag and feeder.")
@pass_session
def list_(session: Session, wants_observers: bool) -> None:
    """List the members, as last committed.

    --observers asks every node of the URL. An observer stands in the list of a member that it follows the log through.
    """
    if wants_observers:
        with fates():
            told = [status for _, status, _ in statuses(session) if status]
        found = raftmeta.ObserverStatus.merged(told)
        session.show_table(
            [
                {"name": one.name, "role": "observer", "feeder": one.feeder, "lag": one.lag, "id": f"{one.id:016x}"}
                for one in found
            ]
        )
        return
    with session.client() as client:
        session.show_table(
            [
                {"name": one.name, "address": one.address, "role": one.role, "id": f"{one.id:016x}"}
                for one in client.members(timeout_s=session.timeout_s)
            ]
        )


@member.command()
@click.argument("name")
@click.argument("address")
@click.option("--standby", "is_standby", is_flag=True, help="Without a vote until `member promote`.")
@_wait
@pass_session
def add(session: Session, name: str, address: str, is_standby: bool, wait_s: float) -> None:
    """Make the node NAME at ADDRESS a member: a learner, which gets a vote when it has caught up and that helps."""
    with session.client() as client:
        client.add_member(name, address, voter=not is_standby, timeout_s=wait_s)
        session.show({"added": name}, f"added {name}")


@member.command()
@click.argument("name")
@_wait
@pass_session
def remove(session: Session, name: str, wait_s: float) -> None:
    """Remove the member NAME, answering or not; refused when that would leave no quorum."""
    with session.client() as client:
        client.remove_member(name, timeout_s=wait_s)
        session.show({"removed": name}, f"removed {name}")


@member.command()
@click.argument("old")
@click.argument("name")
@click.argument("address")
@_wait
@pass_session
def replace(session: Session, old: str, name: str, address: str, wait_s: float) -> None:
    """Give the place of the member OLD to the node NAME at ADDRESS, once the node has caught up."""
    with session.client() as client:
        client.replace_member(old, name, address, timeout_s=wait_s)
        session.show({"replaced": old, "by": name}, f"replaced {old} by {name}")


@member.command()
@click.argument("name")
@_wait
@pass_session
def promote(session: Session, name: str, wait_s: float) -> None:
    """Give the learner NAME a vote, once it has caught up."""
    with session.client() as client:
        client.promote(name, timeout_s=wait_s)
        session.show({"promoted": name}, f"promoted {name}")


@member.command()
@click.argument("name")
@_wait
@pass_session
def demote(session: Session, name: str, wait_s: float) -> None:
    """Take the vote of the member NAME; it stays as a standby."""
    with session.client() as client:
        client.demote(name, timeout_s=wait_s)
        session.show({"demoted": name}, f"demoted {name}")


COMMANDS = (member,)
