"""A sealed file as tables: which one a folder holds, how it is cut for parallel readers, and its rows.

A backup is one (raftmeta.snapshot.save), and a node's folder may hold those that it made for others or got. Several
readers read one file at once: each opens it by its path and knows by its digest that it is the same file. It decides
where to cut. It never locks a folder, since a sealed file does not change, and never writes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from raftmeta.bindings.members import role_name
from raftmeta.common import statuses
from raftmeta.errors import (
    Compacted,
    FutureRevision,
    InvalidArgument,
    NewerFormat,
    SnapshotDamaged,
    error_from_status,
)
from raftmeta.scan.batches import TUNE_BATCH_BYTES, TUNE_BATCH_ROWS, Batches, Scope
from raftmeta.scan.scan_handle import ColumnsHandle, SnapshotHandle

__all__ = ["SnapshotFile", "find_snapshot"]

_SEALED = re.compile(r"[0-9a-f]{16}\.sealed")  # docs/formats.md "Snapshots"; the name is the index of the entry
TUNE_CUT_BYTES = 256 * 1024  # of history between two keys at which it may be cut, as the chunks of the file are


def find_snapshot(path: str | Path) -> Path:
    """The sealed file at path, or the newest one in the folder there. Raises InvalidArgument."""
    found = Path(path)
    if found.is_file():
        return found
    if not found.is_dir():
        raise InvalidArgument(f"path: there is no file or folder {path} on this machine", field="path")
    sealed = sorted(entry for entry in found.iterdir() if _SEALED.fullmatch(entry.name))
    if not sealed:
        raise InvalidArgument(
            f"path: {path} holds no sealed file: a node makes one only for others. Save one with "
            "raftmeta.snapshot.save, of a running node or of the folder of a stopped one, and name that file",
            field="path",
        )
    return sealed[-1]


class SnapshotFile:
    """A sealed file that is open for reading; one iterator of rows at a time.

    revision, compacted: the newest revision, and the floor of the history. wall_ms: advisory time of the last entry in
    it, milliseconds of 1970. digest: by which the file is known again.
    """

    def __init__(self, path: str | Path, *, digest: str = "") -> None:
        """Open the file and check its header and footer; what lies between is checked when it is read.

        digest: of the file that was opened before under this path; another one there is an error.
        Raises InvalidArgument, SnapshotDamaged, NewerFormat.
        """
        self.path = Path(path)
        if not self.path.is_file():
            raise InvalidArgument(
                f"path: {path} is not there (any more) on this machine: a node removes a snapshot once it has newer "
                "ones; read the folder again, or a backup",
                field="path",
            )
        self._handle = SnapshotHandle()
        self._is_open = False
        self._check(self._handle.open(str(self.path)))
        self._is_open = True
        facts = self._handle.facts()
        self.revision = int(facts["revision"])
        self.compacted = int(facts["compacted"])
        self.digest = str(facts["digest"])
        self.cluster_id = str(facts["cluster_id"])
        self.wall_ms = int(facts["wall_ms"])
        self._lease_ms = int(facts["lease_ms"])
        if digest and digest != self.digest:
            raise InvalidArgument(f"path: {path} is another file than when the query was planned", field="path")

    def _check(self, status: int) -> None:
        if status in (statuses.CORRUPT, statuses.INCOMPLETE, statuses.NOT_FOUND):
            where = (
                f"at byte {self._handle.offset} or behind it" if self._is_open else "in header, first chunk or footer"
            )
            raise SnapshotDamaged(
                f"path: {self.path} is not a whole snapshot, damaged {where}: use another copy of it", field="path"
            )
        if status == statuses.NEWER_FORMAT:
            raise NewerFormat(f"path: {self.path} was written by a newer version of raftmeta", field="path")
        if status == statuses.NO_KEY:
            raise InvalidArgument(
                f"path: {self.path} is encrypted: restore it into a cluster, and read that one", field="path"
            )
        if status != statuses.OK:
            raise error_from_status(status, detail=str(self.path))

    def check_revision(self, revision: int) -> int:
        """The revision to read at, 0: the newest. Raises Compacted, FutureRevision."""
        if revision == 0:
            return self.revision
        if revision < self.compacted:
            raise Compacted(
                f"revision: {revision} is compacted in {self.path}; the oldest is {self.compacted}",
                revision=self.compacted,
            )
        if revision > self.revision:
            raise FutureRevision(
                f"revision: {revision} is not in {self.path} yet; the newest is {self.revision}",
                revision=self.revision,
            )
        return revision

    # --- cutting ------------------------------------------------------------------------------------------------------

    def key_ranges(self, scope: Scope, parts: int) -> list[tuple[bytes, bytes]]:
        """At most `parts` ranges that together are [start, stop), each about as long to read. Reads the history."""
        status, _, keys = self._handle.survey(TUNE_CUT_BYTES)
        self._check(status)
        return cut_range(scope.start, scope.stop, keys, parts)

    def change_parts(self, low: int, high: int, parts: int) -> list[tuple[int | None, int, int]]:
        """At most `parts` of (place, low, high) that together are the revisions (low, high]. Reads the history."""
        status, marks, _ = self._handle.survey(TUNE_CUT_BYTES)
        self._check(status)
        begins: list[tuple[int | None, int]] = [(None, self.compacted)]
        begins += [(place, revision - 1) for place, revision in marks]
        first = max(number for number, (_, before) in enumerate(begins) if before <= low)
        inside = [(begins[first][0], low)]
        inside += [(place, before) for place, before in begins[first + 1 :] if low < before < high]
        step = -(-len(inside) // max(1, parts))
        chosen = inside[::step]
        ends = [before for _, before in chosen[1:]] + [high]
        return [(place, before, end) for (place, before), end in zip(chosen, ends, strict=True) if before < end]

    # --- rows ---------------------------------------------------------------------------------------------------------

    def keys(self, scope: Scope, revision: int) -> Iterator[Any]:
        """Record batches of the table kv: the keys of the scope as of a revision that check_revision gave."""
        if not scope.holds_nothing():
            self._check(self._handle.keys_begin(scope.start, scope.stop, revision))
            yield from self._batches(Batches("kv", scope.columns), self._handle.keys_next)

    def changes(self, scope: Scope, place: int | None, low: int, high: int) -> Iterator[Any]:
        """Record batches of the table changes: those of the revisions (low, high], from a place of change_parts.

        With columns of the record before, all history up to high is read and held, wherever the place is.
        """
        if low >= high or scope.holds_nothing():
            return
        batches = Batches("changes", scope.columns)
        if scope.wants_previous():
            self._check(self._handle.previous_begin(scope.start, scope.stop, low, high))
            yield from self._batches(batches, self._handle.previous_next)
        else:
            self._check(self._handle.changes_begin(scope.start, scope.stop, place, low, high))
            yield from self._batches(batches, self._handle.changes_next)

    def _batches(self, batches: Batches, read: Callable[[ColumnsHandle, int, int], int]) -> Iterator[Any]:
        status = statuses.OK
        while status == statuses.OK:
            status = read(batches.handle, TUNE_BATCH_ROWS, TUNE_BATCH_BYTES)
            if status != statuses.NOT_FOUND:
                self._check(status)
            batch = batches.take()
            if batch is not None:
                yield batch

    def members(self) -> list[tuple[str, int, str, str]]:
        """(name, id, address, role) of the members at the file's entry. Raises SnapshotDamaged."""
        status, members = self._handle.members()
        self._check(status)
        return [(name, id, address, role_name(roles)) for name, id, address, roles in members]

    def leases(self) -> list[tuple[int, int, int, bytes]]:
        """(id, ttl_ms, remaining_ms, note) of the leases at the file's entry. Raises SnapshotDamaged."""
        status, leases = self._handle.leases()
        self._check(status)
        return [(id, ttl_ms, max(0, deadline_ms - self._lease_ms), note) for id, ttl_ms, deadline_ms, note in leases]


def cut_range(start: bytes, stop: bytes, keys: list[bytes], parts: int) -> list[tuple[bytes, bytes]]:
    """[start, stop) in at most `parts` ranges, cut at keys that lie evenly in it."""
    inside = sorted({key for key in keys if start < key and (not stop or key < stop)})
    parts = max(1, min(parts, len(inside) + 1))
    cuts = [inside[len(inside) * number // parts] for number in range(1, parts)]
    bounds = [start, *sorted(set(cuts)), stop]
    return list(itertools.pairwise(bounds))
