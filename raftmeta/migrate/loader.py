"""Writes what a plan says into a cluster: batch by batch, each whole or not at all, and gone on with after any crash.

It decides what stands in one transaction, and nothing about what is written (raftmeta/migrate/mapping.py). Exactly
once, in steps:
    1. each batch is one transaction that also sets the progress key, from what it was to what it then is;
    2. so a batch is refused if the batch before it is not there, or if it is there itself;
    3. a loader that was killed reads the progress key and goes on behind its last key;
    4. the progress key names the fingerprint of all that is written: another source, or other options, are refused.
Only new keys are written: a key that is there already refuses its batch, and nothing is overwritten.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

import raftmeta
from raftmeta import InvalidArgument
from raftmeta.migrate.items import Item, Source
from raftmeta.migrate.mapping import Mapping, Plan, Record
from raftmeta.migrate.problems import NotMigratable
from raftmeta.operations import (
    Add,
    Compare,
    CompareOperator,
    Create,
    Get,
    KeyRecord,
    Operation,
    Put,
    RangeEmpty,
    Value,
    Version,
)
from raftmeta.results import TxnReply

__all__ = ["Progress", "load", "new_key", "read_progress"]

TUNE_BATCH_RECORDS = 5000  # batches wait for one another: smaller ones wait more often
TUNE_BATCH_BYTES = 1 << 20  # of keys and values; one item may be more, a command takes 6 MiB
LEASE_TTL_MIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What the progress key says. last: key of the last item written, as base64. position: of the source."""

    kind: str
    position: str
    fingerprint: str
    items: int = 0
    batches: int = 0
    last: str = ""
    is_done: bool = False

    @property
    def last_key(self) -> bytes:
        return base64.b64decode(self.last)

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def read_progress(client: raftmeta.Client, mapping: Mapping, *, timeout_s: float = 30.0) -> Progress | None:
    """How far a load into this cluster is; None: none was begun. Raises as client.get(), or InvalidArgument."""
    record = client.get(mapping.progress_key, timeout_s=timeout_s)
    if record is None:
        return None
    try:
        return Progress(**json.loads(record.value))
    except (ValueError, TypeError) as error:
        raise InvalidArgument(
            f"side: the key {mapping.progress_key!r} is there and is no progress of a migration", field="side"
        ) from error


def load(
    client: raftmeta.Client,
    source: Source,
    mapping: Mapping,
    plan: Plan,
    *,
    timeout_s: float = 30.0,
    on_progress: Callable[[int], object] = lambda items: None,
) -> Progress:
    """Write all items of the source, or those that an interrupted load has not; on return all are committed.

    plan: of the same source and mapping. timeout_s: for each batch. on_progress: called with the items written so far.
    Raises NotMigratable: the region is not empty, or another migration was begun there; nothing was written by this
    call.
    Raises NotExecuted, OutcomeUnknown: as client.txn(); every batch is there whole or not at all, and the same call
    goes on with it.
    """
    progress = read_progress(client, mapping, timeout_s=timeout_s)
    if progress is None:
        progress = Progress(source.kind, source.position, plan.fingerprint)
        before: bytes | None = None
    else:
        if progress.fingerprint != plan.fingerprint:
            raise NotMigratable(
                f"this cluster has a migration of {progress.kind} at {progress.position} "
                f"({'done' if progress.is_done else 'not finished'}), and the source is another now ({source.kind} at "
                f"{source.position}) or the options are: compare or update instead, or take another --side"
            )
        before = progress.to_bytes()
    on_progress(progress.items)
    if progress.is_done:
        return progress
    writer = _Writer(client, mapping, source, timeout_s)
    with ThreadPoolExecutor(1, thread_name_prefix="raftmeta-migrate") as pool:
        under_way: Future[TxnReply] | None = None
        for batch, records, is_last in _batches(source, mapping, progress.last_key if before else None):
            after = _advanced(progress, batch, is_last)
            # While this batch is prepared the one before it is written; they are never under way at once.
            compares, operations = writer.prepare(records, before, after)
            if under_way is not None:
                writer.check(under_way.result())
                on_progress(progress.items)
            under_way = pool.submit(writer.write, compares, operations)
            progress, before = after, after.to_bytes()
        assert under_way is not None, "the last batch is written even if it is empty: it says that all are there"
        writer.check(under_way.result())
    on_progress(progress.items)
    return progress


