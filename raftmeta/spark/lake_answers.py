"""Questions to a lake that one process answers, without Spark: who changed a key, the state, sizes by prefix.

It reads one file at a time where a question allows that. It folds a state in memory, so it is for lakes whose files are
small (`is_small`). The answers are those of raftmeta/spark/travel.py and churn.py, row by row.

It decides when Spark is not needed. It never decides what a lake says.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raftmeta.operations import Key, prefix_end
from raftmeta.spark.lake import Lake
from raftmeta.spark.lake_rows import BASE, CHANGES

__all__ = ["fold", "is_small", "newest_changes", "sizes_by_prefix", "within"]

SMALL_BYTES = 256 << 20  # TUNE_: of the files of a lake, compressed; some five times as much in memory


def is_small(lake: Lake) -> bool:
    """Whether one process answers about as fast as Spark starts, in memory that any machine has."""
    bases = [lake.folder / base.file for base in lake.bases]
    parts = [part for base in bases for part in (base.rglob("*.parquet") if base.is_dir() else [base])]
    return sum(one.size_bytes for one in lake.files) + sum(part.stat().st_size for part in parts) <= SMALL_BYTES


def within(table: pa.Table, start: bytes, stop: bytes) -> pa.Table:
    """The rows with keys in [start, stop); an empty bound is none."""
    if start:
        table = table.filter(pc.greater_equal(table["key"], start))
    return table.filter(pc.less(table["key"], stop)) if stop else table


def bounds_of(key: Key | None, prefix: Key | None) -> tuple[bytes, bytes]:
    """The range of one key, or of a prefix; all keys without either."""
    raw = next((one.encode() if isinstance(one, str) else one for one in (key, prefix) if one is not None), b"")
    return raw, raw + b"\0" if key is not None else prefix_end(raw) if raw else b""


def _changes(lake: Lake, first: int, last: int) -> Iterator[pa.Table]:
    """Changes of the revisions [first, last], file by file; the newest file first."""
    for path in reversed(lake.files_of(first, last)):
        table = pq.read_table(path, schema=CHANGES, partitioning=None)
        yield table.filter(pc.and_(pc.greater_equal(table["revision"], first), pc.less_equal(table["revision"], last)))


def newest_changes(
    lake: Lake,
    limit: int,
    *,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    key: Key | None = None,
    prefix: Key | None = None,
) -> pa.Table:
    """The newest changes of the times [since, until), of one key or a prefix; at most limit of them, oldest first."""
    start, stop = bounds_of(key, prefix)
    kind = CHANGES.field("ts").type
    found: list[pa.Table] = []
    for table in _changes(lake, 0, lake.last):
        table = within(table, start, stop)
        if since is not None:
            table = table.filter(pc.greater_equal(table["ts"], pa.scalar(since, kind)))
        if until is not None:
            table = table.filter(pc.less(table["ts"], pa.scalar(until, kind)))
        found.append(table)
        if sum(map(len, found)) >= limit:
            break
    every = pa.concat_tables([*reversed(found), CHANGES.empty_table()])
    return every.sort_by([("revision", "ascending"), ("sub", "ascending")])[max(0, len(every) - limit) :]


def fold(lake: Lake, revision: int, start: bytes = b"", stop: bytes = b"") -> pa.Table:
    """Rows of BASE of the keys in [start, stop) as of a revision, in order of keys. Raises MissingRevisions."""
    base = lake.base_for(revision)
    old = within(pq.read_table(lake.folder / base.file, schema=BASE, partitioning=None), start, stop)
    old = old.append_column("sub", pa.array([-1] * len(old), pa.int32()))
    old = old.append_column("op", pa.array(["put"] * len(old), pa.string()))
    tables = [old]
    for table in _changes(lake, base.revision + 1, revision):
        names = ["mod_revision" if name == "revision" else name for name in table.column_names]
        since = within(table.rename_columns(names), start, stop).select(old.column_names)
        tables.append(since)
    every = pa.concat_tables(tables, promote_options="permissive")
    every = every.sort_by([("key", "ascending"), ("mod_revision", "ascending"), ("sub", "ascending")]).combine_chunks()
    if len(every):
        keys = pa.chunked_array(every["key"]).combine_chunks()
        is_last = pa.concat_arrays([pc.not_equal(keys[:-1], keys[1:]), pa.array([True])])
        every = every.filter(pc.and_(pa.chunked_array([is_last]), pc.equal(every["op"], "put")))
    return every.select(BASE.names).cast(BASE)


def sizes_by_prefix(lake: Lake, revision: int, first: int, depth: int) -> pa.Table:
    """As raftmeta.spark.sizes: present keys by prefix, and the changes of the revisions [first, revision]."""
    there = _with_prefix(fold(lake, revision), depth)
    there = there.append_column("key_bytes", pc.binary_length(there["key"]).cast(pa.int64()))
    there = there.append_column("value_bytes", pc.binary_length(there["value"]).cast(pa.int64()))
    there = there.append_column("leased_keys", pc.not_equal(there["lease"], 0).cast(pa.int64()))
    sums = [("key_bytes", "sum"), ("value_bytes", "sum"), ("value_bytes", "max"), ("leased_keys", "sum")]
    kept = there.group_by("prefix").aggregate([([], "count_all"), *sums])
    names = {"count_all": "keys", "key_bytes_sum": "key_bytes", "value_bytes_sum": "value_bytes"}
    kept = kept.rename_columns({**names, "value_bytes_max": "value_bytes_max", "leased_keys_sum": "leased_keys"})
    happened = pa.concat_tables([*_changes(lake, first, revision), CHANGES.empty_table()])
    happened = _with_prefix(happened, depth)
    size = pc.add(pc.binary_length(happened["key"]), pc.fill_null(pc.binary_length(happened["value"]), 0))
    happened = happened.append_column("changed_bytes", size.cast(pa.int64()))
    counted = [("changed_bytes", "sum"), ("revision", "count_distinct"), ("key", "count_distinct")]
    sent = happened.group_by("prefix").aggregate([([], "count_all"), *counted])
    names = {"count_all": "changes", "changed_bytes_sum": "changed_bytes", "revision_count_distinct": "revisions"}
    sent = sent.rename_columns({**names, "key_count_distinct": "changed_keys"})
    joined = kept.join(sent, "prefix", join_type="full outer")
    columns: tuple[str, ...] = ("prefix", "keys", "key_bytes", "value_bytes", "value_bytes_max", "leased_keys")
    columns += ("changes", "changed_bytes", "revisions", "changed_keys")
    filled = [joined[name] if name == "prefix" else pc.fill_null(joined[name], 0) for name in columns]
    return pa.table(filled, names=list(columns)).sort_by("prefix")


def _with_prefix(table: pa.Table, depth: int) -> pa.Table:
    """The first parts of a key, each with its slash; a key without so many is in the prefix of its last slash."""
    found = pc.extract_regex(table["key_text"], f"^(?P<prefix>(?:/?[^/]*/){{0,{depth}}})")
    return table.append_column("prefix", pc.struct_field(found, "prefix"))
