"""All that is left of a cluster, out of the folders of stopped nodes, as one sealed file.

    salvage     read every folder; choose a copy of the state and the log that leads furthest from it; apply; write

Which log leads: the one whose readable entries, followed from a copy of the state, end with the highest (term, index).
It holds every committed entry that any of the folders holds: the leader of that term had all entries committed before
(paper 5.4.3), and of two logs of one term the longer holds the shorter (paper 5.3). An entry that is damaged there is
taken from another folder. Each entry must follow upon the one before it by its chain hash, so nothing else can come in.

Which entries are certainly committed: those that the state was copied behind, and those up to the commit index that a
folder's log carries, as far as that log and the leading one have the same hash. The entries behind may be committed: a
majority may have had them, or the cluster decided for others, and nobody who could say is left.

It decides nothing about the state: the machine of every node does. It changes nothing in the folders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from raftmeta.common import statuses
from raftmeta.errors import InvalidArgument, NewerFormat, SnapshotDamaged, error_from_status
from raftmeta.face.stopped_folder import CopyDamaged, StateCopy, StoppedFolder, opened_folder
from raftmeta.face.stopped_log import MACHINE_LIMITS, Followed, Point, StoppedLog, follow
from raftmeta.machine.machine_handle import MachineHandle
from raftmeta.security.encryption import Encryption, ring_of
from raftmeta.storage.sealed_handle import SealedWriterHandle
from raftmeta.storage.skipped_file import skipped_pairs
from raftmeta.storage.storage_handle import FolderDisk

__all__ = ["Salvaged", "SalvagedFolder", "Survey", "salvage", "survey"]

_ORIGIN: Point = (0, 0, 0)
# docs/formats.md "Records of the state": the head of a record, its kinds, and the fixed fields of a version.
_HEAD = struct.Struct("<II")
_KEY, _REVISION = 6, 7
_VERSION = struct.Struct("<QQQQIHH")
_CHUNK_BYTES = 256 * 1024  # docs/formats.md "Records of the state": a sealed file is cut there
_DUMP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SalvagedFolder:
    """The content of one folder. name: of its node, "" if the identity file is not readable.

    copy_index: the entry that its newest copy of the state ends with, 0: it has none. first, last: of the entries that
    its log knows; last < first: none. committed: the commit index that it knows. problems: all that could not be read.
    """

    path: str
    name: str
    copy_index: int
    first: int
    last: int
    committed: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The content of a sealed file that was made of stopped nodes' folders.

    index, term: of the last entry in it. committed: all entries up to this one are certainly committed; those behind,
    up to index, may be. copy_index: entries up to here came with a copy of the state, 0: the log was applied from its
    beginning. path: the folder whose log leads. left_out: entries that are readable and were left out, as was asked.
    ending: why it ends at index, in a sentence.
    """

    index: int
    term: int
    committed: int
    copy_index: int
    path: str
    left_out: int
    ending: str
    folders: tuple[SalvagedFolder, ...]

    @property
    def possibly_committed(self) -> int:
        """How many entries in the file may be committed and are not certain to be."""
        return self.index - self.committed


@dataclass(frozen=True, slots=True)
class _Way:
    """From a copy of the state along the log of a folder."""

    lead: StoppedFolder
    copy: StateCopy
    followed: Followed

    @property
    def end(self) -> Point:
        return self.followed.point

    def chain(self, index: int) -> int:
        """Hash of the entry at index, which is not behind the end; 0: not known."""
        begin, _, chain = self.copy.point
        if index > begin:
            return self.followed.chains[index - begin - 1]
        if index < begin and self.lead.log.chain(begin)[0] == chain:
            return self.lead.log.chain(index)[0]
        return chain if index == begin else 0


def salvage(
    data_dirs: Sequence[Path],
    target: Path,
    *,
    committed_only: bool = False,
    encryption: Encryption | None = None,
) -> Salvaged:
    """Write all that the folders hold to target, a name in a folder that is there; durable on return.

    data_dirs: of stopped nodes of one cluster, at least one. committed_only: leave out what is not certainly committed.
    encryption: the keys of encrypted folders; its current key encrypts target, too.
    It takes the memory of the state and of the logs meanwhile.
    Raises InvalidArgument: there is nothing to save, a node runs in a folder, or the folders are of several clusters
    or contradict each other. Raises SnapshotDamaged: no copy of the state is left that the logs lead on from. Raises
    NewerFormat, or OSError, NoSpace, DiskFailed from writing.
    """
    with survey(data_dirs, committed_only=committed_only, encryption=encryption) as found:
        _write(found, target, encryption)
        return found.told()


