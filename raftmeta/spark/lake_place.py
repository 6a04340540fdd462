"""A lake as a place of `format("raftmeta")`: its changes, and the keyspace at any of its revisions, by its own list.

Each task loads lake.json anew and reads the files that it names, so a merge between planning and reading changes
nothing; a task never reads another file. It decides which files hold the requested rows. It never lists a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raftmeta.errors import Compacted, FutureRevision, InvalidArgument
from raftmeta.scan import Batches, Scope
from raftmeta.spark.lake import Lake
from raftmeta.spark.lake_answers import fold, within
from raftmeta.spark.lake_rows import CHANGES

__all__ = ["LakePlace"]

BATCH_ROWS = 16_384


class LakePlace:
    """A lake. Raises ConfigError for a damaged one."""

    def __init__(self, path: str) -> None:
        self._lake = Lake.load(path)

    def __str__(self) -> str:
        return str(self._lake.folder)

    def cluster_id(self) -> str:
        return self._lake.cluster

    def floor(self) -> int:
        return self._lake.oldest

    def check_revision(self, revision: int) -> int:
        """Raises FutureRevision, Compacted that name the newest or the oldest."""
        lake = self._lake
        if revision > lake.last:
            raise FutureRevision(
                f"revision: {revision} is not in {self}; the newest is {lake.last}", revision=lake.last
            )
        if 0 < revision < lake.oldest:
            raise Compacted(f"revision: {revision} is not in {self}; the oldest is {lake.oldest}", revision=lake.oldest)
        return revision or lake.last

    def key_ranges(self, scope: Scope, revision: int, parts: int) -> list[tuple[bytes, bytes]]:
        """One range: the changes of a lake are in the order of revisions, so a task reads all of them."""
        self._lake.base_for(revision)  # names a gap
        return [(scope.start, scope.stop)]

    def change_parts(self, low: int, high: int, parts: int) -> list[tuple[int | None, int, int]]:
        """Whole files, shared out evenly by rows. Raises MissingRevisions for a gap."""
        if low >= high:
            return []
        self._lake.expect_changes(low + 1, high)
        files = [one for one in self._lake.files if one.first <= high and one.last > low]
        fill = -(-sum(one.rows for one in files) // parts)
        ends: list[int] = []
        rows = 0
        for one in files:
            rows += one.rows
            if rows >= fill or one is files[-1]:
                ends.append(min(one.last, high))
                rows = 0
        begins = [low, *ends[:-1]]
        return [(None, begin, end) for begin, end in zip(begins, ends, strict=True)]

    def detail(self, number: int) -> tuple[Any, ...]:
        return ()

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        raise InvalidArgument(f"table: a lake has kv and changes, no {table}", field="table")

    # --- rows ---------------------------------------------------------------------------------------------------------
    def changes(self, scope: Scope, begin: int | None, low: int, high: int) -> Iterator[Any]:
        """Batches of the changes in the revisions (low, high]."""
        for path in self._lake.files_of(low + 1, high):
            table = pq.read_table(path, schema=CHANGES, partitioning=None)
            in_time = pc.and_(pc.greater(table["revision"], low), pc.less_equal(table["revision"], high))
            table = within(table.filter(in_time), scope.start, scope.stop)
            for name in ("create_revision", "version", "lease", "prev_lease", "prev_revision"):
                table = _with(table, name, pc.fill_null(table[name], 0))
            yield from _shaped(table, "changes", scope)

    def keys(self, scope: Scope, revision: int) -> Iterator[Any]:
        """Batches of the keyspace at a revision: the newest base before it, overlaid with the changes since."""
        found = fold(self._lake, revision, scope.start, scope.stop)
        found = _with(found, "at_revision", pa.array([revision] * len(found), pa.int64()))
        yield from _shaped(found, "kv", scope)


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.append_column(name, column) if place < 0 else table.set_column(place, name, column)


def _shaped(table: pa.Table, name: str, scope: Scope) -> Iterator[Any]:
    """Batches with the requested columns, as the other places have them: key_text is null for a key that is no text."""
    is_text = pc.equal(table["key_text"].cast(pa.binary()), table["key"])
    table = _with(table, "key_text", pc.if_else(is_text, table["key_text"], pa.scalar(None, pa.string())))
    wanted = Batches(name, scope.columns).schema
    yield from table.select(wanted.names).cast(wanted).to_batches(max_chunksize=BATCH_ROWS)
