"""Brings a cluster up to date with an old system that went on: it writes only differences.

It writes the differences of compare(), in transactions that are whole or not at all. It writes a key only if the key
still has the revision that was compared, so it never overwrites somebody else's later write. You may interrupt it and
call it again; it sets the progress key when all differences are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import raftmeta
from raftmeta.migrate.comparison import Difference, compare
from raftmeta.migrate.items import Source
from raftmeta.migrate.loader import TUNE_BATCH_BYTES, TUNE_BATCH_RECORDS, Leases, Progress
from raftmeta.migrate.mapping import Mapping, Plan
from raftmeta.migrate.records_handle import new_keys
from raftmeta.operations import Delete, Operation, Update

__all__ = ["update"]


def update(
    client: raftmeta.Client,
    source: Source,
    mapping: Mapping,
    plan: Plan,
    *,
    delete: bool = False,
    timeout_s: float = 30.0,
    on_progress: Callable[[int], object] = lambda written: None,
) -> Counter[str]:
    """Write all differences and return how many there were of each kind (Difference.what).

    delete: also delete extra keys: those that are gone from the old system, and every other key in the regions of the
    mapping; without it they are only counted. A key that is attached to a lease keeps the lease; a missing key is
    attached as in a load. Raises KeyExists, KeyMissing, CompareFailed: somebody wrote a key meanwhile, and nothing of
    its batch was written. Raises LeaseExpired: a lease that a load granted ended just now. Raises NotExecuted,
    OutcomeUnknown: as client.txn(). Call it again after any of these.
    """
    counts: Counter[str] = Counter()
    leases = Leases(client, source, timeout_s)
    written = 0
    for batch in _batches(compare(client, source, mapping, timeout_s=timeout_s)):
        counts.update(difference.what for difference in batch)
        wanted = [difference for difference in batch if delete or difference.source is not None]
        _write(client, wanted, leases, timeout_s)
        written += len(batch)
        on_progress(written)
    done = Progress(source.kind, source.position, plan.fingerprint, plan.items, 0, "", True)
    client.put(mapping.progress_key, done.to_bytes(), timeout_s=timeout_s)
    return counts


def _operations(difference: Difference, leases: Leases) -> list[Operation]:
    key, old, new = difference.key, difference.source, difference.target
    if new is None:
        assert old is not None, "what is missing is in the source"
        return new_keys([old], leases.of([old]))
    delete = Delete(key, expected_revision=new.mod_revision, must_exist=True)
    if old is None:
        return [delete]
    if old.is_counter:
        return [delete, *new_keys([old], {})]  # only a new counter can be set to a number
    return [Update(key, old.value, lease=None, expected_revision=new.mod_revision)]


def _write(client: raftmeta.Client, differences: list[Difference], leases: Leases, timeout_s: float) -> None:
    operations = [operation for difference in differences for operation in _operations(difference, leases)]
    try:
        client.txn((), operations, timeout_s=timeout_s)
    except raftmeta.OutcomeUnknown as error:
        if error.ticket is None:
            raise
        error.ticket.result(timeout_s)


def _batches(differences: Iterator[Difference]) -> Iterator[list[Difference]]:
    batch: list[Difference] = []
    size = 0
    for difference in differences:
        # Both values are held until the batch is written, though only one of them is sent.
        sides = (difference.source, difference.target)
        new_size = len(difference.key) + sum(len(side.value) for side in sides if side is not None)
        if batch and (len(batch) >= TUNE_BATCH_RECORDS or size + new_size > TUNE_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(difference)
        size += new_size
    if batch:
        yield batch
