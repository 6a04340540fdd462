"""A ZooKeeper server's folder as a source: its newest sound snapshot, and every transaction behind it.

It decides which files belong together, and whether they are complete: zxids of one epoch follow one another, so it
notices a missing log. It reads the folder of a running server as well as of a stopped one; the next read has the
server's later writes. It never writes there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from raftmeta.migrate.closing import Closing
from raftmeta.migrate.items import Item
from raftmeta.migrate.problems import SourceDamaged, wrong_source
from raftmeta.migrate.scratch import Scratch
from raftmeta.migrate.zookeeper_files import LogRecord, SnapshotFile, read_log
from raftmeta.migrate.zookeeper_tree import ZooKeeperNode, ZooKeeperTree

__all__ = ["ZooKeeperSource"]

VERSION_FOLDER = "version-2"
COUNTER_BITS = 32  # of an epoch's part of a zxid
_SNAPSHOT_NAME = re.compile(r"^snapshot\.([0-9a-f]+)(?:\.gz|\.snappy)?$")
_LOG_NAME = re.compile(r"^log\.([0-9a-f]+)$")
_ZXID = 20  # bytes of the header of a transaction up to the end of its zxid


class ZooKeeperSource(Closing):
    """The tree of the server whose data are at path; as a context its temporary files are removed.

    path: the folder with the snapshots, the one above it (with "version-2" in it), or one snapshot file. logs: the
    folder of the transaction logs if that is another one (dataLogDir). scratch: where a temporary folder is made.
    ephemerals: False leaves ephemeral nodes out. on_progress: called with the bytes read so far and in all.
    Raises InvalidArgument: there is nothing of that kind. Raises SourceDamaged: a file is damaged or missing.
    """

    kind = "zookeeper"
    root = b"/"

    def __init__(
        self,
        path: str | Path,
        *,
        logs: str | Path | None = None,
        scratch: str | Path | None = None,
        ephemerals: bool = True,
        on_progress: Callable[[int, int], object] = lambda done, size: None,
    ) -> None:
        self.warnings: list[str] = []
        self.dropped: Counter[str] = Counter()
        self._has_ephemerals = ephemerals
        self._on_progress = on_progress
        self._scratch_place = scratch
        snapshots, log_folder = _find(Path(path), None if logs is None else Path(logs))
        self._scratch, self.tree, self.snapshot = self._load_newest(snapshots)
        try:
            self._replay(_logs_of(log_folder, self.tree.zxid))
            self.tree.check_complete(self.snapshot)
        except BaseException:
            self._scratch.close()
            raise
        self.position = f"zxid {self.tree.zxid:#x}"

    # --- reading ------------------------------------------------------------------------------------------------------

    def _load_newest(self, snapshots: list[tuple[int, Path]]) -> tuple[Scratch, ZooKeeperTree, Path]:
        """A dying server leaves a half-written snapshot; then the one before it counts, as for the server itself."""
        first_error: SourceDamaged | None = None
        for zxid, path in snapshots:
            scratch = Scratch(self._scratch_place)
            try:
                tree = ZooKeeperTree(scratch, zxid)
                tree.load(SnapshotFile(path))
                if first_error is not None:
                    self.warnings.append(f"passed over a damaged snapshot: {first_error}")
                return scratch, tree, path
            except SourceDamaged as error:
                scratch.close()
                first_error = first_error or error
            except BaseException:
                scratch.close()
                raise
        assert first_error is not None, "there was a snapshot"
        raise first_error

    def _replay(self, logs: list[tuple[int, Path]]) -> None:
        expected = self.tree.zxid
        size = sum(path.stat().st_size for _, path in logs)
        done = 0
        for number, (_, path) in enumerate(logs):
            for record in read_log(path, is_last=number == len(logs) - 1):
                zxid = int.from_bytes(record.body[12:_ZXID], "big")
                if zxid <= self.tree.zxid and self.tree.transactions == 0:
                    continue  # from before the snapshot
                _check_follows(expected, zxid, record)
                self.tree.apply(record)
                expected = zxid
            done += path.stat().st_size
            self._on_progress(done, size)

    # --- what is in it ------------------------------------------------------------------------------------------------

    def nodes(self) -> Iterator[ZooKeeperNode]:
        """All nodes, in order of their paths as bytes."""
        return self.tree.nodes()

    def items(self) -> Iterator[Item]:
        """All nodes that are data, in order of their paths as bytes."""
        dropped: Counter[str] = Counter()
        yield from self.tree.items(has_ephemerals=self._has_ephemerals, dropped=dropped)
        self.dropped = dropped

    def holders(self) -> Mapping[int, float]:
        """Time-outs in seconds of open sessions."""
        return {session: timeout_ms / 1000 for session, timeout_ms in self.tree.sessions.items()}

    def facts(self) -> Mapping[str, int | str]:
        ephemerals = self.tree.ephemerals()
        return {
            "snapshot": str(self.snapshot),
            "transactions replayed": self.tree.transactions,
            "last zxid": f"{self.tree.zxid:#x}",
            "sessions": len(self.tree.sessions),
            "sessions with ephemeral nodes": len(ephemerals),
        }

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._scratch.close()


def _find(path: Path, logs: Path | None) -> tuple[list[tuple[int, Path]], Path | None]:
    """(zxid, file) of the snapshots, newest first, and the folder of the logs."""
    if path.is_file():
        named = _SNAPSHOT_NAME.match(path.name)
        if named is None:
            raise wrong_source(f"{path.name} is not named snapshot.<zxid>, as ZooKeeper names its snapshots")
        return [(int(named[1], 16), path)], _below(logs) if logs else path.parent
    if not path.is_dir():
        raise wrong_source(f"there is no {path}")
    folder = _below(path)
    snapshots = _numbered(folder, _SNAPSHOT_NAME)
    if not snapshots:
        raise wrong_source(f"{folder} holds no snapshot.<zxid>: is it the dataDir of a ZooKeeper server?")
    return snapshots[::-1], _below(logs) if logs else folder


def _below(folder: Path) -> Path:
    return folder / VERSION_FOLDER if (folder / VERSION_FOLDER).is_dir() else folder


def _numbered(folder: Path, name: re.Pattern[str]) -> list[tuple[int, Path]]:
    return sorted((int(match[1], 16), path) for path in folder.iterdir() if (match := name.match(path.name)))


def _logs_of(folder: Path | None, zxid: int) -> list[tuple[int, Path]]:
    """The logs that may hold transactions after zxid: a log is named after its first transaction."""
    if folder is None:
        return []
    logs = _numbered(folder, _LOG_NAME)
    first = max((position for position, (start, _) in enumerate(logs) if start <= zxid + 1), default=0)
    return logs[first:]


def _check_follows(before: int, zxid: int, record: LogRecord) -> None:
    """Within an epoch zxids are counted without gaps; an epoch begins at 0 or 1. Raises SourceDamaged."""
    counter = zxid & (1 << COUNTER_BITS) - 1
    is_next_epoch = zxid >> COUNTER_BITS > before >> COUNTER_BITS and counter <= 1
    if zxid != before + 1 and not is_next_epoch:
        raise SourceDamaged(
            record.path,
            record.offset,
            f"transaction {zxid:#x} follows {before:#x}: those between are missing",
            "copy all logs from the snapshot's zxid on, or use another server's",
        )
