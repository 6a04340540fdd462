"""The local checkpoint: a base and what changed since, as checked rows of an LMDB environment.

It decides which layers a manifest names, when a new base is due, and whether a row is what was written. It
must never look into a record, keep a Python object for each key, repair, or believe LMDB that a page is undamaged (it
has no checksums: docs/formats.md "Checkpoint"). One thread at a time uses a store.

Why chunks and not a row for each key: LMDB copies whole pages, so that 1 % of the keys, changed here and there, would
rewrite a quarter of them (docs/decisions/state-tree.md "Checkpoints").

    store = CheckpointStore(folder)
    manifest = store.open()             None: there is none
    for records in store.records(): ...
    store.write(head, chunks, is_base=store.is_base_due())
    store.close()
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import lmdb

from raftmeta.native.native_handle import crc32c, hash128
from raftmeta.security.cipher_handle import KeyRingHandle
from raftmeta.storage.privacy import FILE_MODE, FOLDER_MODE, keep_private

FORMAT_MAGIC = 0x504B4352  # "RCKP" in file order
FORMAT_VERSION = 1
FORMAT_VERSION_ENCRYPTED = 2  # of a manifest with a layer that is encrypted
FORMAT_ROW_IS_ENCRYPTED = 1  # of the flags in a row's head
FORMAT_CONTEXT = b"raftmeta checkpoint"
FORMAT_BASE, FORMAT_DIFFERENCE = 1, 2
FORMAT_MAP_BYTES = 1 << 40  # set once: growing a map that is open is unsafe; takes address space, not room
MEMBERSHIP_BYTES_MAX = 16 * 1024
ROW_BYTES_MAX = 16 * 1024 * 1024 + 96
# One sync flushes no more than this: while a disk is at it, the log's own syncs wait (docs/decisions/state-tree.md).
# LMDB keeps what is not committed in memory, too.
TUNE_TRANSACTION_BYTES = 512 * 1024
TUNE_ROOM_BYTES = 16 * 1024 * 1024  # a disk with less is taken as full

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_MANIFEST_KEY = b"m"
_MANIFEST = struct.Struct("<IIB3xIQQQQQQQIIQQ")
_LAYER = struct.Struct("<QIIQQQQ")
_LAYER_KEY = struct.Struct("<Q")  # behind each layer, from FORMAT_VERSION_ENCRYPTED on
_CHUNK_KEY = struct.Struct(">cQI")
_ROW_HEAD = struct.Struct("<II")
_CRC_BEGIN = 8  # magic and checksum of the manifest are not covered


class CheckpointError(Exception):
    """A checkpoint could not be read or written; the one before, if there is one, is as it was."""


class CheckpointDamaged(CheckpointError):
    """A row is not what was written."""


class CheckpointKeyMissing(CheckpointError):
    """It is encrypted with a key that was not given. key_ids: of all keys that it needs."""

    def __init__(self, message: str, key_ids: frozenset[int]) -> None:
        super().__init__(message)
        self.key_ids = key_ids


class CheckpointNewerFormat(CheckpointError):
    """A newer version of raftmeta wrote it."""


class CheckpointNoSpace(CheckpointError):
    """The disk is full; it may be tried again."""


class CheckpointFailed(CheckpointError):
    """The disk failed: this store writes nothing any more (docs/decisions/log.md D5). errno: 0 is not known."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class CheckpointUnopened(CheckpointError):
    """The process has no file descriptor left: nothing was read or written, and it may be tried again."""

    def __init__(self, message: str, errno: int) -> None:
        super().__init__(message)
        self.errno = errno


