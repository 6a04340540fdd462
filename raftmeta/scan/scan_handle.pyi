"""Rows of sealed files and messages as buffers of Arrow columns; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

class ColumnsHandle:
    """Rows that wait to be taken. wanted: bits 1 << COLUMN_ of raftmeta/scan/columns.pxd."""

    def __init__(self, wanted: int) -> None: ...
    @property
    def rows(self) -> int:
        """How many there are."""
    @property
    def byte_count(self) -> int:
        """Of their keys and values."""
    def take(self) -> dict[int, tuple[int, tuple[bytes | None, ...]]]:
        """By column its nulls and its buffers, validity first; then there are no rows."""

class SnapshotHandle:
    """One sealed file, read a chunk at a time. One range of rows is under way at a time."""

    def __init__(self) -> None: ...
    def open(self, path: str) -> int:
        """Check header, footer and the head of the state; return a status. Once."""
    @property
    def offset(self) -> int:
        """Where in the file the chunk begins that is read next, or that was found damaged, after open() was OK."""
    def facts(self) -> dict[str, int | str]:
        """Index, revision, floor of the history, lease clock, time, and the digest by which the file is known again."""
    def members(self) -> tuple[int, list[tuple[str, int, str, int]]]:
        """A status, and (name, id, address, roles) of each member."""
    def leases(self) -> tuple[int, list[tuple[int, int, int, bytes]]]:
        """A status, and (id, ttl_ms, deadline_ms, note) of each lease."""
    def survey(self, bytes_each: int) -> tuple[int, list[tuple[int, int]], list[bytes]]:
        """A status, the (place, revision) where reading of the history may begin, and keys that cut the state."""
    def keys_begin(self, start: bytes, stop: bytes, revision: int) -> int:
        """Go to the keys of [start, stop) as of a revision from the floor to the newest; return a status."""
    def keys_next(self, into: ColumnsHandle, rows_max: int, bytes_max: int) -> int:
        """Append rows until there are so many; return a status, NOT_FOUND after the last one."""
    def changes_begin(self, start: bytes, stop: bytes, place: int | None, low: int, high: int) -> int:
        """Go to the changes of (low, high] in [start, stop); place: from survey, None: where the history begins."""
    def changes_next(self, into: ColumnsHandle, rows_max: int, bytes_max: int) -> int:
        """Append rows until there are so many; return a status, NOT_FOUND after the last one."""
    def previous_begin(self, start: bytes, stop: bytes, low: int, high: int) -> int:
        """Find the changes of (low, high] in [start, stop) and the record before each; holds the history in memory."""
    def previous_next(self, into: ColumnsHandle, rows_max: int, bytes_max: int) -> int:
        """Append those until there are so many; return a status, NOT_FOUND after the last one."""

class FeedHandle:
    """The changes of (low, high] out of a watch of all keys; those in [start, stop) become rows."""

    def __init__(self, low: int, high: int, start: bytes, stop: bytes) -> None: ...
    @property
    def next_revision(self) -> int:
        """From which the watch is to be opened."""
    @property
    def told(self) -> int:
        """The revision that ended the watch, or did not follow."""
    @property
    def is_whole(self) -> bool:
        """No change of next_revision was taken."""
    def begin_again(self) -> None:
        """The watch is opened again from next_revision."""
    def take(self, body: bytes, into: ColumnsHandle) -> int:
        """Take the items of a message; return a status, NOT_FOUND when high is whole."""

def take_page(body: bytes, revision: int, into: ColumnsHandle) -> tuple[int, bool, bytes]:
    """Take a page of a range: a status, whether there is more, and the last key. Raises MemoryError."""
