"""The engine's promises for tests (raftmeta/engine/promises.pxd): an engine of nothing but its ports."""

from __future__ import annotations

from raftmeta.face.base import NodeBase

class PromisesHandle:
    """An engine that never ran. Jobs are known by their place, statuses are those of raftmeta/status.pxd."""

    def __init__(self) -> None: ...
    @property
    def broken(self) -> tuple[int, int, int]:
        """The first belief that proved wrong (raftmeta/common/invariants), and its two numbers; 0: none."""
    def look(self) -> int:
        """What a turn of the engine finds at its end."""
    def job(self, kind: int) -> int:
        """Make a job of this DiskJobKind."""
    def submit(self, job: int) -> None:
        """Hand it out."""
    def back(self, job: int, *, records: bytes | None = None, first: int = 0, bytes_max: int = 0) -> int:
        """It comes back with these records; so many bytes were asked for, from the record `first` on."""
    def message(self, source: int, *, id: int) -> bool:
        """May the member `id` send a message that names this sender?"""
    def refused(self, job: int) -> tuple[bool, int]:
        """(whether it waits for room, status) of a job of the log that came back."""
    def use_link(self, place: int, *, is_self: bool = False) -> None:
        """A peer, or this node itself, has this place in the table of links."""
    def frame(self, place: int, length: int) -> bool:
        """May a frame of so many bytes go to this link?"""
    def take(self, indexes: list[int], *, missing_bytes: int = 0, last: int | None = None) -> int:
        """Give the applier a slice of records with these indexes, of which so many bytes at the end are missing. last:
        the index that the core names as their last one."""
    def publish(self, applied: int, published: int) -> int:
        """Let the applier publish what it applied."""
    def serve(self, count: int, waiting: int) -> None:
        """An answered round of `count` readers, of whom so many wait."""

def make_published_wrong(node: NodeBase, ahead: int) -> None:
    """Let a running node believe that readers see so many entries more than were applied."""
