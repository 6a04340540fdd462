"""The proof that the folders left can give about a cluster whose majority is gone.

    plan_of     read the folders (face/salvaging), and compare the voters that they belong to with the missing ones

A committed entry is in the logs of a majority of the voters (paper 5.4). As long as the missing voters are no majority,
every committed entry is in one of the folders. If they are a majority, they may have committed entries that no folder
has.

It decides nothing about the state and writes nothing. raftmeta.recovery makes a new cluster of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftmeta.face.backups import decoded_members
from raftmeta.face.salvaging import Salvaged, Survey, survey
from raftmeta.machine.machine_handle import MachineHandle
from raftmeta.security.encryption import Encryption

__all__ = ["Plan", "PlannedLease", "PlannedSession", "PlannedVoter", "plan_of"]

# docs/formats.md "Records of the state": the head of a record, kinds, and the fields at their beginning.
_HEAD = struct.Struct("<II")
_LEASE, _SESSION, _RESULT = 3, 4, 5
_LEASE_FIELDS = struct.Struct("<QQQ")  # id, ttl_ms, deadline_ms
_DUMP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PlannedVoter:
    """A voter of the old cluster. folder: the one of those named that is this voter's; "": it is missing.

    is_whole: its log has all that it acknowledged. One that lost writes counts as missing when a loss is judged.
    """

    name: str
    address: str
    folder: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class PlannedLease:
    """A lease that the new cluster has. It counts down from ttl_s again. note: of its owner, as text."""

    id: int
    ttl_s: float
    note: str


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """A session that the new cluster does not have. Its client cannot learn the fate of what was under way."""

    id: int
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A recovery of these folders: what it keeps, and what it cannot know.

    salvaged: the entries: certainly committed up to salvaged.committed, possibly committed up to salvaged.index.
    cluster_id, state_hash: 32 hex digits, of the old cluster and of the state at salvaged.index. chain: the hash of the
        last entry, which stands for all entries before it.
    is_loss_possible: committed entries may be gone. loss: why, or why not, in a sentence.
    """

    salvaged: Salvaged
    cluster_id: str
    chain: str
    state_hash: str
    revision: int
    keys: int
    voters: tuple[PlannedVoter, ...]
    is_loss_possible: bool
    loss: str
    leases: tuple[PlannedLease, ...]
    sessions: tuple[PlannedSession, ...]

    @property
    def missing(self) -> tuple[PlannedVoter, ...]:
        """The voters of which no folder was named."""
        return tuple(voter for voter in self.voters if not voter.folder)


def plan_of(data_dirs: Sequence[Path], *, committed_only: bool = False, encryption: Encryption | None = None) -> Plan:
    """Read the folders of stopped nodes of one cluster; nothing in them is changed. Raises as salvage() does."""
    with survey(data_dirs, committed_only=committed_only, encryption=encryption) as found:
        status = found.machine.status()
        configurations = list(_configurations(found))
        voters = _voters(found, configurations)
        is_possible, loss = _loss(found, configurations, voters)
        low, high = found.way.copy.cluster
        leases, sessions = _holders(found.machine)
        return Plan(
            salvaged=found.told(),
            cluster_id=f"{high:016x}{low:016x}",
            chain=f"{found.applied.point[2]:016x}",
            state_hash=f"{status.state_hash:032x}",
            revision=status.revision,
            keys=status.keys,
            voters=voters,
            is_loss_possible=is_possible,
            loss=loss,
            leases=leases,
            sessions=sessions,
        )


# --- the voters -------------------------------------------------------------------------------------------------------
def _configurations(found: Survey) -> Iterator[dict[int, tuple[str, str]]]:
    """Each set of voters that may have decided at the end: incarnation -> name and address.

    The memberships are the last one, which may not be committed, and the one before. A change under way has two sets of
    voters, and an entry needs a majority of each (thesis 4.3).
    """
    for encoded in found.memberships:
        members = decoded_members(encoded)
        for is_voter in (3, 4):
            voters = {member[0]: (member[1], member[2]) for member in members if member[is_voter]}
            if voters:
                yield voters


def _voters(found: Survey, configurations: list[dict[int, tuple[str, str]]]) -> tuple[PlannedVoter, ...]:
    """A folder belongs to the incarnation that it names: one that was emptied meanwhile is another voter's."""
    folders = {folder.identity.incarnation: folder for folder in found.folders if folder.identity is not None}
    known = {voter: names for voters in configurations for voter, names in voters.items()}
    told = []
    for voter, (name, address) in known.items():
        folder = folders.get(voter)
        place = "" if folder is None else str(folder.path)
        told.append(PlannedVoter(name, address, place, folder is not None and not folder.log.lost_batches))
    return tuple(sorted(told, key=lambda voter: (voter.name, voter.folder)))


def _loss(
    found: Survey, configurations: list[dict[int, tuple[str, str]]], voters: tuple[PlannedVoter, ...]
) -> tuple[bool, str]:
    end = found.applied.point[0]
    if not found.is_whole:
        return True, "entries are damaged or gone in every folder named, and some of them may have been committed"
    if not configurations:
        return True, "the voters are not known, so the missing ones may have committed more"
    there = {(voter.name, voter.address) for voter in voters if voter.is_whole}
    for names in configurations:
        missing = sorted(name for name, address in names.values() if (name, address) not in there)
        if len(missing) > len(names) // 2:
            return True, (
                f"{', '.join(missing)}: {len(missing)} of {len(names)} voters are missing or lost writes. They are a "
                f"majority, and may have committed entries behind {end}"
            )
    if found.committed > end or found.way.end[0] > end:
        return True, f"entries behind {end} were left out, as was asked; some of them may have been committed"
    return False, "no committed entry is missing: every majority of the voters has one of these logs"


# --- who held what ----------------------------------------------------------------------------------------------------
def _holders(machine: MachineHandle) -> tuple[tuple[PlannedLease, ...], tuple[PlannedSession, ...]]:
    """Leases and sessions come before the keys in a dump, which ends here with the first key."""
    leases: list[PlannedLease] = []
    sessions: list[PlannedSession] = []
    dump = machine.dump(_DUMP_BYTES)
    try:
        for kind, record in _records(dump):
            if kind > _RESULT:
                break
            if kind == _LEASE:
                lease, ttl_ms, _ = _LEASE_FIELDS.unpack_from(record)
                note = record[_LEASE_FIELDS.size :].decode(errors="backslashreplace")
                leases.append(PlannedLease(lease, ttl_ms / 1000, note))
            elif kind == _SESSION:
                session, ttl_ms, _ = _LEASE_FIELDS.unpack_from(record)
                sessions.append(PlannedSession(session, ttl_ms / 1000))
    finally:
        dump.close()
    return tuple(leases), tuple(sessions)


def _records(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            length, kind = _HEAD.unpack_from(chunk, at)
            at += _HEAD.size
            yield kind, chunk[at : at + length]
            at += length
