"""Which paths are armed on a store of raftmeta, and which changes of keys they are told. It never asks a store.

Each path is told one change. The read that armed it was as of one revision, and only changes of later ones are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from raftmeta.metastore.carrier import ChangeType
from raftmeta.operations import KeyRecord
from raftmeta.results import WatchEvent

__all__ = ["ABSENT", "Armed"]

ABSENT = -1  # in the place of a zxid: there was no znode

Told = list[tuple[ChangeType, str]]


class _Seen(NamedTuple):
    """revision: of the read; zxid: the mzxid or the pzxid that it found."""

    revision: int
    zxid: int


class Armed:
    """The armed paths of one session, as the store names them."""

    def __init__(self) -> None:
        self._data: dict[str, _Seen] = {}
        self._children: dict[str, _Seen] = {}
        self._reads = 0  # under way that arm
        self._late: list[tuple[WatchEvent, str]] = []  # heard of during those

    def __bool__(self) -> bool:
        """Whether anybody would be told of any change."""
        return bool(self._data or self._children or self._reads)

    def begin_read(self) -> None:
        """A read that arms is under way, until `end_read`: changes that come before its answer are kept for it."""
        self._reads += 1

    def end_read(self) -> None:
        self._reads -= 1
        if self._reads == 0:
            self._late.clear()

    def arm_data(self, path: str, revision: int, mzxid: int) -> Told:
        """mzxid: ABSENT: there is no znode. Returns what is to be told at once, after the answer of the read."""
        self._data[path] = _Seen(revision, mzxid)
        return self._catch_up(path)

    def arm_children(self, path: str, revision: int, pzxid: int) -> Told:
        self._children[path] = _Seen(revision, pzxid)
        return self._catch_up(path)

    def _catch_up(self, path: str) -> Told:
        return [told for event, changed in self._late if changed == path for told in self._heard(event, path)]

    def heard(self, event: WatchEvent, path: str) -> Told:
        """The key of this path has changed."""
        if self._reads:
            self._late.append((event, path))
        return self._heard(event, path)

    def _heard(self, event: WatchEvent, path: str) -> Told:
        told: Told = []
        data, children = self._data.get(path), self._children.get(path)
        znode = event.record.znode
        is_made = znode is not None and event.record.create_revision == event.revision
        if data is not None and data.revision < event.revision:
            change = None
            if znode is None:
                change = ChangeType.DELETED if data.zxid != ABSENT else None
            elif is_made:
                change = ChangeType.CREATED
            elif znode.stat.mzxid == event.revision:
                change = ChangeType.DATA_CHANGED
            if change is not None:
                del self._data[path]
                told.append((change, path))
        if children is not None and children.revision < event.revision:
            if znode is None or is_made:
                del self._children[path]  # its handler is told nothing, as in Kafka's ZooKeeperClient
            elif znode.stat.pzxid == event.revision:
                del self._children[path]
                told.append((ChangeType.CHILDREN_CHANGED, path))
        return told

    def reset(self, revision: int, present: Mapping[str, KeyRecord]) -> Told:
        """History has a gap: compare what was armed with the znodes that there are now, as of revision."""
        told: Told = []
        self._late.clear()
        for path, seen in list(self._data.items()):
            znode = present[path].znode if path in present else None
            now = ABSENT if znode is None else znode.stat.mzxid
            if seen.revision < revision and now != seen.zxid:
                del self._data[path]
                is_new = seen.zxid == ABSENT
                change = ChangeType.CREATED if is_new else ChangeType.DATA_CHANGED if znode else ChangeType.DELETED
                told.append((change, path))
        for path, seen in list(self._children.items()):
            znode = present[path].znode if path in present else None
            if seen.revision < revision and (znode is None or znode.stat.pzxid != seen.zxid):
                del self._children[path]
                if znode is not None:
                    told.append((ChangeType.CHILDREN_CHANGED, path))
        return told

    def clear(self) -> None:
        """The session is over."""
        self._data.clear()
        self._children.clear()
        self._late.clear()
