"""The folder of a node that is stopped, read for salvage: whose it is, its copies of the state, and its log.

    copies of the state     the checkpoint (LMDB), and `.sealed` files that are newer or take its place
    log                     every record that its segments hold, whatever is damaged (storage/salvage)

It decides nothing about the state, and changes nothing in the folder. Damage is no error here: it is told as a problem,
in words, and the rest is read. face/salvaging chooses.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from raftmeta.common import statuses
from raftmeta.errors import InvalidArgument, NewerFormat, error_from_status
from raftmeta.face.stopped_log import MACHINE_LIMITS, Point, StoppedLog
from raftmeta.machine.machine_handle import MachineHandle
from raftmeta.security.cipher_handle import KeyRingHandle
from raftmeta.security.encryption import Encryption, missing, ring_of
from raftmeta.storage.checkpoint import CheckpointError, CheckpointNewerFormat, CheckpointStore
from raftmeta.storage.identity_file import FolderIdentity, IdentityDamaged, IdentityNewerFormat, read_identity
from raftmeta.storage.keys_in_use import keys_of_folder
from raftmeta.storage.privacy import OPEN_NO_LINK
from raftmeta.storage.sealed_handle import SealedReaderHandle
from raftmeta.storage.storage_handle import FolderDisk

__all__ = ["CopyDamaged", "StateCopy", "StoppedFolder", "opened_folder"]

_SEGMENT = re.compile(r"([0-9a-f]{16})\.log")
_SEALED = re.compile(r"([0-9a-f]{16})\.sealed")
_READ_BYTES = 1 << 20
_SECTOR_BYTES = 4096


class CopyDamaged(Exception):
    """A copy of the state is not what was written."""


@dataclass(frozen=True, slots=True)
class StateCopy:
    """The state after the entry at `point`, and what is needed to make a sealed file of it. path: where it stands."""

    path: Path
    point: Point
    wall_ms: int
    membership: bytes
    membership_index: int
    cluster: tuple[int, int]
    load: Callable[[], MachineHandle]


@dataclass(frozen=True, slots=True)
class StoppedFolder:
    """The content of one folder. copies: the newest first. problems: sentences about all that could not be read."""

    path: Path
    identity: FolderIdentity | None
    copies: list[StateCopy]
    log: StoppedLog
    problems: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> tuple[int, int]:
        """The cluster's id; (0, 0): not known."""
        if self.identity is not None:
            return self.identity.cluster_low, self.identity.cluster_high
        return self.copies[0].cluster if self.copies else (0, 0)


@contextmanager
def opened_folder(data_dir: Path, encryption: Encryption | None = None) -> Iterator[StoppedFolder]:
    """Read the folder; no node can start in it meanwhile. It takes the memory of the log.

    Raises InvalidArgument: it is no folder, or a node runs in it. Raises NewerFormat: a newer version wrote it. Raises
    EncryptionKeyMissing.
    """
    if not data_dir.is_dir():
        raise InvalidArgument(f"source: there is no folder {data_dir}", field="source")
    if not any(_is_of_a_node(path.name) for path in data_dir.iterdir()):
        raise InvalidArgument(
            f"source: {data_dir} holds no checkpoint and no log: it is no node's folder, or nothing was written yet",
            field="source",
        )
    keys = ring_of(encryption, lambda: keys_of_folder(data_dir))
    disk = FolderDisk(data_dir)
    disk.use_keys(keys)
    try:
        _lock(disk, data_dir)
        _check_keys(data_dir, keys)
        problems: list[str] = []
        identity = _identity(data_dir, problems)
        log = _log(data_dir, identity, keys, problems)
        yield StoppedFolder(data_dir, identity, _copies(disk, data_dir, keys, problems), log, problems)
    finally:
        disk.close()


def _is_of_a_node(name: str) -> bool:
    return name in ("identity", "checkpoint") or bool(_SEGMENT.fullmatch(name) or _SEALED.fullmatch(name))


