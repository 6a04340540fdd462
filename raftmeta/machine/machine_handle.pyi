"""The replicated machine for Python code that has no node (raftmeta/machine/machine.pxd has the rules)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

class Status(NamedTuple):
    """MachineStatus; state_hash as one 128-bit number."""

    applied: int
    revision: int
    compacted: int
    keys: int
    state_bytes: int
    history_bytes: int
    leases: int
    sessions: int
    feature_level: int
    lease_ms: int
    state_hash: int

class MachineHandle:
    """One machine, which belongs to the calling thread."""

    def __init__(
        self,
        *,
        value_bytes_max: int = 1 << 20,
        session_window: int = 4096,
        changes_per_slice: int = 1000,
        fanout: int = 64,
        tree_bytes_max: int | None = None,
    ) -> None: ...
    @property
    def broken(self) -> tuple[int, int, int]:
        """The first belief that proved wrong (raftmeta/common/invariants), and its two numbers; 0: none."""
    def skip(self, entries: Iterable[tuple[int, int]]) -> None:
        """Pass over the entries (index, chain hash), besides those that were named before. Raises OverflowError."""
    def status(self) -> Status:
        """Return the counters and the state hash."""
    def dump(self, bytes_max: int = 1 << 16) -> DumpHandle:
        """Begin a dump of the state as it is now. Raises ValueError(status) while an entry is under way."""
    def load_chunk(self, chunk: bytes) -> int:
        """Load one chunk of a dump, or of a difference behind it, into this empty machine; return the status."""
    def load_done(self) -> int:
        """Check that all of a dump was loaded; return the status."""

class DumpHandle(Iterator[bytes]):
    """The chunks of a dump; pinned until the last was taken, or close()."""

    def __init__(self, owner: MachineHandle, bytes_max: int, prepared_at_once: int = 1 << 16) -> None:
        """bytes_max: of a chunk. prepared_at_once: records in a slice."""
    def __iter__(self) -> DumpHandle: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None:
        """End the dump; safe to call twice."""
