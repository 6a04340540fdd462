"""Disks and the log as Python objects, for tests and benchmarks; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from collections.abc import Sequence

from raftmeta.storage import storage_handle
from raftmeta.storage.storage_handle import Point

class DiskCalls:
    """The calls of a DiskPort; each raises DiskError unless its status is OK."""

    def open(self, name: str, *, create: bool = False) -> int:
        """Return the handle of a file."""
    def close_file(self, file: int) -> None:
        """Give up a handle."""
    def size(self, file: int) -> int:
        """Return the size in bytes."""
    def read(self, file: int, offset: int, length: int) -> bytes:
        """Return up to length bytes, fewer only at the end of the file."""
    def write(self, file: int, offset: int, *parts: bytes) -> None:
        """Write all parts one after another."""
    def sync(self, file: int) -> None:
        """Make a file's bytes durable."""
    def truncate(self, file: int, size_bytes: int) -> None:
        """Cut or extend a file."""
    def rename(self, source: str, target: str) -> None:
        """Rename, replacing the target."""
    def remove(self, name: str) -> None:
        """Remove a name."""
    def sync_directory(self) -> None:
        """Make created, renamed and removed names durable."""
    def list_names(self) -> list[str]:
        """Return all names, sorted."""
    def free_bytes(self) -> int:
        """Return the room for new data in bytes."""

class FolderDisk(DiskCalls, storage_handle.FolderDisk):
    """A folder of the file system; created when it does not exist."""

    def close_in_child(self) -> None:
        """Close the descriptors of a fork child; the parent keeps its lock."""

def make_record(index: int, term: int, payload: bytes, *, previous_chain: int = 0) -> tuple[bytes, int]:
    """Return a sealed record and its chain hash."""

def split_records(data: bytes) -> list[bytes]:
    """Return the records that stand one after another in data."""

def record_fields(data: bytes) -> tuple[int, int, int, bytes]:
    """Return (index, term, chain, payload) of one record."""

class OpenedLog:
    """The findings of wal_open (WalOpened); states are numbers of WalState."""

    status: int
    state: int
    hard_state: Point
    start: Point
    membership: bytes
    membership_index: int
    first: int
    last: int
    records: list[bytes]
    damaged: list[tuple[int, int]]
    dropped_bytes: int

class WalHandle:
    """A log over a disk; every method returns a status, alone or first."""

    def __init__(
        self,
        disk: storage_handle.Disk,
        *,
        segment_bytes: int = 65536,
        log_bytes_max: int = 0,
        reserve_bytes: int = 0,
        alignment_bytes: int = 512,
        owner: int = 0,
        void_owner: int = 0,
        seed: int = 1,
    ) -> None: ...
    @property
    def broken(self) -> tuple[int, int, int]:
        """The first belief that proved wrong (raftmeta/common/invariants), and its two numbers; 0: none."""
    def close(self) -> None:
        """Close the files; the handle must not be used any more."""
    def open(self) -> OpenedLog:
        """Read, check and settle what is there."""
    def begin(
        self,
        point: Point = (0, 0, 0),
        hard_state: Point = (0, 0, 0),
        membership: bytes = b"",
        membership_index: int = 0,
    ) -> int:
        """Begin the stream after point."""
    def append(
        self,
        first: int,
        slices: Sequence[bytes] = (),
        *,
        last: int | None = None,
        hard_state: Point | None = None,
        write_id: int = 0,
        membership: bytes = b"",
        membership_index: int = 0,
        is_urgent: bool = False,
        repairs: bool = False,
    ) -> int:
        """Make one batch durable; slices are whole records, last follows from them unless given."""
    def read(self, index: int, bytes_max: int = 65536) -> tuple[int, list[bytes]]:
        """Return (status, records from index on)."""
    def compact(self, point: Point) -> int:
        """Remove segments whose records are all at or below point."""
    def prepare(self, bytes_max: int = ...) -> tuple[int, bool]:
        """Zero and sync up to bytes_max of the spare or the reserve; return (status, whether both are complete)."""
    def idle(self) -> int:
        """Make the mark durable."""
    def check_runs(self) -> int:
        """Look whether each live record is in one run, or known to be damaged."""
    def forget_run(self) -> None:
        """Forget where the newest records stand, as a mistake would."""
    def number_segments_from(self, number: int) -> None:
        """Give this number to the next segment, as a mistake would."""
    def free_bytes(self) -> int:
        """Return the room for new records in bytes."""
