"""What a node says of itself over the client protocol, as a NodeStatus (docs/formats.md "Client protocol")."""

from __future__ import annotations

from typing import Any

from raftmeta.results import MemberStatus, NodeStatus

_STATES = {1: "starting", 2: "running", 3: "stopped"}
_ROLES = {1: "follower", 2: "pre-candidate", 3: "candidate", 4: "leader"}
_VOTES = 1 | 2  # roles of a voter, of the new or the old electorate


def status_from(values: list[Any]) -> NodeStatus:
    """The status in the body of an answer."""
    (raw_name, id, boot, raw_cluster, low, high, state, role, term, leader_id, committed, applied, persisted, last,
     revision, compacted, keys, hash_low, hash_high, is_ready, members, links) = values  # fmt: skip
    name = raw_name.decode()
    listed = _members(name, id, members, links)
    return NodeStatus(
        name=name,
        id=id,
        boot=boot,
        cluster=raw_cluster.decode(),
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
        lost_disks=tuple(name.decode() for _, _, name, _, _, is_lost in links if is_lost),
        members=tuple(listed),
    )


def _members(own: str, own_id: int, members: list[Any], links: list[Any]) -> list[MemberStatus]:
    named = {
        name: (id, "voter" if roles & _VOTES else "learner", address.decode()) for id, roles, name, address in members
    }
    connected = {name: (id, is_up, bytes_in, bytes_out) for id, is_up, name, bytes_in, bytes_out, _ in links}
    listed = []
    for raw in sorted({*named, *connected}):
        name = raw.decode()
        link_id, is_up, bytes_in, bytes_out = connected.get(raw, (0, False, 0, 0))
        id, role, address = named.get(raw, (link_id, "", ""))
        is_self = name == own
        listed.append(
            MemberStatus(name, own_id if is_self else id, address, role, is_self, is_self or is_up, bytes_in, bytes_out)
        )
    return listed