@dataclass(frozen=True, slots=True)
class Survey:
    """The state that the folders lead to, before it is written anywhere.

    memberships: encoded; that in force at the end, and before it that of the last entry that is certainly committed.
    """

    folders: list[StoppedFolder]
    way: _Way
    applied: Followed
    machine: MachineHandle
    committed: int
    memberships: tuple[bytes, ...]

    def told(self) -> Salvaged:
        """The facts of it."""
        end = self.applied.point[0]
        return Salvaged(
            index=end,
            term=self.applied.point[1],
            committed=min(self.committed, end),
            copy_index=self.way.copy.point[0],
            path=str(self.way.lead.path),
            left_out=self.way.end[0] - end,
            ending=_ending(self.way, self.folders, end),
            folders=tuple(_told(folder) for folder in self.folders),
        )

    @property
    def is_whole(self) -> bool:
        """Whether no folder tells of an entry behind the end that none of them has."""
        return all(max(one.log.committed, one.log.last) <= self.way.end[0] for one in self.folders)


@contextmanager
def survey(
    data_dirs: Sequence[Path], *, committed_only: bool = False, encryption: Encryption | None = None
) -> Iterator[Survey]:
    """Read the folders and apply what they hold. No node can start in them meanwhile. Raises as salvage()."""
    if not data_dirs:
        raise InvalidArgument("source: name one folder at least", field="source")
    if len({path.resolve() for path in data_dirs}) != len(data_dirs):
        raise InvalidArgument("source: a folder is named twice", field="source")
    with ExitStack() as stack:
        folders = [stack.enter_context(opened_folder(path, encryption)) for path in data_dirs]
        _check_cluster(folders)
        way, machine = _loaded_way(folders)
        committed = _committed(way, folders)
        until = committed if committed_only else way.end[0]
        if until == 0:
            raise InvalidArgument(
                f"committed_only: none of the {way.end[0]} entries is certainly committed: save them all",
                field="committed_only",
            )
        machine.skip(sorted({entry for folder in folders for entry in skipped_pairs(folder.path)}))
        logs = _logs(way.lead, folders)
        applied = follow(logs, way.copy.point, machine=machine, until=until)
        if applied.status == statuses.UNKNOWN_ENTRY:
            raise NewerFormat(
                f"source: entry {applied.point[0] + 1} in {way.lead.path} was written by a newer version of raftmeta: "
                "use that one, or see docs/operations.md, 'An entry that no node can apply'",
                field="source",
            )
        _check(applied.status, way.lead.path)
        before = follow(logs, way.copy.point, until=committed).membership or way.copy.membership
        after = applied.membership or way.copy.membership
        yield Survey(folders, way, applied, machine, committed, (after,) if after == before else (after, before))


def _check(status: int, path: Path) -> None:
    if status:
        raise error_from_status(status, detail=str(path))


def _check_cluster(folders: list[StoppedFolder]) -> None:
    known = {folder.cluster: folder.path for folder in folders if folder.cluster != (0, 0)}
    if len(known) > 1:
        first, second, *_ = known.values()
        raise InvalidArgument(
            f"source: {first} and {second} are of different clusters: save each cluster alone", field="source"
        )


# --- which way --------------------------------------------------------------------------------------------------------
def _logs(lead: StoppedFolder, folders: list[StoppedFolder]) -> list[StoppedLog]:
    return [lead.log, *(folder.log for folder in folders if folder is not lead)]


def _origin(folders: list[StoppedFolder]) -> StateCopy:
    """The empty state before the first entry, with the membership that founded the cluster."""
    founding, index = b"", 0
    for folder in folders:
        if folder.log.start[0] == 0 and folder.log.membership:
            founding, index = folder.log.membership, folder.log.membership_index
        elif not founding and folder.identity is not None:
            founding = folder.identity.membership
    cluster = next((folder.cluster for folder in folders if folder.cluster != (0, 0)), (0, 0))
    return StateCopy(folders[0].path, _ORIGIN, 0, founding, index, cluster, lambda: MachineHandle(**MACHINE_LIMITS))


def _loaded_way(folders: list[StoppedFolder]) -> tuple[_Way, MachineHandle]:
    """The way that leads furthest, and the state that it begins with; a copy that proves damaged is passed over."""
    copies = [*(copy for folder in folders for copy in folder.copies), _origin(folders)]
    ways = [_Way(lead, copy, follow(_logs(lead, folders), copy.point)) for lead, copy in product(folders, copies)]
    damaged: set[Path] = set()
    for way in sorted(ways, key=_order, reverse=True):
        _check(way.followed.status, way.lead.path)
        if way.copy.path in damaged or way.end == _ORIGIN:
            continue
        try:
            return way, way.copy.load()
        except CopyDamaged as error:
            damaged.add(way.copy.path)
            owner = next(folder for folder in folders if way.copy in folder.copies)
            owner.problems.append(f"{error}: {way.copy.path} is passed over")
    raise _nothing(folders)


def _order(way: _Way) -> tuple[int, int, int, bool]:
    """The order of ways: by their ends, then by the age of the copy, then a log that has this end itself."""
    index, term, chain = way.end
    return term, index, way.copy.point[0], way.lead.log.chain(index)[0] == chain