@dataclass(frozen=True, slots=True)
class Layer:
    """A base or a difference: `chunks` rows under its number. key_id: 0: they are plain."""

    number: int
    chunks: int
    kind: int
    record_count: int
    record_bytes: int
    hash_low: int
    hash_high: int
    key_id: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state in a checkpoint, and the layers that make it."""

    cluster_low: int
    cluster_high: int
    index: int
    term: int
    chain: int
    wall_ms: int
    membership_index: int
    membership: bytes
    feature_level: int
    state_hash_low: int
    state_hash_high: int
    layers: tuple[Layer, ...] = ()

    def pack(self) -> bytes:
        """The row, as docs/formats.md "Checkpoint" has it."""
        version = FORMAT_VERSION_ENCRYPTED if any(layer.key_id for layer in self.layers) else FORMAT_VERSION
        fields = (
            version,
            len(self.layers),
            self.cluster_low,
            self.cluster_high,
            self.index,
            self.term,
            self.chain,
            self.wall_ms,
            self.membership_index,
            len(self.membership),
            self.feature_level,
            self.state_hash_low,
            self.state_hash_high,
        )
        row = bytearray(_MANIFEST.pack(FORMAT_MAGIC, 0, *fields) + self.membership)
        for layer in self.layers:
            row += _LAYER.pack(
                layer.number,
                layer.chunks,
                layer.kind,
                layer.record_count,
                layer.record_bytes,
                layer.hash_low,
                layer.hash_high,
            )
            if version == FORMAT_VERSION_ENCRYPTED:
                row += _LAYER_KEY.pack(layer.key_id)
        struct.pack_into("<I", row, 4, crc32c(bytes(row[_CRC_BEGIN:])))
        return bytes(row)

    @staticmethod
    def unpack(row: bytes) -> Manifest:
        """The manifest of a row. Raises CheckpointDamaged, CheckpointNewerFormat."""
        if len(row) < _MANIFEST.size:
            raise CheckpointDamaged(f"manifest: {len(row)} bytes are too few")
        magic, crc, version, layer_count, *head, membership_length, level, low, high = _MANIFEST.unpack_from(row)
        if magic != FORMAT_MAGIC or crc != crc32c(row[_CRC_BEGIN:]):
            raise CheckpointDamaged("manifest: wrong checksum")
        if version > FORMAT_VERSION_ENCRYPTED:
            raise CheckpointNewerFormat(f"manifest: version {version} is newer than {FORMAT_VERSION_ENCRYPTED}")
        layers_at = _MANIFEST.size + membership_length
        layer_bytes = _LAYER.size + (_LAYER_KEY.size if version == FORMAT_VERSION_ENCRYPTED else 0)
        if membership_length > MEMBERSHIP_BYTES_MAX or len(row) != layers_at + layer_count * layer_bytes:
            raise CheckpointDamaged("manifest: its lengths do not add up")
        membership = row[_MANIFEST.size : layers_at]
        layers = tuple(_layer_of(row[at : at + layer_bytes]) for at in range(layers_at, len(row), layer_bytes))
        if [layer.kind for layer in layers] != [FORMAT_BASE, *[FORMAT_DIFFERENCE] * (len(layers) - 1)]:
            raise CheckpointDamaged("manifest: not a base and differences")
        cluster_low, cluster_high, index, term, chain, wall_ms, membership_index = head
        return Manifest(
            cluster_low,
            cluster_high,
            index,
            term,
            chain,
            wall_ms,
            membership_index,
            membership,
            level,
            low,
            high,
            layers,
        )


def _layer_of(row: bytes) -> Layer:
    key = _LAYER_KEY.unpack_from(row, _LAYER.size) if len(row) > _LAYER.size else (0,)
    return Layer(*_LAYER.unpack_from(row), *key)


@contextmanager
def _told_apart(path: Path) -> Iterator[None]:
    """Errors of LMDB and the system as those of this module; path: of the checkpoint."""
    was_full = _is_full(path)
    try:
        yield
    except (lmdb.MapFullError, lmdb.DiskError) as error:
        raise CheckpointNoSpace(f"{path}: no room for a checkpoint: {error}") from error
    except (lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.VersionMismatchError) as error:
        raise CheckpointDamaged(f"{path}: {error}") from error
    except (lmdb.Error, OSError) as error:
        number = _errno_of(error)
        # A write that the full disk cut short is told by LMDB as an input/output error. There may be room again by now.
        if number in NO_ROOM or (isinstance(error, lmdb.Error) and (was_full or _is_full(path))):
            raise CheckpointNoSpace(f"{path}: no room for a checkpoint: {error}") from error
        if number in NO_DESCRIPTOR:
            raise CheckpointUnopened(f"{path}: {error}", number) from error
        raise CheckpointFailed(f"{path}: {error}", number) from error


def _errno_of(error: Exception) -> int:
    """Of the system or of LMDB, which tells it since 3.0; of an older one only what matters here. 0: not known."""
    if isinstance(error, OSError):
        return error.errno or 0
    known: int = getattr(error, "code", 0)
    return known or next((number for number in NO_DESCRIPTOR if os.strerror(number) in str(error)), 0)


def _is_full(path: Path) -> bool:
    """The disk; path itself may not be there yet."""
    there = path if path.exists() else path.parent
    return there.exists() and shutil.disk_usage(there).free < TUNE_ROOM_BYTES


def sync_directory(path: Path) -> None:
    """Sync a folder: files made, renamed or removed in it are durable on return. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hash_of(checksums: list[int]) -> tuple[int, int]:
    return hash128(struct.pack(f"<{len(checksums)}I", *checksums))


