"""A node's report of itself and of the members over the client protocol (docs/formats.md "Client protocol")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raftmeta.bindings.members import role_name
from raftmeta.common.text import shown
from raftmeta.members.plans import View
from raftmeta.members.rows import LinkRow, MemberRow, ObserverRow, member_statuses, observer_statuses
from raftmeta.results import MemberStatus, NodeStatus

_STATES = {1: "starting", 2: "running", 3: "stopped"}
_ROLES = {1: "follower", 2: "pre-candidate", 3: "candidate", 4: "leader", 5: "observer"}


def status_from(values: list[Any]) -> NodeStatus:
    """The status in the body of an answer."""
    (raw_name, id, boot, raw_cluster, low, high, state, role, term, leader_id, committed, applied, persisted, last,
     revision, compacted, keys, hash_low, hash_high, level, version, is_ready, members, links, feeder,
     observers) = values  # fmt: skip
    name = shown(raw_name)
    listed = _listed(name, id, members, links)
    return NodeStatus(
        name=name,
        id=id,
        boot=boot,
        cluster=shown(raw_cluster),
        cluster_id=f"{high:016x}{low:016x}" if high | low else "",
        state=_STATES[state],
        is_ready=is_ready,
        role=_ROLES.get(role, "") if state == 2 else "",
        term=term,
        leader=next((member.name for member in listed if member.id == leader_id and leader_id), ""),
        committed=committed,
        applied=applied,
        persisted=persisted,
        last=last,
        revision=revision,
        compacted=compacted,
        keys=keys,
        state_hash=f"{hash_high:016x}{hash_low:016x}",
        feature_level=level,
        version=shown(version),
        lost_disks=tuple(shown(name) for _, _, name, _, _, is_lost in links if is_lost),
        members=listed,
        feeder=shown(feeder),
        observers=observer_statuses(name, id, list(_observer_rows(observers))),
    )


def view_from(values: list[Any]) -> View:
    """The members as that node sees them, for the plans of raftmeta/members/plans."""
    name, _, revision, index, is_settled, is_removed, leader_id, members, links = values
    rows = tuple(_member_rows(members))
    return View(
        name=shown(name),
        index=index,
        is_settled=is_settled,
        is_removed=is_removed,
        leader=next((row.name for row in rows if row.id == leader_id), ""),
        members=rows,
        connected={link.name: link.id for link in _link_rows(links) if link.id and link.is_up},
        revision=revision,
    )


def members_from(values: list[Any]) -> tuple[MemberStatus, ...]:
    """The members in the same answer."""
    name, id, _, _, _, _, _, members, links = values
    return tuple(member for member in _listed(shown(name), id, members, links) if member.role)


def _listed(own: str, own_id: int, members: list[Any], links: list[Any]) -> tuple[MemberStatus, ...]:
    return member_statuses(own, own_id, list(_member_rows(members)), list(_link_rows(links)), {})


def _member_rows(members: list[Any]) -> Iterator[MemberRow]:
    for id, roles, name, address in members:
        yield MemberRow(shown(name), id, shown(address), role_name(roles))


def _link_rows(links: list[Any]) -> Iterator[LinkRow]:
    for id, is_up, name, bytes_in, bytes_out, _ in links:
        yield LinkRow(shown(name), id, is_up, bytes_in, bytes_out)


def _observer_rows(observers: list[Any]) -> Iterator[ObserverRow]:
    for id, name, feeder, last, lag in observers:
        yield ObserverRow(id, shown(name), feeder, last, lag)