def new_key(record: Record, lease: int = 0) -> Operation:
    """What writes a record whose key is not there."""
    if record.is_counter:
        return Add(record.key, int.from_bytes(record.value, "big", signed=True))
    return Create(record.key, record.value, lease=lease)


def _advanced(progress: Progress, batch: list[bytes], is_last: bool) -> Progress:
    return replace(
        progress,
        items=progress.items + len(batch),
        batches=progress.batches + 1,
        last=base64.b64encode(batch[-1]).decode() if batch else progress.last,
        is_done=is_last,
    )


def _batches(source: Source, mapping: Mapping, after: bytes | None) -> Iterator[tuple[list[bytes], list[Record], bool]]:
    """(keys of items, their records, whether it is the last batch), from behind a key on."""
    keys: list[bytes] = []
    records: list[Record] = []
    size = 0
    for item in _items_after(source, after):
        new = mapping.records(item)
        new_size = sum(len(record.key) + len(record.value) for record in new)
        if records and (len(records) + len(new) > TUNE_BATCH_RECORDS or size + new_size > TUNE_BATCH_BYTES):
            yield keys, records, False
            keys, records, size = [], [], 0
        keys.append(item.key)
        records += new
        size += new_size
    yield keys, records, True


def _items_after(source: Source, after: bytes | None) -> Iterator[Item]:
    for item in source.items():
        if after is None or item.key > after:
            yield item


class _Writer:
    """Makes transactions of records, and the leases that they need."""

    def __init__(self, client: raftmeta.Client, mapping: Mapping, source: Source, timeout_s: float) -> None:
        self._client = client
        self._mapping = mapping
        self._holders = source.holders()
        self._regions = mapping.regions(source)
        self._leases: dict[int, int] = {}
        self._timeout_s = timeout_s

    def prepare(
        self, records: list[Record], before: bytes | None, after: Progress
    ) -> tuple[list[CompareOperator], list[Operation]]:
        key = self._mapping.progress_key
        compares: list[CompareOperator]
        if before is None:
            # Without any prefix the data may lie among other keys: then only Create keeps what is there.
            compares = [Version(key) == 0, *(RangeEmpty.prefix(region) for region in self._regions if region)]
        else:
            compares = [_equal(key, before)]
        operations = [new_key(record, self._lease(record.holder) if record.holder else 0) for record in records]
        operations.append(Put(key, after.to_bytes()))
        return compares, operations

    def write(self, compares: list[CompareOperator], operations: list[Operation]) -> TxnReply:
        """One batch: its outcome is waited for, whatever it takes to learn it."""
        try:
            return self._client.txn(compares, operations, timeout_s=self._timeout_s)
        except raftmeta.OutcomeUnknown as error:
            if error.ticket is None:
                raise
            reply: TxnReply = error.ticket.result(self._timeout_s)
            return reply
        except raftmeta.KeyExists as error:
            raise NotMigratable(f"{self._present(operations)}; nothing of this batch was written") from error

    def _present(self, operations: list[Operation]) -> str:
        """Which of the keys to be created are there."""
        wanted = [Get(operation.key) for operation in operations if isinstance(operation, Create)]
        found = self._client.txn((), wanted, timeout_s=self._timeout_s).results
        present = [record.key for record in found if isinstance(record, KeyRecord)]
        return f"{len(present)} keys are there already, the first {present[:1]}"

    def check(self, reply: TxnReply) -> None:
        if not reply.succeeded:
            raise NotMigratable(
                "there are keys already where the migration would write, or another migration runs: nothing of this "
                "batch was written; take another --prefix and --side, or an empty cluster"
            )

    def _lease(self, holder: int) -> int:
        """A lease for a session or lease of the old system, under the same number; nobody keeps it alive afterwards."""
        lease = self._leases.get(holder)
        if lease is None:
            lease = holder & (1 << 63) - 1
            ttl_s = max(self._holders.get(holder, LEASE_TTL_MIN_S), LEASE_TTL_MIN_S)
            with contextlib.suppress(raftmeta.IdConflict):  # an interrupted load granted it
                self._client.lease(ttl_s, id=lease, timeout_s=self._timeout_s)
            self._leases[holder] = lease
        return lease


def _equal(key: bytes, value: bytes) -> Compare:
    return Value(key) == value
