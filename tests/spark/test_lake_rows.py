"""Rows of a lake out of batches that end anywhere."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.scan.batches import Batches, columns_of
from raftmeta.spark.lake_rows import CHANGES, whole_revisions

SCHEMA = Batches("changes", columns_of("changes", previous=True)).schema


def scanned(counts: list[int]) -> pa.RecordBatch:
    """As a scan gives them: revision n has counts[n - 1] changes. Some are deletions, some had a record."""
    rows = [(revision, sub) for revision, count in enumerate(counts, 1) for sub in range(count)]
    columns: dict[str, list[object]] = {
        "revision": [revision for revision, _ in rows],
        "sub": [sub for _, sub in rows],
        "ts": [revision * 1000 for revision, _ in rows],
        "op": ["delete" if number % 3 == 0 else "put" for number in range(len(rows))],
        "key": [b"\xff%d" % number if number % 5 == 0 else b"%d" % number for number in range(len(rows))],
        "key_text": [None if number % 5 == 0 else str(number) for number in range(len(rows))],
        "value": [None if number % 3 == 0 else b"" for number in range(len(rows))],
        "prev_value": [b"old" if number % 2 else None for number in range(len(rows))],
        "prev_revision": [9 if number % 2 else 0 for number in range(len(rows))],
        "prev_lease": [-5 if number % 2 else 0 for number in range(len(rows))],
    }
    numbers = {name: [0 if number % 3 == 0 else 7 for number in range(len(rows))] for name in SCHEMA.names}
    return pa.record_batch([pa.array(columns.get(one.name, numbers[one.name]), one.type) for one in SCHEMA], SCHEMA)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_no_revision_is_in_two_tables(counts: list[int], sizes: list[int]) -> None:
    """Init: changes, cut into batches anywhere. Check: every row once and in order, each revision in one table."""
    whole = scanned(counts)
    batches, begin = [], 0
    while begin < len(whole):
        size = sizes[len(batches) % len(sizes)]
        batches.append(whole.slice(begin, size))
        begin += size
    tables = list(whole_revisions(batches))
    together = pa.concat_tables(tables)
    for name in ("revision", "sub", "op", "key", "value", "prev_value"):
        assert together[name].to_pylist() == whole[name].to_pylist()
    revisions = [revision for table in tables for revision in sorted(set(table["revision"].to_pylist()))]
    assert revisions == list(range(1, len(counts) + 1))


def test_what_there_is_not_is_null() -> None:
    """A deletion has no lease, create revision or version; a first change nothing before; bytes have a text."""
    (table,) = whole_revisions([scanned([3])])
    assert table.schema == CHANGES
    for name in ("lease", "create_revision", "version"):
        assert table[name].to_pylist() == [None, 7, 7]
    assert table["prev_revision"].to_pylist() == [None, 9, None]
    assert table["prev_lease"].to_pylist() == [None, -5, None]
    assert table["key_text"].to_pylist() == ["\\xff0", "1", "2"]
