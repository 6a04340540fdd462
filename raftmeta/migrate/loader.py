"""Writes a plan into a cluster: batch by batch, each whole or not at all, and goes on after any crash.

It decides which keys one transaction has, and nothing about their content (raftmeta/migrate/mapping.py). Exactly once,
in steps:
    1. each batch is one transaction that also moves the progress key from its value before to its value after;
    2. so the store refuses a batch if the batch before it is missing, or if the batch itself is there already;
    3. a loader that was killed reads the progress key and goes on behind its last key;
    4. the progress key names the fingerprint of all that is written; another source or other options are refused.
The loader writes only new keys: an existing key refuses its batch, so nothing is overwritten.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

import raftmeta
from raftmeta import InvalidArgument
from raftmeta.migrate.items import Item, Record, Source
from raftmeta.migrate.mapping import Mapping, Plan
from raftmeta.migrate.problems import NotMigratable
from raftmeta.migrate.records_handle import new_keys
from raftmeta.operations import (
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

__all__ = ["Leases", "Progress", "load", "read_progress"]

TUNE_BATCH_RECORDS = 5000  # batches wait for one another: smaller ones wait more often
TUNE_BATCH_BYTES = 1 << 20  # of keys and values; one item may be more, a command takes 6 MiB
LEASE_TTL_MIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The content of the progress key. last: key of the last item written, as base64. position: of the source."""

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
    """Write all items of the source, or those that an interrupted load left; on return all are committed.

    plan: of the same source and mapping. timeout_s: for each batch. on_progress: called with the items written so far.
    Raises NotMigratable: the region is not empty, or another migration was begun there; this call wrote nothing.
    Raises NotExecuted, OutcomeUnknown: as client.txn(). Every batch is there whole or not at all; make the same call
    again, and the load goes on.
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
        items = iter(source.items()) if before is None else _items_after(source, progress.last_key)
        item: Item | None = None
        while not progress.is_done:
            taken, last, records, item = mapping.names.fill(items, item, TUNE_BATCH_RECORDS, TUNE_BATCH_BYTES)
            after = _advanced(progress, taken, last, item is None)
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


def _advanced(progress: Progress, items: int, last: bytes | None, is_done: bool) -> Progress:
    return replace(
        progress,
        items=progress.items + items,
        batches=progress.batches + 1,
        last=progress.last if last is None else base64.b64encode(last).decode(),
        is_done=is_done,
    )


def _items_after(source: Source, after: bytes) -> Iterator[Item]:
    return (item for item in source.items() if item.key > after)


class Leases:
    """The leases of sessions and leases of the old system, under the same numbers, granted when a record names one.

    They are kept alive until the client is closed, and by nobody afterwards.
    """

    def __init__(self, client: raftmeta.Client, source: Source, timeout_s: float) -> None:
        self._client = client
        self._holders = source.holders()
        self._timeout_s = timeout_s
        self._granted: dict[int, int] = {}
        self._held: list[object] = []  # a lease whose object is collected is kept alive no longer

    def of(self, records: Iterable[Record]) -> dict[int, int]:
        """The lease of each holder that the records name."""
        for holder in {record.holder for record in records if record.holder} - self._granted.keys():
            lease = holder & (1 << 63) - 1
            ttl_s = max(self._holders.get(holder, LEASE_TTL_MIN_S), LEASE_TTL_MIN_S)
            with contextlib.suppress(raftmeta.IdConflict):  # an earlier load granted it, and it has not ended yet
                self._held.append(self._client.lease(ttl_s, id=lease, timeout_s=self._timeout_s))
            self._granted[holder] = lease
        return self._granted


class _Writer:
    """Makes transactions of records, and the leases that these need."""

    def __init__(self, client: raftmeta.Client, mapping: Mapping, source: Source, timeout_s: float) -> None:
        self._client = client
        self._mapping = mapping
        self._regions = mapping.regions(source)
        self._leases = Leases(client, source, timeout_s)
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
        operations = new_keys(records, self._leases.of(records))
        operations.append(Put(key, after.to_bytes()))
        return compares, operations

    def write(self, compares: list[CompareOperator], operations: list[Operation]) -> TxnReply:
        """Write one batch and wait until its outcome is known, however long that takes."""
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
        """Which of the keys to create exist already."""
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


def _equal(key: bytes, value: bytes) -> Compare:
    return Value(key) == value
