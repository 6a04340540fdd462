"""An etcd 3.5 database as a source: the keys as of its last revision, or every revision that it still has.

It decides what a row means (main revision, "_", sub revision, "t" for a tombstone) and whether etcd wrote the file:
`etcdctl snapshot save` appends a SHA-256, and only this checks every byte. A file copied from a data folder has no
hash. It is read only if the caller says so, and lacks changes that etcd had not yet committed to it.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from raftmeta.migrate.bolt import BoltFile
from raftmeta.migrate.closing import Closing
from raftmeta.migrate.etcd_handle import changes_of, fold
from raftmeta.migrate.items import Item
from raftmeta.migrate.problems import SourceDamaged, wrong_source
from raftmeta.migrate.scratch import Scratch

__all__ = ["EtcdChange", "EtcdSource"]

HASH_BYTES = 32
SECTOR = 512  # a database is whole pages; with the hash behind it, it is 32 bytes more
BATCH_ROWS = 4096
BATCH_BYTES = 8 << 20
DATA_FILE = Path("member", "snap", "db")
_ROW = struct.Struct("=QQQQ")  # create revision, mod revision, version, lease; then the value: as fold() makes it
T = TypeVar("T")


class EtcdChange(NamedTuple):
    """One change of one key. revision, sub: its revision and its place there. is_delete: then only the key counts."""

    revision: int
    sub: int
    key: bytes
    value: bytes
    create_revision: int
    version: int
    lease: int
    is_delete: bool


class EtcdSource(Closing):
    """The keys of an etcd database; as a context its temporary files are removed.

    path: a file of `etcdctl snapshot save`, or with allow_unhashed a copy of member/snap/db, or the data folder of an
    etcd that is stopped. leases: False leaves out keys that are attached to a lease. scratch: where a temporary
    folder is made. on_progress: called with the rows read so far, and 0.
    Raises InvalidArgument: there is nothing of that kind. Raises SourceDamaged: it is damaged.
    """

    kind = "etcd"
    root = b""

    def __init__(
        self,
        path: str | Path,
        *,
        allow_unhashed: bool = False,
        leases: bool = True,
        scratch: str | Path | None = None,
        on_progress: Callable[[int, int], object] = lambda done, size: None,
    ) -> None:
        self.warnings: list[str] = []
        self.dropped: Counter[str] = Counter()
        self.path = _find(Path(path))
        self.revision = 0
        self.rows = 0
        self._has_leases = leases
        self._on_progress = on_progress
        size = self._check_hash(allow_unhashed)
        self._file = BoltFile(self.path, size=size)
        try:
            self._read_side_buckets()
            self._scratch = Scratch(scratch)
            try:
                self._fold()
            except BaseException:
                self._scratch.close()
                raise
        except BaseException:
            self._file.close()
            raise
        self.position = f"revision {self.revision}"

    # --- reading ------------------------------------------------------------------------------------------------------

    def _check_hash(self, allow_unhashed: bool) -> int:
        """The number of bytes that are the database."""
        size = self.path.stat().st_size
        if size % SECTOR != HASH_BYTES:
            if not allow_unhashed:
                raise SourceDamaged(
                    self.path,
                    size,
                    "there is no SHA-256 at its end, so damage could not be noticed",
                    "use a file of `etcdctl snapshot save`, or allow a file without one (--skip-hash-check)",
                )
            self.warnings.append(
                f"{self.path} carries no checksum: damage within values goes unnoticed, and what etcd wrote to its "
                "log only is not in it"
            )
            return size
        with self.path.open("rb") as file:
            digest = hashlib.sha256()
            left = size - HASH_BYTES
            while piece := file.read(min(1 << 20, left)):
                digest.update(piece)
                left -= len(piece)
            if digest.digest() != file.read(HASH_BYTES):
                raise SourceDamaged(self.path, size - HASH_BYTES, "the SHA-256 of the snapshot is wrong")
        return size - HASH_BYTES

    def _read_side_buckets(self) -> None:
        buckets = set(self._file.buckets())
        if b"key" not in buckets or b"meta" not in buckets:
            raise wrong_source(f"{self.path} is a bbolt database, but none of etcd 3: it has no bucket `key`")
        self._meta = dict(self._file.rows(b"meta"))
        self._leases = {}
        for key, value in self._file.rows(b"lease"):
            self._leases[_u64(self.path, key)] = _lease_ttl(self.path, value)
        for bucket, what in ((b"authUsers", "users"), (b"authRoles", "roles")):
            count = sum(1 for _ in self._file.rows(bucket))
            if count:
                self.dropped[what] = count
                self.warnings.append(f"{count} {what} of etcd's are not migrated: raftmeta has no users and rights yet")
        if alarms := sum(1 for _ in self._file.rows(b"alarm")):
            self.warnings.append(f"etcd has {alarms} alarms raised (`etcdctl alarm list`): look at them first")
        self._side_dropped = Counter(self.dropped)

    def changes(self) -> Iterator[EtcdChange]:
        """Every change in the database, in order of revisions; below the compaction only those of keys alive then."""
        for rows in self._file.leaves(b"key"):
            yield from map(EtcdChange._make, self._sound(changes_of, rows))

    def _fold(self) -> None:
        """The last change of each key counts; rows come in order of revisions."""
        last: dict[bytes, bytes] = {}
        size = 0
        for rows in self._file.leaves(b"key"):
            self.revision = self._sound(partial(fold, last=last), rows)
            self.rows += len(rows)
            size += sum(len(row) for _, row, _ in rows)
            if len(last) >= BATCH_ROWS or size > BATCH_BYTES:
                self._scratch.put_many(sorted(last.items()))
                self._on_progress(self.rows, 0)
                last, size = {}, 0
        self._scratch.put_many(sorted(last.items()))

    def _sound(self, read: Callable[[list[tuple[bytes, bytes, int]]], T], rows: list[tuple[bytes, bytes, int]]) -> T:
        try:
            return read(rows)
        except ValueError as error:
            raise SourceDamaged(self.path, 0, str(error)) from None

    # --- what is in it ------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[Item]:
        """All keys as of the last revision, in order."""
        dropped = Counter(self._side_dropped)
        for key, row in chain.from_iterable(self._scratch.rows()):
            create_revision, mod_revision, version, lease = _ROW.unpack_from(row)
            if not version:
                continue  # its last change is a deletion
            if lease and not self._has_leases:
                dropped["keys with a lease"] += 1
                continue
            metadata = f'{{"create_revision":{create_revision},"mod_revision":{mod_revision},"version":{version}'
            metadata += f',"lease":"{lease:x}"}}' if lease else "}"
            yield Item(key, row[_ROW.size :], metadata, lease)
        self.dropped = dropped

    def holders(self) -> Mapping[int, float]:
        """Times of the leases, in seconds."""
        return dict(self._leases)

    def facts(self) -> Mapping[str, int | str]:
        # From the moment when a compaction is scheduled etcd answers no read below it, whenever the rows are gone.
        compacted = (self._meta.get(name, b"") for name in (b"scheduledCompactRev", b"finishedCompactRev"))
        index = self._meta.get(b"consistent_index", b"")
        return {
            "file": str(self.path),
            "changes read": self.rows,
            "last revision": self.revision,
            "compacted revision": max(int.from_bytes(revision[:8], "big") for revision in compacted),
            "raft index": int.from_bytes(index, "big"),
            "leases": len(self._leases),
        }

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._scratch.close()
        self._file.close()


def _find(path: Path) -> Path:
    if path.is_dir():
        path = path / DATA_FILE
    if not path.is_file():
        raise wrong_source(f"there is no {path}")
    return path


# --- etcd api/v3 mvccpb kv.proto KeyValue, lease leasepb lease.proto Lease --------------------------------------------


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _lease_ttl(path: Path, row: bytes) -> float:
    numbers = {}
    position = 0
    try:
        while position < len(row):
            tag = row[position]
            numbers[tag], position = _varint(row, position + 1)
    except (IndexError, ValueError) as error:
        raise SourceDamaged(path, 0, f"a lease that makes no sense ({error})") from error
    return float(numbers.get(0x10, 0))


def _u64(path: Path, key: bytes) -> int:
    if len(key) != 8:
        raise SourceDamaged(path, 0, f"the id of a lease has {len(key)} bytes")
    return int.from_bytes(key, "big")
