"""What can be wrong with a source: it is damaged, or it holds what cannot be migrated.

A source is somebody's data: it is never mended here. Every error names the file and the byte at which reading stopped,
and what can be done; a state that is not certain is never given out as one.
"""

from __future__ import annotations

from pathlib import Path

from raftmeta import InvalidArgument, RaftmetaError, Refused

__all__ = ["NotMigratable", "SourceDamaged", "wrong_source"]


class SourceDamaged(RaftmetaError):
    """A file of the source is not what was written. path: the file. offset: of the first byte that makes no sense."""

    def __init__(self, path: Path, offset: int, what: str, advice: str = "") -> None:
        super().__init__(f"{path}, byte {offset}: {what}" + (f"; {advice}" if advice else ""))
        self.path = path
        self.offset = offset


class NotMigratable(Refused):
    """The source is sound and holds what the store or the options do not allow; nothing was written.

    count: how much of it.
    """

    def __init__(self, message: str, *, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


def wrong_source(message: str) -> InvalidArgument:
    """The error for a path that is no source of this kind at all."""
    return InvalidArgument(f"source: {message}", field="source")
