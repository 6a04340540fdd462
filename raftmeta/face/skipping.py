"""The entry that no node can apply, found in the folder of a stopped node, and passed over by an operator's word.

    find    load the newest sound copy of the state, and apply the log behind it as a node would at its start
    skip    write the entry's index and chain hash into the file `skipped`, which the node reads at its start

The proof that an entry cannot be applied is to try it, with the machine of this version. So nothing that a node wrote
when it stopped has to be believed, and an entry that can be applied is never skipped. The log is not changed: its
chain of hashes stays whole, and it stays equal to the logs of the others (docs/decisions/skip.md).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from raftmeta.common import invariants, statuses
from raftmeta.errors import InvalidArgument, SnapshotDamaged, error_from_status
from raftmeta.face.stopped_folder import CopyDamaged, StoppedFolder, opened_folder
from raftmeta.face.stopped_log import MACHINE_LIMITS, Followed, Point, follow
from raftmeta.machine.machine_handle import MachineHandle
from raftmeta.security.encryption import Encryption
from raftmeta.storage.skipped_file import ENTRIES_MAX, SkippedEntry, skipped_of, skipped_pairs, write_skipped

__all__ = ["Unappliable", "find", "skip"]

_ORIGIN: Point = (0, 0, 0)
# docs/formats.md "Record": chain hash at 24, wall_ms at 32, type at 60; the payload follows 64 bytes.
_RECORD = struct.Struct("<IIQQQQQQIBBH")
_TRIED = (statuses.UNKNOWN_ENTRY, statuses.INVARIANT_BROKEN)


@dataclass(frozen=True, slots=True)
class Unappliable:
    """The first entry of a folder that this version of raftmeta cannot apply.

    index, term, chain (16 hex digits): its name; all members must tell the same. reason: why, in words. wall_ms: when
    it was written, milliseconds since 1970, for people. payload: its bytes (docs/formats.md "Commands"). state_index:
    it was reached from a copy of the state up to this entry, 0: from the log's beginning. committed: the folder knows
    all entries up to this one as committed. skipped: entries that are skipped already, on the way.
    """

    path: str
    index: int
    term: int
    chain: str
    reason: str
    wall_ms: int
    payload: bytes
    state_index: int
    committed: int
    skipped: tuple[int, ...]


def find(data_dir: Path, *, encryption: Encryption | None = None) -> Unappliable | None:
    """The first entry of the folder that cannot be applied; None: all can. It changes nothing.

    Raises InvalidArgument: no folder of a node, or a node runs in it. Raises SnapshotDamaged: no sound state, or the
    log does not go on from it. Raises NewerFormat, StorageCorrupt, EncryptionKeyMissing.
    """
    with opened_folder(data_dir, encryption) as folder:
        return _look(folder)


def skip(data_dir: Path, index: int, *, encryption: Encryption | None = None) -> Unappliable:
    """Let the folder's node pass over the entry at index, which must be the first that cannot be applied.

    Durable on return. Raises InvalidArgument: it is not that entry; nothing was changed. Others as find().
    """
    with opened_folder(data_dir, encryption) as folder:
        found = _look(folder)
        _check(folder, found, index)
        assert found is not None
        entries = [entry for entry in skipped_of(data_dir) if entry.index >= folder.log.first]
        if len(entries) == ENTRIES_MAX:
            raise InvalidArgument(
                f"index: {ENTRIES_MAX} entries of {data_dir} are skipped already, which is the most: restore a backup",
                field="index",
            )
        write_skipped(data_dir, [*entries, SkippedEntry(index, found.term, int(found.chain, 16))])
    return found


def _check(folder: StoppedFolder, found: Unappliable | None, index: int) -> None:
    held = folder.copies[0].point[0] if folder.copies else 0
    if found is not None and index == found.index:
        return
    if index <= held:
        reason = f"the checkpoint in {folder.path} holds the state after entry {held}, so entry {index} was applied"
    elif index in [entry.index for entry in skipped_of(folder.path)]:
        reason = f"entry {index} is skipped already in {folder.path}"
    elif found is None:
        reason = f"this version of raftmeta applies all entries in {folder.path}, up to {folder.log.last}"
    else:
        reason = f"the first entry in {folder.path} that cannot be applied is {found.index}, not {index}"
    raise InvalidArgument(f"index: {reason}; nothing was changed", field="index")


def _look(folder: StoppedFolder) -> Unappliable | None:
    start, machine = _start(folder)
    followed = follow([folder.log], start, machine=machine)
    if followed.status == statuses.OK:
        _check_end(folder, followed)
        return None
    if followed.status not in _TRIED:
        raise error_from_status(followed.status, detail=str(folder.path))
    return _told(folder, followed, start[0], machine)


def _start(folder: StoppedFolder) -> tuple[Point, MachineHandle]:
    """The newest sound copy of the state; without one the empty state, if the log begins with the first entry."""
    skipped = skipped_pairs(folder.path)
    point, machine = _ORIGIN, MachineHandle(**MACHINE_LIMITS)
    for copy in folder.copies:
        try:
            point, machine = copy.point, copy.load()
        except CopyDamaged as error:
            folder.problems.append(str(error))
        else:
            break
    machine.skip(skipped)
    return point, machine


# A node whose log does not lead on takes the state of the others: there is nothing to skip.
def _check_end(folder: StoppedFolder, followed: Followed) -> None:
    if followed.point[0] >= folder.log.last:
        return
    problems = "; ".join(folder.problems)
    raise SnapshotDamaged(
        f"data_dir: entry {followed.point[0] + 1} in {folder.path} is damaged or gone, so it is not known whether it "
        f"can be applied{': ' if problems else ''}{problems}",
        field="data_dir",
    )


def _told(folder: StoppedFolder, followed: Followed, state_index: int, machine: MachineHandle) -> Unappliable:
    index = followed.point[0] + 1
    record = folder.log.record(index)
    assert record is not None, "an entry was applied that the log does not have"
    _, _, _, term, chain, wall_ms, *_ = _RECORD.unpack_from(record)
    reason = str(error_from_status(followed.status))
    number, a, b = machine.broken
    if followed.status == statuses.INVARIANT_BROKEN and number:  # else it is one of the tree
        reason += f" ({invariants.NAMES.get(number, f'number {number}')}: {a} and {b})"
    return Unappliable(
        path=str(folder.path),
        index=index,
        term=term,
        chain=f"{chain:016x}",
        reason=reason,
        wall_ms=wall_ms,
        payload=record[_RECORD.size :],
        state_index=state_index,
        committed=max([folder.log.committed, *(copy.point[0] for copy in folder.copies)]),
        skipped=tuple(entry.index for entry in skipped_of(folder.path)),
    )