def _lock(disk: FolderDisk, data_dir: Path) -> None:
    if not os.access(data_dir, os.W_OK):
        return  # a file system that is mounted read-only: no node can run there
    status, holder = disk.lock()
    if status == statuses.IN_USE:
        raise InvalidArgument(
            f"source: a node runs in {data_dir} (process {holder}): save from it, or through a client", field="source"
        )
    if status:
        raise error_from_status(status, detail=f"{data_dir / 'lock'} cannot be locked")


def _check_keys(data_dir: Path, keys: KeyRingHandle | None) -> None:
    needed = keys_of_folder(data_dir)
    if any(key and (keys is None or key not in keys) for key in needed):
        raise missing(data_dir, needed, keys)


def _identity(data_dir: Path, problems: list[str]) -> FolderIdentity | None:
    try:
        identity = read_identity(data_dir)
    except IdentityNewerFormat as error:
        raise NewerFormat(f"source: {data_dir / 'identity'}: {error}", field="source") from None
    except (IdentityDamaged, OSError) as error:
        problems.append(f"{data_dir / 'identity'} is damaged ({error}): whose folder it is is not checked")
        return None
    if identity is None:
        problems.append(f"{data_dir / 'identity'} is missing: whose folder it is is not checked")
    return identity


# --- the log ----------------------------------------------------------------------------------------------------------
def _log(
    data_dir: Path, identity: FolderIdentity | None, keys: KeyRingHandle | None, problems: list[str]
) -> StoppedLog:
    files = [
        (int(match[1], 16), _content(path, problems))
        for path in sorted(data_dir.iterdir())
        if (match := _SEGMENT.fullmatch(path.name))
    ]
    mark = _content(data_dir / "mark", problems) if (data_dir / "mark").is_file() else b""
    owner = 0 if identity is None else identity.incarnation
    former = 0 if identity is None else identity.former
    log = StoppedLog(files, mark, owner=owner, void_owner=former, keys=keys)
    if former and log.last < log.first and log.foreign_files:
        problems.append(f"{data_dir} has the log of the incarnation before only, which lost its end: it is read")
        log = StoppedLog(files, mark, owner=former, keys=keys)
    if log.status == statuses.NEWER_FORMAT:
        raise NewerFormat(
            f"source: the log in {data_dir} was written by a newer version of raftmeta: use that one", field="source"
        )
    if log.status == statuses.NO_KEY:
        raise missing(data_dir, keys_of_folder(data_dir), keys)
    if log.status:
        raise error_from_status(log.status, detail=str(data_dir))
    if log.foreign_files:
        problems.append(f"{data_dir}: {log.foreign_files} files of the log belong to another node and were passed over")
    if log.lost_batches:
        problems.append(f"{data_dir}: {log.lost_batches} writes of the log are gone without a trace")
    return log


