"""The questions of a range and of a watch, as plain values: a verb makes one of its arguments, a carrier reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from raftmeta.bindings.verbs import range_bounds, raw_bound, revision_of, watch_bounds
from raftmeta.common.numbers import WATCH_NO_DELETE, WATCH_NO_PUT, WATCH_PREVIOUS, WATCH_PROGRESS
from raftmeta.errors import InvalidArgument
from raftmeta.operations import Key, KeyRecord, RangeResult, prefix_end

__all__ = ["RangeAsked", "WatchAsked", "next_page", "range_asked", "range_result", "watch_asked"]


@dataclass(frozen=True, slots=True)
class RangeAsked:
    """The keys of [start, end); an empty end means to the last key. limit 0: all of them. revision 0: the newest.

    count: also count the whole range. count_only: nothing but that. local: as the node that is asked has applied it.
    delimiter: keys that have it behind their first `skip` bytes are given as the prefix that they share. Empty: none.
    """

    start: Key
    end: Key
    limit: int = 0
    revision: int = 0
    keys_only: bool = False
    count: bool = False
    count_only: bool = False
    local: bool = False
    delimiter: Key = b""
    skip: int = 0


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
    delimiter: Key | None,
) -> RangeAsked:
    """Raises InvalidArgument."""
    page = raw_bound(start, "start", is_page=True) if prefix is not None and start else b""
    start, end = range_bounds(b"" if page else start, end, prefix)
    if page:
        if not page.startswith(raw_bound(start, "prefix")):
            raise InvalidArgument("prefix: start must begin with it", field="prefix")
        start = page
    skip = 0
    if delimiter is not None:
        skip = 0 if prefix is None else len(raw_bound(prefix, "prefix"))
        if not raw_bound(delimiter, "delimiter"):
            raise InvalidArgument("delimiter: is empty", field="delimiter")
    return RangeAsked(
        start,
        end,
        limit,
        revision_of(revision, "revision"),
        bool(keys_only),
        bool(count),
        bool(count_only),
        bool(local),
        b"" if delimiter is None else delimiter,
        skip,
    )


def next_page(last: KeyRecord | bytes) -> bytes:
    """Where a page starts whose predecessor ends with this record or shared prefix."""
    return last.key + b"\0" if isinstance(last, KeyRecord) else prefix_end(last)


def range_result(
    found: list[KeyRecord | bytes], *, has_prefixes: bool, count: int, more: bool, revision: int
) -> RangeResult:
    """The answer of a range from what came, in order of keys. count: as RangeResult has it."""
    if not has_prefixes:
        return RangeResult(count, cast("list[KeyRecord]", found), more, revision)
    records = [each for each in found if isinstance(each, KeyRecord)]
    return RangeResult(count, records, more, revision, tuple(each for each in found if isinstance(each, bytes)))


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
