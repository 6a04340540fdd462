"""The leaves of the core in Python's hands: a Log, a Progress, the arithmetic of quorums. For tests only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

class LogPointers(NamedTuple):
    """The pointer chain; entries up to offset are not in memory."""

    compacted: int
    snapshotted: int
    applied: int
    committed: int
    last: int
    persisted: int
    staged: int
    offset: int
    last_chain: int

class ProgressPointers(NamedTuple):
    """All that a leader knows of a member; `state` is "PROBE", "REPLICATE" or "SNAPSHOT_WAIT"."""

    state: str
    match: int
    next: int
    is_probe_sent: bool
    must_send_empty: bool
    snapshot_index: int
    inflight_count: int
    inflight_bytes: int
    round: int
    is_caught_up: bool

class LogHandle:
    """A raft/log of its own."""

    def __init__(self, chunk_bytes: int) -> None:
        """chunk_bytes: size of an arena chunk."""

    def begin(self, index: int, term: int, chain: int) -> None:
        """The log is empty after this entry."""

    def append(self, term: int, payload: bytes, *, type: int = 2, wall_ms: int = 0, lease_ms: int = 0) -> str:
        """Append one entry, as a leader does."""

    def append_records(self, records: bytes, count: int, *, is_shared: bool = False) -> str:
        """Append records that were checked, copied or shared."""

    def append_damaged(self, index: int, chain: int) -> str:
        """A place for a damaged record."""

    def repair(self, record: bytes) -> str:
        """Put a sound record into its damaged place."""

    def truncate(self, first: int) -> str:
        """Remove all entries at and above first."""

    def compact(self, compact_to: int) -> None:
        """Entries up to this one go for good; snapshotted must be there already."""

    def release_memory(self, through: int, bytes_max: int) -> None:
        """Whole runs up to `through` leave memory until bytes_max are left."""

    def tick(self) -> None:
        """Time passes."""

    def spares(self) -> int:
        """How many chunks are kept for records to come."""

    def set_pointers(
        self,
        *,
        committed: int | None = None,
        applied: int | None = None,
        snapshotted: int | None = None,
        staged: int | None = None,
        persisted: int | None = None,
    ) -> None:
        """Move the pointers that belong to the core."""

    def pointers(self) -> LogPointers:
        """The pointer chain and what is in memory."""

    def term(self, index: int) -> int:
        """Term of the entry; 0: not known."""

    def chain(self, index: int) -> int | None:
        """Chain hash of the entry; None: not known."""

    def record(self, index: int) -> bytes | None:
        """Bytes of the record; None: not in memory."""

    def slice(self, first: int, last: int, bytes_max: int) -> tuple[int, bytes]:
        """(last index in it, bytes) of one contiguous slice; (0, b"") when first is not in memory."""

    def slices(self, first: int, last: int) -> list[bytes]:
        """Bytes of each contiguous part of [first, last]."""

    def show(self, first: int, last: int) -> bytes:
        """Hold a slice as a socket does, and return its bytes; reread compares them later."""

    def reread(self) -> list[bytes]:
        """The bytes of all that was shown, as they are now."""

    def find_conflict(self, index: int, term: int) -> int:
        """Where two logs may still agree."""

    def is_up_to_date(self, index: int, term: int) -> bool:
        """Is another log with this last entry at least as up to date?"""

    def first_damaged(self) -> int | None:
        """Index of the first damaged record; None: the log is whole."""

    def memory_bytes(self) -> int:
        """Bytes of the records in memory."""

    def bytes_between(self, low: int, high: int) -> int:
        """Bytes of records in (low, high]."""

    def check(self) -> int:
        """0, or the number of the invariant that is broken."""

def check_records(
    records: bytes, count: int, *, index: int = 0, term: int = 0, chain: int | None = None, term_max: int = ...
) -> str:
    """Are these `count` records a continuation of (index, term, chain)?"""

class ProgressHandle:
    """A raft/progress of its own."""

    def __init__(self, last: int, now: int = 0) -> None:
        """A member at the beginning of a term; last: the leader's last index."""

    def can_send(self, inflight_bytes_max: int) -> bool:
        """May an APPEND leave?"""

    def on_sent(self, last: int, bytes: int) -> str:
        """An APPEND up to last left."""

    def on_accepted(self, index: int, compacted: int = 0) -> bool:
        """The member acknowledged index. True: match has grown."""

    def on_rejected(self, index: int, meet: int, compacted: int = 0) -> bool:
        """The member refused. False: an answer of the past."""

    def on_lost(self) -> None:
        """A send failed."""

    def on_heartbeat_answered(self, round: int, last: int) -> None:
        """It answered this round."""

    def on_snapshot_needed(self, index: int) -> None:
        """What it needs is compacted."""

    def on_snapshot_over(self, installed: int) -> None:
        """Installed up to this index; 0: failed."""

    def on_tick(self, last: int, now: int, election_timeout_ticks: int) -> None:
        """Judge whether a learner has caught up."""

    def pointers(self) -> ProgressPointers:
        """All that is known."""

def has_quorum(incoming: Iterable[int], outgoing: Iterable[int], agreeing: Iterable[int]) -> bool:
    """Do these positions hold a majority of both sets?"""

def votes(incoming: Iterable[int], outgoing: Iterable[int], granted: Iterable[int], refused: Iterable[int]) -> str:
    """ "PENDING", "WON" or "LOST"."""

def reached(incoming: Iterable[int], outgoing: Iterable[int], numbers: Sequence[int]) -> int:
    """The greatest number that a majority of both sets reached; numbers by position."""
