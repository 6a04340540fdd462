"""The state tree for tests, tools and benchmarks (raftmeta/machine/tree.pxd has the rules)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

# (key, value, create_revision, mod_revision, version, lease, flags)
_Record: TypeAlias = tuple[bytes, bytes, int, int, int, int, int]

class PinnedRoot:
    """A root of a TreeHandle that stays as it is until release()."""

    def release(self) -> None:
        """Unpin; safe to call twice."""
    def __enter__(self) -> PinnedRoot: ...
    def __exit__(self, *exception: object) -> None: ...
    @property
    def revision(self) -> int:
        """Revision of the state seen."""
    @property
    def count(self) -> int:
        """Live keys."""
    @property
    def hash(self) -> int:
        """128-bit state hash."""
    def get(self, key: bytes) -> _Record | None:
        """The record of key, tombstones too, or None."""
    def get_at(self, key: bytes, revision: int) -> _Record | None:
        """The version of key that was the newest at revision, from the chain, or None."""
    def versions(self, key: bytes) -> list[_Record]:
        """All versions of key that the chain still has, newest first."""
    def range(self, start: bytes = b"", limit: int = 0xFFFFFFFF) -> list[_Record]:
        """Up to limit records from start on, in key order, tombstones too."""
    def scan(self) -> int:
        """Walk all entries natively and return how many there are."""
    def verify(self) -> None:
        """Check order, hashes, count and state hash of the root, natively."""
    def difference(
        self, newer: PinnedRoot, start: bytes = b"", changed_max: int = 0xFFFFFFFF
    ) -> tuple[list[tuple[_Record | None, _Record | None]], bool]:
        """([(older record, newer record), ...], more) of keys >= start that differ."""

class TreeHandle:
    """A state tree of its own: fanout children a node, at most bytes_max bytes in use.

    prepares: the next piece of memory is touched ahead, by a thread.
    """

    def __init__(self, *, fanout: int = 64, bytes_max: int = 0xFFFFFFFFFFFFFFFF, prepares: bool = False) -> None: ...
    @property
    def broken(self) -> tuple[int, int, int]:
        """The first belief that proved wrong (raftmeta/common/invariants), and its two numbers; 0: none."""
    def put(self, key: bytes, value: bytes, *, revision: int, lease: int = 0) -> None:
        """Put a new version of key."""
    def delete(self, key: bytes, *, revision: int) -> None:
        """Put a tombstone in the place of key."""
    def remove(self, key: bytes) -> None:
        """Take the tombstone of key out of the tree."""
    def cut(self, key: bytes, floor: int) -> None:
        """End the chain of key at its newest version at or below floor."""
    def find(self, key: bytes) -> _Record | None:
        """The newest record of key in the writer's view, or None."""
    def get(self, key: bytes) -> bytes | None:
        """The published value of key, or None: the short read."""
    def publish(self, revision: int) -> None:
        """Make all changes visible to readers."""
    def reclaim(self, objects_max: int = 0xFFFFFFFF) -> None:
        """Free what no reader can see."""
    def pin(self) -> PinnedRoot:
        """The newest published root, held until release()."""
    def stop_in_short_read(self) -> None:
        """Enter and stay there, as a reader does that is preempted. leave_short_read() ends it."""
    def leave_short_read(self) -> None:
        """End what stop_in_short_read() began."""
    def stop_in_pin(self, slot: int) -> None:
        """Name the newest root in a slot and stay there, as a thread does that is preempted in tree_pin."""
    def leave_pin(self, slot: int) -> None:
        """End what stop_in_pin() began, without a pin."""
    def load(self, rows: Iterable[_Record], revision: int) -> None:
        """Load ascending (key, value, create_revision, mod_revision, version, lease, flags) into an empty tree."""
    def run_rounds(
        self,
        rounds: int,
        *,
        batch: int,
        keys: int,
        value_length: int = 64,
        delete_share: int = 0,
        history: int = 0,
        seed: int = 1,
    ) -> int:
        """Write rounds of random keys natively, each published; chains end `history` revisions back.
        delete_share: percent of the changes that delete. Returns the seed for the next call."""
    def load_rounds(self, keys: int, value_length: int = 64) -> None:
        """Bulk load the keys that run_rounds draws from, natively."""
    @property
    def count(self) -> int:
        """Live keys in the writer's view."""
    @property
    def hash(self) -> int:
        """128-bit state hash in the writer's view."""
    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
    @property
    def has_piece_ready(self) -> bool:
        """Whether the next piece of memory lies ready."""
    @property
    def retained_bytes(self) -> int:
        """Bytes taken from the system."""
