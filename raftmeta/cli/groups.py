"""raftmeta group: worker groups of the cluster, their members and generations, for operators."""

from __future__ import annotations

import click

import raftmeta
from raftmeta.cli.session import NO, Session, fail, pass_session

UNKNOWN_MEMBER_ID = 25


@click.group()
def group() -> None:
    """Worker groups: list, describe, members, remove-member.

    GROUP is the name under which workers join. A group of `group(name)` (KIP-30) is another thing, and is not shown.
    """


@group.command("list")
@click.argument("prefix", default="")
@pass_session
def list_(session: Session, prefix: str) -> None:
    """List the groups whose names begin with PREFIX."""
    with session.store() as store:
        session.show_table(
            [
                {"group": one.group, "state": one.state, "generation": one.generation, "type": one.protocol_type}
                for one in store.groups.list(prefix, timeout_s=session.timeout_s)
            ]
        )


def _described(session: Session, name: str) -> raftmeta.GroupInfo:
    with session.store() as store:
        found = store.groups.describe(name, timeout_s=session.timeout_s)
    if found is None:
        fail(f"there is no worker group {name!r}", NO)
    return found


@group.command()
@click.argument("group")
@pass_session
def describe(session: Session, group: str) -> None:
    """Show the state of GROUP, its generation, its protocol and its leader."""
    info = _described(session, group)
    shown = {
        "group": group,
        "state": info.state,
        "generation": info.generation,
        "type": info.protocol_type,
        "protocol": info.protocol,
        "leader": info.leader_id,
        "members": len(info.members),
    }
    session.show(shown, "\n".join(f"{name}: {value}" for name, value in shown.items()))


@group.command()
@click.argument("group")
@pass_session
def members(session: Session, group: str) -> None:
    """List the members of GROUP, with the sizes of their assignments in bytes."""
    info = _described(session, group)
    session.show_table(
        [
            {
                "member": one.member_id,
                "instance": one.instance,
                "client": one.client,
                "leads": "yes" if one.member_id == info.leader_id else "no",
                "assignment bytes": len(one.assignment),
            }
            for one in info.members
        ]
    )


@group.command("remove-member")
@click.argument("group")
@click.argument("member")
@click.option("--instance", "is_instance", is_flag=True, help="MEMBER is the instance of a static member, not an id.")
@pass_session
def remove_member(session: Session, group: str, member: str, is_instance: bool) -> None:
    """Remove MEMBER from GROUP. Its fence ends, and its share goes to the others. A worker that lives joins again."""
    with session.store() as store:
        ids, instances = ([], [member]) if is_instance else ([member], [])
        (code,) = store.groups.leave(group, ids, instances=instances, timeout_s=session.timeout_s)
    if code == UNKNOWN_MEMBER_ID:
        fail(f"the worker group {group!r} has no member {member!r}", NO)
    session.show({"removed": member}, f"removed {member}")


COMMANDS = (group,)
