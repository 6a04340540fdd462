"""Backups: a consistent copy of all data in one file, its inspection, and a new cluster made from it.

    raftmeta.snapshot.save(node, "backup.sealed")           # or a raftmeta.Client, in any process
    raftmeta.snapshot.save(["/old/a"], "backup.sealed")     # or the data left in the folders of stopped nodes
    raftmeta.snapshot.inspect("backup.sealed").revision
    raftmeta.snapshot.restore("backup.sealed", "/new/a", "a", {"a": "h1:7000", "b": "h2:7000", "c": "h3:7000"})

A file holds the whole state after one entry: keys, history, leases, sessions (docs/formats.md "Sealed file"). Restoring
makes another cluster: all data, history and revisions go on, but the cluster id is new. The new cluster refuses nodes
of the old one, and the old cluster refuses nodes of the new one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

from raftmeta.client.aio import Client as AioClient
from raftmeta.client.backup import Progress
from raftmeta.client.sync import Client
from raftmeta.common import statuses
from raftmeta.config import Config, Identity, check_path
from raftmeta.errors import ConfigError, InvalidArgument, NewerFormat, SnapshotDamaged, error_from_status
from raftmeta.face.backups import BackupFile, check_file, sealed_path
from raftmeta.face.base import NodeBase
from raftmeta.face.salvaging import Salvaged, SalvagedFolder, salvage
from raftmeta.security.cipher_handle import KeyRingHandle
from raftmeta.security.encryption import Encryption, missing, ring_of, shown_id
from raftmeta.storage.checkpoint import sync_directory
from raftmeta.storage.keys_in_use import HEAD_BYTES
from raftmeta.storage.storage_handle import key_id_of_head

__all__ = ["Salvaged", "SalvagedFolder", "SnapshotInfo", "SnapshotMember", "inspect", "restore", "save", "verify"]

_FILE_NAME_BYTES_MAX = 63
_WORKING_SUFFIX = ".restoring"
_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SnapshotMember:
    """A member of the cluster when the snapshot was made."""

    name: str
    address: str
    is_voter: bool


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """The content of a snapshot file.

    index, term: of its last entry. wall_ms: when that entry was written, milliseconds since 1970, for people.
    key_id: of the key that the file is encrypted with; "": it is plain.
    revision, compacted: history goes from compacted to revision. cluster_id, state_hash: 32 hex digits.
    """

    cluster_id: str
    index: int
    term: int
    wall_ms: int
    revision: int
    compacted: int
    keys: int
    leases: int
    sessions: int
    history_bytes: int
    feature_level: int
    state_hash: str
    file_bytes: int
    records: int
    key_id: str
    members: tuple[SnapshotMember, ...]


@overload
def save(
    source: NodeBase | Client,
    path: str | Path,
    *,
    timeout_s: float | None = 60.0,
    on_progress: Progress | None = None,
) -> None: ...
@overload
def save(
    source: AioClient,
    path: str | Path,
    *,
    timeout_s: float | None = 60.0,
    on_progress: Progress | None = None,
) -> Coroutine[Any, Any, None]: ...
@overload
def save(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | Path,
    *,
    timeout_s: float | None = 60.0,
    on_progress: Progress | None = None,
    committed_only: bool = False,
    encryption: Encryption | None = None,
) -> Salvaged: ...
def save(
    source: NodeBase | Client | AioClient | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    path: str | Path,
    *,
    timeout_s: float | None = 60.0,
    on_progress: Progress | None = None,
    committed_only: bool = False,
    encryption: Encryption | None = None,
) -> Coroutine[Any, Any, None] | Salvaged | None:
    """Write a snapshot of all data to path while writes go on; durable on return.

    The file holds every write that was acknowledged anywhere before the call. It holds each write under way whole or
    not at all. The node writes the file into its own folder first, which needs room, too.
    source: a Node; or a Client of any node, which gets the file piece by piece and checks it as by verify() before it
        counts. Both block: on an event loop use asyncio.to_thread(), or an aio.Client and await the result.
        Or at least one folder of stopped nodes of one cluster. Then the file holds all that is left in the folders, the
        copy of the state and the log behind it, and the call returns Salvaged. It changes nothing in the folders.
    path: the new file replaces an existing one once it is complete; its name is at most 63 bytes.
    timeout_s: wall time until there is a file to copy, in seconds; None: no limit. It does not bind folders.
    on_progress: called with the bytes so far and the bytes in all, on whichever thread copies; not for folders.
    committed_only: for folders, leave out the entries that are not certainly committed. These may include acknowledged
        writes (docs/operations.md "A majority of the disks is lost").
    encryption: for folders, the keys of encrypted ones. Its current key encrypts the file, too.
    A node with encryption gives a file that is encrypted with its key: keep the key with the backup, in another place.
    Raises InvalidArgument. Raises NotExecuted (NotReady, NodeClosed, Withdrawn: not within timeout_s, as on a full
    disk), OSError from writing path, or SnapshotDamaged from a client or a folder: there is no new file at path.
    """
    if committed_only and _folders(source) is None:
        raise InvalidArgument("committed_only: a running cluster gives committed entries only", field="committed_only")
    if encryption is not None and _folders(source) is None:
        raise InvalidArgument("encryption: a running node encrypts the file as its own files are", field="encryption")
    if isinstance(source, AioClient):
        return _save_from(source, path, timeout_s, on_progress)
    folders = _folders(source)
    if folders is not None:
        return _salvage(folders, _named(path), committed_only, encryption)
    if not isinstance(source, NodeBase | Client):
        raise InvalidArgument(
            f"source: must be a Node, a Client, an aio.Client or folders, not {type(source).__name__}", field="source"
        )
    with _NewFile(path) as new:
        if isinstance(source, Client):
            source.fetch_snapshot(new.sink, timeout_s=timeout_s, on_progress=on_progress)
            new.check()
        else:
            with _sealed_file(source, timeout_s) as sealed:
                _copy(sealed, new.sink, on_progress)
        new.keep()
    return None


async def _save_from(
    client: AioClient, path: str | Path, timeout_s: float | None, on_progress: Progress | None
) -> None:
    with _NewFile(path) as new:
        await client.fetch_snapshot(new.sink, timeout_s=timeout_s, on_progress=on_progress)
        await asyncio.to_thread(new.check)
        await asyncio.to_thread(new.keep)


def _folders(source: object) -> list[Path] | None:
    """The folders that source names; None if it names none."""
    if isinstance(source, str | os.PathLike):
        return [Path(source)]
    if isinstance(source, list | tuple) and all(isinstance(one, str | os.PathLike) for one in source):
        return [Path(one) for one in source]
    return None


def _salvage(folders: list[Path], target: Path, committed_only: bool, encryption: Encryption | None) -> Salvaged:
    working = Path(tempfile.mkdtemp(prefix=".saving-", suffix=".tmp", dir=target.absolute().parent))
    try:
        salvaged = salvage(folders, working / target.name, committed_only=committed_only, encryption=encryption)
        verify(working / target.name, encryption=encryption)
        (working / target.name).replace(target)
        sync_directory(target.absolute().parent)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return salvaged


class _NewFile:
    """A file that takes its place when it is kept; otherwise it does not exist."""

    def __init__(self, path: str | Path) -> None:
        self._target = _named(path)
        handle, working = tempfile.mkstemp(prefix=".saving-", suffix=".tmp", dir=self._target.absolute().parent)
        self._working = Path(working)
        self.sink: BinaryIO = os.fdopen(handle, "w+b")

    def check(self) -> None:
        """Raises SnapshotDamaged. Who saves an encrypted file need not have its key: then its checksums are checked."""
        self.sink.flush()
        verify(self._working, checksums_only=bool(_key_of(self._working)))

    def keep(self) -> None:
        self.sink.flush()
        os.fsync(self.sink.fileno())
        self._working.replace(self._target)
        sync_directory(self._target.absolute().parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.sink.close()
        self._working.unlink(missing_ok=True)


def _copy(source: BinaryIO, sink: BinaryIO, on_progress: Progress | None) -> None:
    size = os.fstat(source.fileno()).st_size
    done = 0
    while piece := source.read(_COPY_BYTES):
        done += sink.write(piece)
        if on_progress is not None:
            on_progress(done, size)


def _sealed_file(node: NodeBase, timeout_s: float | None) -> BinaryIO:
    """A newer file may have made the node remove this one; then there is a newer one to open."""
    while True:
        try:
            return Path(sealed_path(node, timeout_s)).open("rb")
        except FileNotFoundError:
            continue


def _named(path: str | Path) -> Path:
    try:
        check_path(path, "path")
    except ConfigError as error:
        raise InvalidArgument(str(error), field="path") from None
    if len(os.fsencode(Path(path).name)) > _FILE_NAME_BYTES_MAX:
        raise InvalidArgument(f"path: the file's name is longer than {_FILE_NAME_BYTES_MAX} bytes", field="path")
    return Path(path)


def _key_of(path: str | Path) -> int:
    """The id of the key of an encrypted file; 0: it is plain, or damaged."""
    with Path(path).open("rb") as file:
        return key_id_of_head(file.read(HEAD_BYTES)) or 0


def _check(status: int, path: str | Path, keys: KeyRingHandle | None = None) -> None:
    if status == statuses.CORRUPT:
        raise SnapshotDamaged(f"path: {path} is not a whole snapshot: use another copy of it", field="path")
    if status == statuses.NEWER_FORMAT:
        raise NewerFormat(f"path: {path} was written by a newer version of raftmeta", field="path")
    if status == statuses.NO_KEY:
        raise missing(Path(path), [_key_of(path)], keys)
    if status:
        raise error_from_status(status, detail=str(path))


def _is_there(path: str | Path) -> None:
    if not _named(path).is_file():
        raise InvalidArgument(f"path: there is no file {path}", field="path")


def _load(path: str | Path, encryption: Encryption | None) -> BackupFile:
    _is_there(path)
    backup = BackupFile()
    keys = ring_of(encryption, lambda: [_key_of(path)])
    _check(backup.load(str(path), keys), path, keys)
    return backup


def inspect(path: str | Path, *, encryption: Encryption | None = None) -> SnapshotInfo:
    """Read and check the whole file at path and return its content; takes the memory of the state meanwhile.

    encryption: the key of an encrypted file.
    Raises InvalidArgument: there is no such file. Raises SnapshotDamaged: a checksum, a record or the state hash is
    wrong, or the file was never finished. Raises NewerFormat, EncryptionKeyMissing.
    """
    backup = _load(path, encryption)
    members = tuple(SnapshotMember(*member) for member in backup.members())
    key_id = _key_of(path)
    return SnapshotInfo(members=members, key_id=shown_id(key_id) if key_id else "", **backup.facts())


def verify(path: str | Path, *, encryption: Encryption | None = None, checksums_only: bool = False) -> None:
    """Read and check the whole file at path: every checksum, every record, and the hash of the state they make.

    encryption: the key of an encrypted file. checksums_only: check the checksums alone, which needs no key.
    Raises as inspect().
    """
    if checksums_only:
        _is_there(path)
        _check(check_file(str(path)), path)
    else:
        _load(path, encryption)


def restore(
    path: str | Path,
    data_dir: str | Path,
    name: str,
    peers: Mapping[str, str],
    *,
    cluster: str = "default",
    token: str = "",
    config: Config | None = None,
    encryption: Encryption | None = None,
) -> None:
    """Make data_dir the folder of member `name` of a new cluster with all data of the snapshot at path.

    name, peers, cluster: as for Node(), which you then start with the folder. Call restore() once for each name in
        peers, from the same file and with the same token; the members find each other, without another founding.
    token: any text. The new cluster's id follows from file, names and token. Give another token when you restored the
        same file for the same names before, so that the new cluster refuses the rest of that attempt.
    config: sizes of the log's files; the default Config if not given.
    encryption: the key of an encrypted file. Its current key encrypts the files of the folder; without encryption they
        are plain.

    Keys, history, revisions and leases go on; leases have their full time again. Sessions do not: a client opens a new
    one, and the new cluster does not know operations that were under way in the old one. On return the folder is
    complete and durable; after an error there is none.
    Raises ConfigError: an argument is wrong, or data_dir is there and not empty; nothing was touched. Raises
    InvalidArgument, SnapshotDamaged, NewerFormat: as inspect(). Raises NoSpace, DiskFailed.
    """
    config = Config() if config is None else config
    # A folder is made where it will not be listened: any address is allowed here, and checked again by Node().
    identity = Identity.check(
        name,
        peers=peers,
        data_dir=data_dir,
        listen="127.0.0.1:1",
        advertise=None,
        cluster=cluster,
        config=config,
    )
    target = identity.data_dir
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"data_dir: {target} is not empty; nothing in it was touched", field="data_dir")
    if not target.parent.is_dir():
        raise ConfigError(f"data_dir: the folder above {target} does not exist", field="data_dir")
    backup = _load(path, encryption)
    working = target.with_name(target.name + _WORKING_SUFFIX)
    shutil.rmtree(working, ignore_errors=True)
    try:
        status = backup.restore(
            str(working),
            name,
            {peer: str(address) for peer, address in identity.peers.items()},
            cluster=cluster,
            token=token,
            segment_bytes=config.segment_bytes,
            wal_bytes_max=config.wal_bytes_max,
            reserve_bytes=config.reserve_bytes,
            keys=ring_of(encryption, tuple),
        )
        if status:
            raise error_from_status(status, detail=str(working))
        working.rename(target)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    sync_directory(target.parent)
