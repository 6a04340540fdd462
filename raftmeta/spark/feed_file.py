"""A lake out of a sealed file: a backup, or a snapshot of a node (docs/formats.md "Sealed file").

    feed(FileSource("backup.sealed"), "lake")                # makes one, or brings one up to the file
    with lake_of("backup.sealed") as lake: churn(lake, "out")    # any pipeline that reads a lake

A file knows the state at the floor of its history and every change since, as the store did when it was made. It decides
nothing: what a lake takes and refuses is decided by raftmeta/spark/feed.py.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.operations import KeyRecord
from raftmeta.results import WatchEvent
from raftmeta.scan import Scope, SnapshotFile, find_snapshot
from raftmeta.scan.batches import columns_of
from raftmeta.spark.feed import Whole, feed
from raftmeta.spark.lake import MANIFEST, Lake

__all__ = ["FileSource", "lake_of"]

_UNSIGNED = (1 << 64) - 1  # tables show ids of 64 bits as signed numbers


class FileSource:
    """A sealed file, or the newest one in a folder, as a source of changes.

    The record before an event has key, value, lease and mod revision only. Raises InvalidArgument, SnapshotDamaged,
    NewerFormat when it is opened or read.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = SnapshotFile(find_snapshot(path))

    def cluster_id(self) -> str:
        return self._file.cluster_id

    def floor(self) -> int:
        return self._file.compacted

    def tip(self) -> int:
        return self._file.revision

    def now_ms(self) -> int:
        """The time of the file's last entry: what happened later it does not know."""
        return self._file.wall_ms

    def state(self, revision: int) -> Iterator[Any]:
        """As Source says, as tables of Arrow."""
        import pyarrow as pa

        from raftmeta.spark.lake_rows import BASE, text_of

        names = tuple(field.name for field in BASE)
        for batch in self._file.keys(Scope(columns=names), self._file.check_revision(revision) if revision else 0):
            columns = dict(zip(names, batch.columns, strict=True))
            if columns["key_text"].null_count:
                columns["key_text"] = pa.array([text_of(key) for key in columns["key"].to_pylist()], pa.string())
            yield pa.table([columns[name] for name in names], schema=BASE)

    def changes(self, first: int) -> Generator[Whole | None, None, None]:
        """As Source says; behind the newest revision of the file nothing comes."""
        scope = Scope(columns=columns_of("changes", previous=True))
        batches = self._file.changes(scope, None, first - 1, self._file.revision)
        rows = (row for batch in batches for row in batch.to_pylist())
        for revision, group in itertools.groupby(rows, key=lambda row: row["revision"]):
            of_revision = list(group)
            time_s = of_revision[0]["ts"].timestamp()
            yield revision, time_s, [_event(row) for row in of_revision]
        while True:
            yield None


def _event(row: dict[str, Any]) -> WatchEvent:
    revision, key = row["revision"], row["key"]
    is_there = row["op"] == "put"
    numbers = (row["create_revision"], revision, row["version"], row["lease"] & _UNSIGNED)
    record = KeyRecord(key, row["value"] if is_there else b"", *numbers)
    before = None
    if row["prev_revision"]:
        before = KeyRecord(key, row["prev_value"], 0, row["prev_revision"], 0, row["prev_lease"] & _UNSIGNED)
    return WatchEvent(row["op"], record, before, revision)


@contextlib.contextmanager
def lake_of(path: str | Path) -> Iterator[Lake]:
    """The lake in this folder; of a sealed file one that lives as long as the block.

    Such a lake lies in the folder for temporary files, which must mean the same on every executor. Raises ConfigError
    for what is neither; SnapshotDamaged, NewerFormat.
    """
    given = Path(path)
    if (given / MANIFEST).exists():
        yield Lake.load(given)
        return
    try:
        source = FileSource(given)
    except InvalidArgument as error:
        raise ConfigError(f"{path}: no lake (raftmeta pipeline feed makes one), and no snapshot: {error}") from None
    with tempfile.TemporaryDirectory(prefix="raftmeta-lake-") as folder:
        yield feed(source, folder).lake
