"""A lake out of a sealed file: a backup, or a snapshot of a node (docs/formats.md "Sealed file").

    feed(FileSource("backup.sealed"), "lake")                # makes one, or brings one up to the file
    with lake_of("backup.sealed") as lake: churn(lake, "out")    # any pipeline that reads a lake

A file knows the state at the floor of its history and every change since, as the store did when the file was made. It
decides nothing: raftmeta/spark/feed.py decides what a lake takes and refuses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.scan import Scope, SnapshotFile, find_snapshot
from raftmeta.scan.batches import columns_of
from raftmeta.spark.feed import feed
from raftmeta.spark.lake import MANIFEST, Lake
from raftmeta.spark.scratch import scratch_folder

__all__ = ["FileSource", "lake_of"]


class FileSource:
    """A sealed file, or the newest one in a folder, as a source of changes.

    Raises InvalidArgument, SnapshotDamaged, NewerFormat when it is opened or read.
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
        """The time of the file's last entry; the file knows nothing of later changes."""
        return self._file.wall_ms

    def state(self, revision: int) -> Iterator[Any]:
        """See Source.state; as tables of Arrow."""
        from raftmeta.spark.lake_rows import BASE, keys_in

        scope = Scope(columns=tuple(BASE.names))
        yield from map(keys_in, self._file.keys(scope, self._file.check_revision(revision) if revision else 0))

    def changes(self, first: int) -> Generator[Any, None, None]:
        """See Source.changes; nothing comes behind the newest revision of the file."""
        from raftmeta.spark.lake_rows import whole_revisions

        scope = Scope(columns=columns_of("changes", previous=True))
        yield from whole_revisions(self._file.changes(scope, None, first - 1, self._file.revision))
        while True:
            yield None


@contextlib.contextmanager
def lake_of(path: str | Path) -> Iterator[Lake]:
    """The lake in this folder; for a sealed file a lake that lives as long as the block.

    Such a lake lies in the folder for temporary files, which must mean the same on every executor. Raises ConfigError
    for a path that is neither; SnapshotDamaged, NewerFormat.
    """
    given = Path(path)
    if (given / MANIFEST).exists():
        yield Lake.load(given)
        return
    try:
        source = FileSource(given)
    except InvalidArgument as error:
        raise ConfigError(f"{path}: no lake (raftmeta pipeline feed makes one), and no snapshot: {error}") from None
    with scratch_folder("lake") as folder:
        yield feed(source, folder / "lake").lake
