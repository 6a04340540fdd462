"""The questions of a range and of a watch, as plain values: a verb makes one of its arguments, a carrier reads it."""

from __future__ import annotations

from dataclasses import dataclass

from raftmeta.bindings.verbs import range_bounds, revision_of, watch_bounds
from raftmeta.common.numbers import WATCH_NO_DELETE, WATCH_NO_PUT, WATCH_PREVIOUS, WATCH_PROGRESS
from raftmeta.operations import Key

__all__ = ["RangeAsked", "WatchAsked", "range_asked", "watch_asked"]


@dataclass(frozen=True, slots=True)
class RangeAsked:
    """The keys of [start, end); an empty end means to the last key. limit 0: all of them. revision 0: the newest.

    count: also count the whole range. count_only: nothing but that. local: as the node that is asked has applied it.
    """

    start: Key
    end: Key
    limit: int
    revision: int
    keys_only: bool
    count: bool
    count_only: bool
    local: bool


@dataclass(frozen=True, slots=True)
class WatchAsked:
    """The changes of [start, end) from revision on (0: from now on); filter: bits of WatchFilter (machine/watches)."""

    start: bytes
    end: bytes
    revision: int
    filter: int
    raises_lagged: bool
    resets: bool
    timeout_s: float | None


def range_asked(
    start: Key,
    end: Key,
    prefix: Key | None,
    *,
    limit: int,
    revision: int,
    keys_only: bool,
    count: bool,
    count_only: bool,
    local: bool,
) -> RangeAsked:
    """Raises InvalidArgument."""
    start, end = range_bounds(start, end, prefix)
    return RangeAsked(
        start,
        end,
        limit,
        revision_of(revision, "revision"),
        bool(keys_only),
        bool(count),
        bool(count_only),
        bool(local),
    )


def watch_asked(
    key: Key | None,
    end: Key | None,
    prefix: Key | None,
    *,
    start_revision: int,
    previous: bool,
    puts: bool,
    deletes: bool,
    progress: bool,
    raise_lagged: bool,
    reset: bool,
    timeout_s: float | None,
) -> WatchAsked:
    """Raises InvalidArgument."""
    filter = (
        (WATCH_PREVIOUS if previous else 0)
        | (WATCH_PROGRESS if progress else 0)
        | (0 if puts else WATCH_NO_PUT)
        | (0 if deletes else WATCH_NO_DELETE)
    )
    first, last = watch_bounds(key, end, prefix)
    revision = revision_of(start_revision, "start_revision")
    return WatchAsked(first, last, revision, filter, bool(raise_lagged), bool(reset), timeout_s)
