"""Members, connections and observers as rows, however they came here, and the lists that a status shows of them.

It decides who stands in that list: every incarnation that a membership names, and every peer that none names (yet).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raftmeta.results import MemberStatus, ObserverStatus

VOTER, LEARNER, STANDBY = "voter", "learner", "standby"


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member as a membership names it. role: VOTER, LEARNER or STANDBY."""

    name: str
    id: int
    address: str
    role: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A peer as a node knows it by name. id: the incarnation that it heard last, 0: none; is_up: it is connected."""

    name: str
    id: int
    is_up: bool
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class ObserverRow:
    """An observer that follows the log through a node. feeder: the incarnation that feeds it."""

    id: int
    name: str
    feeder: int
    last: int
    lag: int


def member_statuses(
    own: str, own_id: int, members: Sequence[MemberRow], links: Sequence[LinkRow], addresses: Mapping[str, str]
) -> tuple[MemberStatus, ...]:
    """The list, by name; of two incarnations of a name the one that votes first.

    own, own_id: of the node that looks. addresses: of peers that no membership names.
    """
    listed = []
    for member in members:
        link = next((link for link in links if link.name == member.name and link.id in (0, member.id)), None)
        listed.append(_status(member.name, member.id, member.address, member.role, link, own_id))
    known = {(member.name, member.id) for member in members} | {(member.name, 0) for member in members}
    for link in links:
        id = own_id if link.name == own else link.id
        if (link.name, id) not in known:
            listed.append(_status(link.name, id, addresses.get(link.name, ""), "", link, own_id))
    return tuple(sorted(listed, key=lambda one: (one.name, one.role != VOTER, one.role == "", one.id)))


def _status(name: str, id: int, address: str, role: str, link: LinkRow | None, own_id: int) -> MemberStatus:
    is_self = id == own_id
    is_up = is_self or (link is not None and link.is_up)
    bytes_in, bytes_out = (0, 0) if link is None else (link.bytes_in, link.bytes_out)
    return MemberStatus(name, id, address, role, is_self, is_up, bytes_in, bytes_out)


def observer_statuses(own: str, own_id: int, rows: Sequence[ObserverRow]) -> tuple[ObserverStatus, ...]:
    """The observers by name, each once. own, own_id: of the node that looks. The first row of an incarnation counts."""
    found: dict[int, ObserverRow] = {}
    for row in rows:
        found.setdefault(row.id, row)
    names = {own_id: own} | {row.id: row.name for row in found.values()}
    return tuple(
        sorted(ObserverStatus(row.name, row.id, row.last, row.lag, names.get(row.feeder, "")) for row in found.values())
    )
