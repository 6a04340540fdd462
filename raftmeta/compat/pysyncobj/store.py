"""The log of an object in the keys of its cluster: batches, the last published dump, and the founding.

    pysyncobj/log/OWNER/NUMBER        a batch; the order of their revisions is the order of the log
    pysyncobj/part/OWNER/NUMBER/I     a piece of a batch that is too large for one value
    pysyncobj/head                    which dump counts: lineage, index, revision, size, members
    pysyncobj/dump/INDEX/I            a piece of the dump
    pysyncobj/seed/NAME               how far the state is that a member brought to the founding

A state that is loaded is the dump of the head and then the batches whose revision is higher. A publication replaces the
head in one step and then removes the batches that are in its dump. This module blocks; it is never called from a tick.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgpack

import raftmeta
from raftmeta.compat.pysyncobj.files import FIRST_INDEX, Batch, Position
from raftmeta.compat.pysyncobj.link import Arrived, Item, Live, Loaded
from raftmeta.operations import Delete, KeyRecord, ModRevision, Put, RangeResult

__all__ = ["Head", "Store", "Withheld"]

ROOT = "pysyncobj/"
LOG, PART, DUMP, SEED, HEAD = (ROOT + name for name in ("log/", "part/", "dump/", "seed/", "head"))
TUNE_PIECE_BYTES = 512 * 1024
TUNE_PAGE = 16
TUNE_DELETES = 100


class Head(NamedTuple):
    lineage: str
    index: int  # type: ignore[assignment]  # tuple has a method of this name
    revision: int
    size: int  # -1: no dump, the state of a new object
    members: list[str]

    @property
    def position(self) -> Position:
        return Position(self.lineage, self.index, self.revision)


class Withheld(Exception):
    """A part of the state is gone meanwhile: begin again from the head."""


class Store:
    """Of one running node."""

    def __init__(self, node: raftmeta.Node) -> None:
        self._node = node

    # --- batches ------------------------------------------------------------------------------------------------------
    def append(self, batch: Batch) -> None:
        """Put a batch into the log; again is the same. Raises NotExecuted or OutcomeUnknown: call again."""
        place = f"{batch.owner}/{batch.number:012d}"
        value = batch.pack()
        with contextlib.suppress(raftmeta.KeyExists):
            if len(value) > TUNE_PIECE_BYTES:
                pieces = _pieces(value)
                for number, piece in enumerate(pieces):
                    self._node.put(f"{PART}{place}/{number:08d}", piece, timeout_s=10)
                value = b""
            self._node.create(f"{LOG}{place}", value, timeout_s=10)

    def follow(self, position: Position) -> Iterator[Item]:
        """The state from here on, or from the head where that is not possible; then batch after batch, without an end.

        Raises Withheld: begin again.
        """
        found = self._node.get(HEAD, local=True)
        if found is None:
            raise Withheld("there is no head")
        head = Head(*msgpack.unpackb(found.value))
        if head.lineage != position.lineage or head.revision > position.revision:
            dump = self._dump(head)
            yield Loaded(head.position, dump, head.members)
            position = head.position
        records, as_of = self._log()
        if self._node.get(HEAD, local=True) != found:
            raise Withheld("another dump was published")
        for record in records:
            if record.mod_revision > position.revision:
                yield Arrived(record.mod_revision, self._batch(record))
        yield Live()
        yield from self._watch(as_of + 1)

    def _log(self) -> tuple[list[KeyRecord], int]:
        """Its records in the order of the log, and the revision as of which they are all."""
        page = self._node.range(prefix=LOG, limit=TUNE_PAGE, local=True)
        records = list(page.records)
        records += self._rest(page, LOG, keys_only=False)
        return sorted(records, key=lambda record: record.mod_revision), page.revision

    def _watch(self, revision: int) -> Iterator[Item]:
        watch = self._node.watch(prefix=LOG, start_revision=revision, deletes=False)
        try:
            for change in watch:
                if isinstance(change, raftmeta.WatchReset):
                    raise Withheld("the history is gone")
                yield Arrived(change.record.mod_revision, self._batch(change.record))
        except raftmeta.Compacted as error:
            raise Withheld("the history is gone") from error
        finally:
            watch.close()

    def _batch(self, record: KeyRecord) -> Batch:
        if record.value:
            return Batch.unpack(record.value)
        place = record.key.decode().removeprefix(LOG)
        pieces = [piece.value for piece in self._scan(f"{PART}{place}/")]
        try:
            return Batch.unpack(b"".join(pieces))
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise Withheld("a batch was removed") from error

    # --- dumps --------------------------------------------------------------------------------------------------------
    def head(self) -> Head | None:
        found = self._node.get(HEAD, local=True)
        return None if found is None else Head(*msgpack.unpackb(found.value))

    def _dump(self, head: Head) -> bytes | None:
        if head.size < 0:
            return None
        dump = b"".join(piece.value for piece in self._scan(f"{DUMP}{head.index:020d}/"))
        if len(dump) != head.size:
            raise Withheld("another dump was published")
        return dump

    def publish(self, position: Position, dump: bytes, members: list[str]) -> None:
        """Make a dump the one that counts, unless there is a later one. Raises RaftmetaError: nothing was lost."""
        found = self._node.get(HEAD)
        if found is None or Head(*msgpack.unpackb(found.value)).index >= position.index:
            return
        self._put_dump(position.index, dump)
        value = msgpack.packb(list(Head(*position, len(dump), members)))
        reply = self._node.txn([ModRevision(HEAD) == found.mod_revision], [Put(HEAD, value)])
        if reply.succeeded:
            self._remove_until(position)

    def _put_dump(self, index: int, dump: bytes) -> None:
        for number, piece in enumerate(_pieces(dump)):
            self._node.put(f"{DUMP}{index:020d}/{number:08d}", piece, timeout_s=10)

    def _remove_until(self, position: Position) -> None:
        """Remove what no loader needs any more. A part of it that stays is removed by the next publication."""
        for record in list(self._scan(DUMP, keys_only=True)):
            if record.key < f"{DUMP}{position.index:020d}".encode():
                self._node.delete(record.key, timeout_s=10)
        old = [record for record in self._scan(LOG, keys_only=True) if record.mod_revision <= position.revision]
        for start in range(0, len(old), TUNE_DELETES):
            self._node.txn(then=[Delete(record.key) for record in old[start : start + TUNE_DELETES]], timeout_s=10)
        for record in old:
            place = record.key.decode().removeprefix(LOG)
            if self._node.range(prefix=f"{PART}{place}/", limit=1, keys_only=True, local=True).records:
                self._node.delete_range(prefix=f"{PART}{place}/", timeout_s=10)

    def _scan(self, prefix: str, *, keys_only: bool = False) -> Iterator[KeyRecord]:
        """All records, page by page and as of one revision."""
        page = self._node.range(prefix=prefix, limit=TUNE_PAGE, keys_only=keys_only, local=True)
        yield from page.records
        yield from self._rest(page, prefix, keys_only=keys_only)

    def _rest(self, page: RangeResult, prefix: str, *, keys_only: bool) -> Iterator[KeyRecord]:
        """The records behind a first page. Raises Withheld."""
        revision = page.revision
        try:
            while page.more:
                page = self._node.range(
                    page.next_start, prefix=prefix, limit=TUNE_PAGE, revision=revision, keys_only=keys_only, local=True
                )
                yield from page.records
        except raftmeta.Compacted as error:
            raise Withheld("the history is gone") from error

    # --- the founding -------------------------------------------------------------------------------------------------
    def found(self, name: str, position: Position, members: list[str], dump: Callable[[], bytes | None]) -> bool:
        """Take part in the founding; whether there is a head now. Ask again until there is.

        Members that bring a state say how far it is. Of a majority the furthest one founds: it has all that an earlier
        cluster of these members had promised, because any two majorities share a member. dump: this member's state.
        """
        if self.head() is not None:
            return True
        voters = {member.name for member in self._node.status().members if member.role == "voter"}
        seeds = {record.key.decode().removeprefix(SEED): int(record.value) for record in self._scan(SEED)}
        if seeds.get(name) != position.index:
            self._node.put(SEED + name, str(position.index))
            seeds[name] = position.index
        brought = {one: index for one, index in seeds.items() if one in voters}
        if 2 * len(brought) <= len(voters):
            return False
        if name != max(brought, key=lambda one: (brought[one], one)):
            return False
        content = dump() if position.index > FIRST_INDEX else None
        size = -1
        if content is not None:
            self._put_dump(position.index, content)
            size = len(content)
        head = Head(uuid.uuid4().hex, position.index, 0, size, members)
        with contextlib.suppress(raftmeta.KeyExists):
            self._node.create(HEAD, msgpack.packb(list(head)))
        return True


def _pieces(value: bytes) -> list[bytes]:
    return [value[at : at + TUNE_PIECE_BYTES] for at in range(0, len(value), TUNE_PIECE_BYTES)] or [b""]
