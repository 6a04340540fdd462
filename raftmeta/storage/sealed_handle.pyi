"""The sealed file as Python objects, for Python code that has no node; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from raftmeta.storage.storage_handle import Disk, Point

class SealedWriterHandle:
    """Writes one file: begin, chunks, then seal; every method returns a status."""

    def __init__(self, disk: Disk) -> None: ...
    def begin(
        self,
        name: str,
        *,
        point: Point = (0, 0, 0),
        cluster: tuple[int, int] = (0, 0),
        membership: bytes = b"",
        feature_level: int = 1,
        wall_ms: int = 0,
        membership_index: int = 0,
    ) -> int:
        """Start the working file."""
    def chunk(self, records: bytes, *, count: int = 1, split_key: bytes | None = None) -> int:
        """Append a chunk of count records; readers may begin at it when split_key is given."""
    def seal(self, *, state_hash: tuple[int, int] = (0, 0)) -> int:
        """Write the footer and make the file durable under its name."""

class SealedReaderHandle:
    """Reads one file, a chunk at a time."""

    def __init__(self, disk: Disk) -> None: ...
    def open(self, name: str) -> int:
        """Check header and footer; return a status."""
    @property
    def header(self) -> tuple[Point, tuple[int, int], bytes, int, int]:
        """(point, cluster id, encoded membership, feature level, wall_ms)"""
    @property
    def membership_index(self) -> int:
        """Index of the entry that carries the membership."""
    @property
    def footer(self) -> tuple[int, int, int, tuple[int, int]]:
        """(chunks, records, bytes of records, state hash)"""
    def next(self) -> tuple[int, bytes]:
        """Return (status, chunk); NOT_FOUND after the last one."""
    def close(self) -> None:
        """Close the file."""
