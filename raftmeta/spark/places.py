"""The places to read rows from: a sealed file or a lake on this machine, or a running cluster. One face for all.

It decides nothing of its own: raftmeta.scan knows how to read files and nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from raftmeta.errors import Compacted, FutureRevision
from raftmeta.results import NodeStatus
from raftmeta.scan import ClusterScan, Scope, SnapshotFile, find_snapshot, followers_first, node_urls
from raftmeta.spark.lake import MANIFEST
from raftmeta.spark.options import SourceOptions

__all__ = ["ClusterPlace", "FilePlace", "Place", "place_of"]

TUNE_PART_REVISIONS = 20_000  # of a cluster: a part of fewer is not cut


class Place(Protocol):
    """Rows, and how tasks share them. detail(): the facts that a task needs to read the same; number: of the task."""

    def cluster_id(self) -> str: ...
    def floor(self) -> int: ...
    def check_revision(self, revision: int) -> int: ...
    def key_ranges(self, scope: Scope, revision: int, parts: int) -> list[tuple[bytes, bytes]]: ...
    def change_parts(self, low: int, high: int, parts: int) -> list[tuple[int | None, int, int]]: ...
    def detail(self, number: int) -> tuple[Any, ...]: ...
    def keys(self, scope: Scope, revision: int) -> Iterator[Any]: ...
    def changes(self, scope: Scope, begin: int | None, low: int, high: int) -> Iterator[Any]: ...
    def rows(self, table: str) -> Iterator[tuple[Any, ...]]: ...


@contextmanager
def place_of(options: SourceOptions, detail: tuple[Any, ...] = ()) -> Iterator[Place]:
    """The place that the options name, closed at the end of the block; detail: of the part that is read there."""
    if options.path and (Path(options.path) / MANIFEST).exists():
        from raftmeta.spark.lake_place import LakePlace

        yield LakePlace(options.path)
        return
    if options.path:
        yield FilePlace(options, detail)
        return
    urls = tuple(detail) or node_urls(options.url)
    with ClusterScan(urls, cluster=options.cluster, timeout_s=options.timeout_s) as scan:
        yield ClusterPlace(options, scan)


def check_changes(place: Place, low: int, high: int) -> None:
    """Raises Compacted when the revision behind low is gone: its changes are not known, so they cannot be skipped."""
    floor = place.floor()
    if low < floor and low < high:
        raise Compacted(
            f"start_revision: the changes up to revision {floor} are compacted in {place}; the oldest one is "
            f"{floor + 1}: begin there with start_revision={floor + 1} or oldest; a stream needs a new checkpoint for "
            f"this, since its old one goes on at {low + 1}",
            revision=floor + 1,
        )


class FilePlace:
    """A sealed file, or the newest one of a folder."""

    def __init__(self, options: SourceOptions, detail: tuple[Any, ...] = ()) -> None:
        path, digest = detail or (str(find_snapshot(options.path)), "")
        self._file = SnapshotFile(path, digest=digest)

    def __str__(self) -> str:
        return str(self._file.path)

    def cluster_id(self) -> str:
        return self._file.cluster_id

    def floor(self) -> int:
        return self._file.compacted

    def check_revision(self, revision: int) -> int:
        return self._file.check_revision(revision)

    def key_ranges(self, scope: Scope, revision: int, parts: int) -> list[tuple[bytes, bytes]]:
        return self._file.key_ranges(scope, parts)

    def change_parts(self, low: int, high: int, parts: int) -> list[tuple[int | None, int, int]]:
        check_changes(self, low, high)
        return self._file.change_parts(low, high, parts) if low < high else []

    def detail(self, number: int) -> tuple[Any, ...]:
        return str(self._file.path), self._file.digest

    def keys(self, scope: Scope, revision: int) -> Iterator[Any]:
        return self._file.keys(scope, revision)

    def changes(self, scope: Scope, begin: int | None, low: int, high: int) -> Iterator[Any]:
        return self._file.changes(scope, begin, low, high)

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        found: list[Any] = self._file.members() if table == "members" else self._file.leases()
        return (tuple(_signed(field) for field in row) for row in found)


class ClusterPlace:
    """The nodes of a cluster: the followers first, so that the leader has its time for writes."""

    def __init__(self, options: SourceOptions, scan: ClusterScan) -> None:
        self._options = options
        self._scan = scan
        self._statuses: dict[str, NodeStatus] = {}

    def __str__(self) -> str:
        return self._options.url

    def _look(self) -> dict[str, NodeStatus]:
        if not self._statuses:
            self._statuses = self._scan.statuses()
        return self._statuses

    def cluster_id(self) -> str:
        return next(iter(self._look().values())).cluster_id

    def floor(self) -> int:
        return max(status.compacted for status in self._look().values())

    def check_revision(self, revision: int) -> int:
        newest = self._scan.newest()
        if revision > newest:
            raise FutureRevision(
                f"revision: {revision} does not exist in {self} yet; the newest is {newest}", revision=newest
            )
        if 0 < revision < self.floor():
            raise Compacted(
                f"revision: {revision} is compacted in {self}; the oldest is {self.floor()}", revision=self.floor()
            )
        return revision or newest

    def key_ranges(self, scope: Scope, revision: int, parts: int) -> list[tuple[bytes, bytes]]:
        return self._scan.key_ranges(scope, revision, parts)

    def change_parts(self, low: int, high: int, parts: int) -> list[tuple[int | None, int, int]]:
        check_changes(self, low, high)
        step = max(TUNE_PART_REVISIONS, -(-(high - low) // parts))
        return [(None, at, min(at + step, high)) for at in range(low, high, step)]

    def detail(self, number: int) -> tuple[Any, ...]:
        known = self._look()
        urls = followers_first(node_urls(self._options.url), known)
        count = sum(not status.is_leader for status in known.values())
        turn = number % count if count else 0
        return *urls[turn:count], *urls[:turn], *urls[count:]

    def keys(self, scope: Scope, revision: int) -> Iterator[Any]:
        return self._scan.keys(scope, revision)

    def changes(self, scope: Scope, begin: int | None, low: int, high: int) -> Iterator[Any]:
        return self._scan.changes(scope, low, high)

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        if table == "leases":
            return (tuple(map(_signed, lease)) for lease in self._scan.leases())
        members = self._scan.members()
        return (tuple(map(_signed, (member.name, member.id, member.address, member.role))) for member in members)


def _signed(field: Any) -> Any:
    """Numbers of 64 bits as Spark's bigint has them: the same bits."""
    return field - (1 << 64) if isinstance(field, int) and field >= 1 << 63 else field