def _content(path: Path, problems: list[str]) -> bytes:
    """The file's bytes; zeros where the disk cannot be read."""
    content = bytearray()
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN_NO_LINK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        problems.append(f"{path} is a symbolic link and was passed over")
        return b""
    with open(descriptor, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        unreadable = 0
        while len(content) < size:
            try:
                piece = os.pread(file.fileno(), _READ_BYTES, len(content))
            except OSError:
                piece = _sectors(file.fileno(), len(content), min(size, len(content) + _READ_BYTES))
                unreadable += 1
            if not piece:
                break
            content += piece
    if unreadable:
        problems.append(f"{path}: the disk cannot read {unreadable} of its regions; the rest is used")
    return bytes(content)


def _sectors(file: int, begin: int, end: int) -> bytes:
    found = bytearray()
    for offset in range(begin, end, _SECTOR_BYTES):
        length = min(_SECTOR_BYTES, end - offset)
        try:
            piece = os.pread(file, length, offset)
        except OSError:
            piece = b""
        found += piece.ljust(length, b"\0")
    return bytes(found)


# --- copies of the state ----------------------------------------------------------------------------------------------
def _copies(disk: FolderDisk, data_dir: Path, keys: KeyRingHandle | None, problems: list[str]) -> list[StateCopy]:
    """The checkpoint, and all sealed files: an older one serves if the checkpoint turns out to be damaged."""
    found = [_checkpoint(data_dir, keys, problems)]
    names = sorted((path.name for path in data_dir.iterdir() if _SEALED.fullmatch(path.name)), reverse=True)
    found += [_sealed(disk, data_dir / name, problems) for name in names]
    copies = [copy for copy in found if copy is not None]
    return sorted(copies, key=lambda copy: copy.point[0], reverse=True)


def _checkpoint(data_dir: Path, keys: KeyRingHandle | None, problems: list[str]) -> StateCopy | None:
    path = data_dir / "checkpoint"
    if path.is_symlink() or (path / "data.mdb").is_symlink():
        problems.append(f"{path} is or has a symbolic link and was passed over")
        return None
    if not (path / "data.mdb").is_file():
        return None
    store = CheckpointStore(path, is_read_only=True, keys=keys)
    try:
        manifest = store.open()
    except CheckpointNewerFormat as error:
        raise NewerFormat(f"source: {path}: {error}", field="source") from None
    except CheckpointError as error:
        problems.append(f"{path} is damaged ({error})")
        return None
    finally:
        store.close()
    if manifest is None:
        return None

    def load() -> MachineHandle:
        store = CheckpointStore(path, is_read_only=True, keys=keys)
        try:
            if store.open() != manifest:
                raise CopyDamaged(f"{path} has changed meanwhile")
            return _machine(store.records(), manifest.index, (manifest.state_hash_low, manifest.state_hash_high))
        except CheckpointError as error:
            raise CopyDamaged(f"{path} is damaged ({error})") from None
        finally:
            store.close()

    return StateCopy(
        path=path,
        point=(manifest.index, manifest.term, manifest.chain),
        wall_ms=manifest.wall_ms,
        membership=manifest.membership,
        membership_index=manifest.membership_index,
        cluster=(manifest.cluster_low, manifest.cluster_high),
        load=load,
    )


def _sealed(disk: FolderDisk, path: Path, problems: list[str]) -> StateCopy | None:
    reader = SealedReaderHandle(disk)
    status = reader.open(path.name)
    if status == statuses.NEWER_FORMAT:
        raise NewerFormat(f"source: {path} was written by a newer version of raftmeta", field="source")
    if status:
        problems.append(f"{path} is damaged, or was never finished")
        return None
    point, cluster, membership, _, wall_ms = reader.header
    membership_index = reader.membership_index
    state_hash = reader.footer[3]
    reader.close()

    def load() -> MachineHandle:
        reader = SealedReaderHandle(disk)
        try:
            if reader.open(path.name):
                raise CopyDamaged(f"{path} is damaged")
            return _machine(_chunks(reader, path), point[0], state_hash)
        finally:
            reader.close()

    return StateCopy(path, point, wall_ms, membership, membership_index, cluster, load)


def _chunks(reader: SealedReaderHandle, path: Path) -> Iterator[bytes]:
    while True:
        status, records = reader.next()
        if status == statuses.NOT_FOUND:
            return
        if status:
            raise CopyDamaged(f"{path} is damaged")
        yield records


def _machine(chunks: Iterator[bytes], applied: int, state_hash: tuple[int, int]) -> MachineHandle:
    machine = MachineHandle(**MACHINE_LIMITS)
    if any(machine.load_chunk(records) for records in chunks) or machine.load_done():
        raise CopyDamaged("its records are no state")
    status = machine.status()
    if status.applied != applied or status.state_hash != state_hash[0] | state_hash[1] << 64:
        raise CopyDamaged("it is another state than it says")
    return machine
