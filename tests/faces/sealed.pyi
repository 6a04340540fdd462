"""The sealed file for tests; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from raftmeta.storage import sealed_handle

class SealedWriterHandle(sealed_handle.SealedWriterHandle):
    """A writer that may also stop half-way: begin, chunks, then seal or abandon."""

    @property
    def broken(self) -> tuple[int, int, int]:
        """The first belief that proved wrong (raftmeta/common/invariants), and its two numbers; 0: none."""
    def sync(self) -> int:
        """Make what was written so far durable, under no name yet."""
    def abandon(self) -> None:
        """Remove the working file."""

class SealedReaderHandle(sealed_handle.SealedReaderHandle):
    """A reader that may also go on from a split."""

    def splits(self) -> list[tuple[int, bytes]]:
        """Return (number of the chunk, first key) of every split."""
    def seek(self, position: int) -> int:
        """Go on from a split; return a status."""