class CheckpointStore:
    """The checkpoint in one folder, which nobody else has open: the node's own lock guards it."""

    def __init__(
        self,
        path: Path,
        *,
        map_bytes: int = FORMAT_MAP_BYTES,
        is_read_only: bool = False,
        keys: KeyRingHandle | None = None,
    ) -> None:
        """Nothing is read or made before open(). map_bytes: for tests of a full map. is_read_only: for tools.

        keys: for the layers that are encrypted, and for those to come; None: all are plain.
        """
        self.path = path
        self.keys = keys
        self._is_read_only = is_read_only
        self.manifest: Manifest | None = None
        self._map_bytes = map_bytes
        self._environment: lmdb.Environment | None = None
        self._has_failed = False
        self._is_damaged = False
        self._must_sync_folder = False  # names that were made are not durable yet
        self._may_have_unnamed = True  # chunks of a layer that was never finished

    # --- reading ------------------------------------------------------------------------------------------------------
    def open(self) -> Manifest | None:
        """The manifest of the checkpoint that is there; None: none.

        Raises CheckpointDamaged, CheckpointNewerFormat, CheckpointKeyMissing, CheckpointFailed: nothing was changed. In
        the place of a damaged one write() puts a new one.
        """
        self.manifest = None
        if not (self.path / "data.mdb").exists():
            return None
        with (
            self._noting_damage(),
            _told_apart(self.path),
            self._open_environment().begin(buffers=True) as transaction,
        ):
            row = transaction.get(_MANIFEST_KEY)
            if row is not None:
                if len(row) > ROW_BYTES_MAX:
                    raise CheckpointDamaged(f"manifest: {len(row)} bytes are too many")
                manifest = Manifest.unpack(bytes(row))
                self._check_keys(manifest)
                self.manifest = manifest
        return self.manifest

    def _check_keys(self, manifest: Manifest) -> None:
        needed = frozenset(layer.key_id for layer in manifest.layers if layer.key_id)
        if any(self.keys is None or key_id not in self.keys for key_id in needed):
            raise CheckpointKeyMissing(f"{self.path} is encrypted, and its key was not given", needed)

    def _context(self, manifest: Manifest, key: bytes) -> bytes:
        """Authenticated with a chunk: whose state it is, and its place."""
        return FORMAT_CONTEXT + struct.pack("<QQ", manifest.cluster_low, manifest.cluster_high) + key

    def records(self) -> Iterator[bytes]:
        """All records, a chunk at a time: the base, then each difference. Raises CheckpointDamaged."""
        assert self.manifest is not None, "open() found none"
        with (
            self._noting_damage(),
            _told_apart(self.path),
            self._open_environment().begin(buffers=True) as transaction,
        ):
            for layer in self.manifest.layers:
                checksums: list[int] = []
                for number in range(layer.chunks):
                    key = _CHUNK_KEY.pack(b"c", layer.number, number)
                    row = transaction.get(key)
                    if row is None or not _ROW_HEAD.size < len(row) <= ROW_BYTES_MAX:
                        raise CheckpointDamaged(f"chunk {number} of layer {layer.number} is not there")
                    records = bytes(row[_ROW_HEAD.size :])
                    checksums.append(crc32c(records, seed=crc32c(key)))
                    flags = FORMAT_ROW_IS_ENCRYPTED if layer.key_id else 0
                    if _ROW_HEAD.pack(checksums[-1], flags) != bytes(row[: _ROW_HEAD.size]):
                        raise CheckpointDamaged(f"chunk {number} of layer {layer.number}: wrong checksum")
                    yield (
                        records if not layer.key_id else self._opened(layer, self._context(self.manifest, key), records)
                    )
                if _hash_of(checksums) != (layer.hash_low, layer.hash_high):
                    raise CheckpointDamaged(f"layer {layer.number}: wrong hash")

    def _opened(self, layer: Layer, context: bytes, sealed: bytes) -> bytes:
        assert self.keys is not None, "open() would have said so"
        try:
            return self.keys.open(layer.key_id, context, sealed)
        except ValueError:
            raise CheckpointDamaged(f"a chunk of layer {layer.number} is not what was encrypted there") from None

    # --- writing ------------------------------------------------------------------------------------------------------
    def is_base_due(self) -> bool:
        """Whether the next layer must be a base: there is none, the differences outgrew a quarter of it, or there is
        another key (or none) for new files now: the next checkpoint needs no older one."""
        if self.manifest is None or any(layer.key_id != self._current_key for layer in self.manifest.layers):
            return True
        base, *differences = self.manifest.layers
        return sum(layer.record_bytes for layer in differences) * 4 > base.record_bytes

    @property
    def _current_key(self) -> int:
        return 0 if self.keys is None else self.keys.current

    def write(self, head: Manifest, chunks: Iterable[tuple[bytes, int]], *, is_base: bool) -> Manifest:
        """Write the state `head`, whose layers do not count, as a new layer; return the manifest, durable.

        chunks: (records, how many) of the whole state, or with is_base=False of what changed since the manifest.
        An error that `chunks` raises goes through. Raises CheckpointNoSpace, CheckpointDamaged (found while writing),
        CheckpointFailed. After any error the checkpoint is the one before.
        """
        if self._has_failed:
            raise CheckpointFailed("a write failed before")
        if self._is_damaged:
            self.remove()
        kept = () if is_base or self.manifest is None else self.manifest.layers
        number = 1 + max((layer.number for layer in self.manifest.layers), default=0) if self.manifest else 1
        try:
            with self._noting_damage(), _told_apart(self.path):
                if self._may_have_unnamed:
                    self._remove_unnamed()
                self._may_have_unnamed = True
                self.manifest = self._write_layer(head, kept, number, chunks)
                self._may_have_unnamed = False
        except CheckpointFailed:
            self._has_failed = True
            raise
        return self.manifest

    def _write_layer(
        self, head: Manifest, kept: tuple[Layer, ...], number: int, chunks: Iterable[tuple[bytes, int]]
    ) -> Manifest:
        """In transactions of bounded size: what no manifest names is nobody's. The last is the step that counts: it
        replaces the manifest; that of a base removes all layers before."""
        checksums: list[int] = []
        record_count = record_bytes = pending_bytes = 0
        key_id = self._current_key  # of the whole layer, also if another one becomes the current key meanwhile
        flags = FORMAT_ROW_IS_ENCRYPTED if key_id else 0
        transaction = self._open_environment().begin(write=True)
        try:
            for records, count in chunks:
                if pending_bytes + len(records) > TUNE_TRANSACTION_BYTES and pending_bytes:
                    transaction.commit()
                    transaction = self._open_environment().begin(write=True)
                    pending_bytes = 0
                record_count += count
                record_bytes += len(records)
                pending_bytes += len(records)
                key = _CHUNK_KEY.pack(b"c", number, len(checksums))
                row = (
                    records
                    if self.keys is None or not key_id
                    else self.keys.seal(key_id, self._context(head, key), records)
                )
                checksums.append(crc32c(row, seed=crc32c(key)))
                transaction.put(key, _ROW_HEAD.pack(checksums[-1], flags) + row)
            kind = FORMAT_DIFFERENCE if kept else FORMAT_BASE
            layer = Layer(number, len(checksums), kind, record_count, record_bytes, *_hash_of(checksums), key_id)
            manifest = replace(head, layers=(*kept, layer))
            transaction.put(_MANIFEST_KEY, manifest.pack())
            if not kept:
                self._remove_rows(transaction, {number})
            transaction.commit()
        except BaseException:
            transaction.abort()
            raise
        return manifest

    def _remove_unnamed(self) -> None:
        named = {layer.number for layer in self.manifest.layers} if self.manifest else set()
        with self._open_environment().begin(write=True) as transaction:
            self._remove_rows(transaction, named)

    @staticmethod
    def _remove_rows(transaction: lmdb.Transaction, named: set[int]) -> None:
        """Named rows are passed over in one step: each step may wait for the GIL, and a base has hundreds of rows."""
        with transaction.cursor() as cursor:
            is_there = cursor.set_range(b"c")
            while is_there and cursor.key()[:1] == b"c":
                _, number, _ = _CHUNK_KEY.unpack(cursor.key())
                behind = _CHUNK_KEY.pack(b"c", number + 1, 0)
                is_there = cursor.set_range(behind) if number in named else cursor.delete()

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except CheckpointDamaged:
            self._is_damaged = True
            self.manifest = None
            raise

    # --- life ---------------------------------------------------------------------------------------------------------
    def remove(self) -> None:
        """Remove every file, durably. Raises CheckpointFailed."""
        self.close()
        self.manifest = None
        with _told_apart(self.path):
            if self.path.exists():
                self._must_sync_folder = True
                shutil.rmtree(self.path)
            if self._must_sync_folder:
                sync_directory(self.path.parent)
                self._must_sync_folder = False
        self._is_damaged = False

    def close(self) -> None:
        """Give the environment back; what was written stays. Safe to call twice."""
        if self._environment is not None:
            self._environment.close()
        self._environment = None

    def _open_environment(self) -> lmdb.Environment:
        if self._environment is not None:
            return self._environment
        if not (self.path / "data.mdb").exists():
            self._must_sync_folder = True
        if not self._is_read_only:
            self.path.mkdir(FOLDER_MODE, exist_ok=True)
            keep_private(self.path, FOLDER_MODE)
        # lock=False: the folder of the node is locked, and no reader ever runs beside the writer. Read-ahead stays on:
        # what is read is chunks of many pages, and after a power cut none of them is in memory (docs/performance.md).
        environment = lmdb.open(
            str(self.path),
            map_size=self._map_bytes,
            max_dbs=0,
            lock=False,
            # Behind the rows of a page would stand what else this process had in its memory: passwords, keys of TLS.
            meminit=True,
            mode=FILE_MODE,
            readonly=self._is_read_only,
        )
        try:
            if not self._is_read_only:
                keep_private(self.path / "data.mdb", FILE_MODE)
            if self._must_sync_folder:
                sync_directory(self.path)
                sync_directory(self.path.parent)
                self._must_sync_folder = False
            self._check_size(environment)
        except BaseException:
            environment.close()
            raise
        self._environment = environment
        return environment

    def _check_size(self, environment: lmdb.Environment) -> None:
        """LMDB would read behind the end of a file that was cut, and the process would end there."""
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        if (self.path / "data.mdb").stat().st_size < needed:
            raise CheckpointDamaged(f"data.mdb is shorter than the {needed} bytes it should have")
