"""A copy of the keys below a prefix, brought up to date revision by revision.

    read all keys as of revision R, watch from R + 1  ->  on_change(mirror), once for each revision that changed one

It decides how a gap is closed. The store's watch goes on by itself where it lagged; where the history is gone it gives
one reset with the whole state; and after an error the mirror reads everything anew. In the last two cases `coalesced`
is true for that call. A mirror never polls: between changes it waits in its watch.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from raftmeta.errors import (
    Compacted,
    Fatal,
    ForkedProcess,
    FutureRevision,
    NodeClosed,
    NoLeader,
    NotExecuted,
    OutcomeTimeout,
    OutcomeUnknown,
    RaftmetaError,
)
from raftmeta.operations import Key, KeyRecord
from raftmeta.recipes.face import Face, Watching
from raftmeta.results import WatchBatch, WatchEvent, WatchReset

__all__ = ["Changes", "Mirror", "Records", "fold", "read_whole"]

TUNE_PAUSE_S = 0.2  # after a failure, before everything is read anew

_ENDED = (NodeClosed, ForkedProcess, Fatal)  # the store will not come back
_LOG = logging.getLogger(__name__)

Records: TypeAlias = dict[bytes, KeyRecord]
Changes: TypeAlias = dict[bytes, KeyRecord | None]


async def read_whole(
    face: Face,
    *,
    key: Key = "",
    prefix: str = "",
    keys_only: bool = False,
    local: bool = False,
    timeout_s: float | None = 5.0,
) -> tuple[int, Records]:
    """One key, or all below a prefix, as of one revision, which is not older than this call; and that revision.

    local: what the store has in this process, which may be older, and is there without a quorum.
    """
    while True:
        try:
            if key:
                behind = key + "\0" if isinstance(key, str) else key + b"\0"
                found = await face.verbs.range(key, behind, keys_only=keys_only, local=local, timeout_s=timeout_s)
            else:
                found = await face.verbs.range(prefix=prefix, keys_only=keys_only, local=local, timeout_s=timeout_s)
        except (Compacted, FutureRevision):
            continue  # between two pages the floor of the history passed their revision: take a newer one
        except OutcomeTimeout as error:
            raise NoLeader("no leader answered a read") from error  # nothing was to be changed
        except OutcomeUnknown:
            continue  # the session ended, or the node: then the next attempt says so
        return found.revision, {record.key: record for record in found.records}


def fold(records: Records, events: Iterable[WatchEvent]) -> bool:
    """Bring records up to date; True: a key came or went, not only values changed."""
    keys_changed = False
    for event in events:
        keys_changed |= (event.key in records) == (event.type == "delete")
        if event.type == "delete":
            records.pop(event.key, None)
        else:
            records[event.key] = event.record
    return keys_changed


def difference(former: Records, records: Records) -> Changes:
    """The news for a reader of the former records: each record that is new, None for each that is gone."""
    changes: Changes = {key: record for key, record in records.items() if former.get(key) != record}
    changes.update((key, None) for key in former if key not in records)
    return changes


class Mirror:
    """The state of one key or one prefix; its worker calls on_change, which must not block.

    records: as of `revision`, which is written after them: another thread reads revision first, records after it, and
    then has records that are not older. Of the last change: coalesced, keys_changed (not only values), and `changes`,
    what each key that it changed has now.
    """

    def __init__(
        self,
        face: Face,
        on_change: Callable[[Mirror], None],
        *,
        key: str = "",
        prefix: str = "",
        keys_only: bool = False,
    ) -> None:
        self.records: Records = {}
        self.revision = 0
        self.coalesced = False
        self.keys_changed = False
        self.changes: Changes = {}
        self._face = face
        self._on_change = on_change
        self._key = key
        self._prefix = prefix
        self._keys_only = keys_only
        self._partial: list[WatchEvent] = []
        self._closed = face.signal()
        self._watching: Watching | None = None

    async def open(self, *, timeout_s: float | None = 5.0) -> None:
        """Read all of it; every later change leads to a call of on_change, after start."""
        revision, records = await read_whole(
            self._face,
            key=self._key,
            prefix=self._prefix,
            keys_only=self._keys_only,
            local=self._face.has_state,
            timeout_s=timeout_s,
        )
        self._replace(records, revision)

    def _replace(self, records: Records, revision: int) -> None:
        """After a gap."""
        self.changes = difference(self.records, records)
        self.records, self.revision, self._partial = records, revision, []
        self.coalesced = self.keys_changed = True

    def start(self) -> None:
        """Begin to follow. The watch names the revision it begins with, so that it may be opened later."""
        self._face.attend(self._work(), "mirror")

    async def close(self) -> None:
        self._closed.set()
        if self._watching is not None:
            with contextlib.suppress(*_ENDED, NotExecuted):  # it went with its store
                await self._watching.close()

    async def _watch(self) -> None:
        self._watching = await self._face.follow(
            self._key or None,
            prefix=None if self._key else self._prefix,
            start_revision=self.revision + 1,
            reset=True,
        )
        if self._closed.is_set():  # close() came before there was a watch to close
            await self._watching.close()

    async def _work(self) -> None:
        is_read = True
        while not self._closed.is_set():
            try:
                if not is_read:
                    await self.open()
                await self._watch()
                if not is_read:
                    self._on_change(self)
                is_read = False  # when the watch has ended
                await self._follow()
            except _ENDED as error:
                if not self._closed.is_set():
                    _LOG.warning("mirror ended prefix=%s reason=%s", self._key or self._prefix, error)
                return
            except RaftmetaError as error:
                _LOG.warning("mirror reads anew prefix=%s reason=%s", self._key or self._prefix, error)
                is_read = False
                await self._closed.wait(TUNE_PAUSE_S)

    async def _follow(self) -> None:
        assert self._watching is not None
        while (news := await self._watching.next()) is not None:
            if self._closed.is_set():
                return
            if isinstance(news, WatchReset):
                self._replace({record.key: record for record in news.records}, news.revision)
            elif not self._apply(news):
                continue
            self._on_change(self)

    def _apply(self, batch: WatchBatch) -> bool:
        """False: more of this revision follows."""
        self._partial += batch.events
        if not batch.is_whole:
            return False
        self.keys_changed = fold(self.records, self._partial)
        self.changes = {event.key: self.records.get(event.key) for event in self._partial}
        self._partial = []
        self.revision, self.coalesced = batch.revision, False
        return True
