"""The errors of a source: it is damaged, or it has content that cannot be migrated.

A source is somebody's data: nothing here mends it. Every error names the file and the byte at which reading stopped,
and what to do. A reader never gives out an uncertain state as a certain one.
"""

from __future__ import annotations

from pathlib import Path

from raftmeta import InvalidArgument, RaftmetaError, Refused

__all__ = ["NotMigratable", "SourceDamaged", "wrong_source"]


class SourceDamaged(RaftmetaError):
    """The bytes of a source differ from those that were written. path: the file. offset: of the first wrong byte."""

    def __init__(self, path: Path, offset: int, what: str, advice: str = "") -> None:
        super().__init__(f"{path}, byte {offset}: {what}" + (f"; {advice}" if advice else ""))
        self.path = path
        self.offset = offset


class NotMigratable(Refused):
    """The source is sound, and has content that the store or the options do not allow; nothing was written.

    count: the number of such parts.
    """

    def __init__(self, message: str, *, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


def wrong_source(message: str) -> InvalidArgument:
    """The error for a path that is no source of this kind at all."""
    return InvalidArgument(f"source: {message}", field="source")