def _nothing(folders: list[StoppedFolder]) -> InvalidArgument | SnapshotDamaged:
    problems = "; ".join(problem for folder in folders for problem in folder.problems)
    names = ", ".join(str(folder.path) for folder in folders)
    beginning = [folder.log.first for folder in folders if folder.log.last >= folder.log.first]
    if not beginning and not problems:
        return InvalidArgument(f"source: nothing was written yet in {names}", field="source")
    log = f"the log begins with entry {min(beginning)} only" if beginning else "the log holds nothing that is readable"
    return SnapshotDamaged(
        f"source: no state can be made of {names}: {log}, and there is no sound copy of the state before it "
        f"({problems}); name the folders of other members, too, or use a backup",
        field="source",
    )


def _committed(way: _Way, folders: list[StoppedFolder]) -> int:
    """The last entry on the way that is certainly committed. Raises InvalidArgument: folders contradict each other."""
    begin, end = way.copy.point[0], way.end[0]
    committed = begin
    for folder in folders:
        points = [copy.point for copy in folder.copies]
        points += [(index, 0, chain) for index, chain in _last_known(folder, end)]
        for index, _, chain in points:
            if index > end:
                continue
            if way.chain(index) not in (0, chain):
                raise InvalidArgument(
                    f"source: {way.lead.path} and {folder.path} contradict each other: both know entry {index} as "
                    "committed, and it is not the same one; one of the two went back to an older copy. Save each "
                    "alone, compare the files, and decide",
                    field="source",
                )
            committed = max(committed, index)
    return committed


def _last_known(folder: StoppedFolder, end: int) -> Iterator[tuple[int, int]]:
    """The last entry that the folder's log knows, and knows as committed: (index, chain)."""
    for index in range(min(folder.log.committed, folder.log.last, end), folder.log.first - 1, -1):
        chain, _ = folder.log.chain(index)
        if chain:
            yield index, chain
            return


def _ending(way: _Way, folders: list[StoppedFolder], until: int) -> str:
    end = way.end[0]
    if until < end:
        return f"entries {until + 1} to {end} are not certainly committed and were left out, as was asked"
    known = max(folder.log.committed for folder in folders)
    missing = f"; entries up to {known} were committed, so {known - end} of them are gone" if known > end else ""
    further = max(folder.log.last for folder in folders)
    if further > end:
        return (
            f"entry {end + 1} is damaged or gone in every folder named, and entries up to {further} were written: none "
            f"of them can be applied without it{missing}"
        )
    lost = sum(folder.log.lost_batches for folder in folders)
    if lost:
        return f"the log behind entry {end} is damaged: {lost} writes are gone without a trace{missing}"
    return f"the log ends here{missing}"


def _told(folder: StoppedFolder) -> SalvagedFolder:
    return SalvagedFolder(
        path=str(folder.path),
        name="" if folder.identity is None else folder.identity.name,
        copy_index=folder.copies[0].point[0] if folder.copies else 0,
        first=folder.log.first,
        last=folder.log.last,
        committed=max([folder.log.committed, *(copy.point[0] for copy in folder.copies)]),
        problems=tuple(folder.problems),
    )


# --- the file ---------------------------------------------------------------------------------------------------------
def _write(found: Survey, target: Path, encryption: Encryption | None) -> None:
    way, applied, machine = found.way, found.applied, found.machine
    disk = FolderDisk(target.parent)
    disk.use_keys(ring_of(encryption, tuple))
    status = machine.status()
    try:
        writer = SealedWriterHandle(disk)
        _check(
            writer.begin(
                target.name,
                point=applied.point,
                cluster=way.copy.cluster,
                membership=applied.membership or way.copy.membership,
                membership_index=applied.membership_index or way.copy.membership_index,
                feature_level=status.feature_level,
                wall_ms=applied.wall_ms or way.copy.wall_ms,
            ),
            target,
        )
        for chunk, count, key in _chunks(machine):
            _check(writer.chunk(chunk, count=count, split_key=key), target)
        state_hash = status.state_hash
        _check(writer.seal(state_hash=(state_hash & (1 << 64) - 1, state_hash >> 64)), target)
    finally:
        disk.close()


def _chunks(machine: MachineHandle) -> Iterator[tuple[bytes, int, bytes | None]]:
    """Chunks as a node cuts them: records, how many, and where a reader may begin there the first key, b"" without."""
    chunk, count = bytearray(), 0
    for records in machine.dump(_DUMP_BYTES):
        at = begin = 0
        while at < len(records):
            at += _HEAD.size + _HEAD.unpack_from(records, at)[0]
            count += 1
            if len(chunk) + at - begin >= _CHUNK_BYTES:
                chunk += records[begin:at]
                yield bytes(chunk), count, _split_key(chunk)
                chunk, count, begin = bytearray(), 0, at
        chunk += records[begin:]
    if chunk:
        yield bytes(chunk), count, _split_key(chunk)


def _split_key(chunk: bytearray) -> bytes | None:
    """A reader may begin where a key or a revision does."""
    _, kind = _HEAD.unpack_from(chunk, 0)
    if kind == _KEY:
        begin = _HEAD.size + _VERSION.size
        return bytes(chunk[begin : begin + _VERSION.unpack_from(chunk, _HEAD.size)[5]])
    return b"" if kind == _REVISION else None
