"""What is different between an old system and a cluster: a merge of two sorted streams, in the memory of one page.

It decides equality of records as a load would write them, one region after another (raftmeta/migrate/mapping.py). It
reads the cluster at one revision, so that a cluster that is written to meanwhile is not compared with a mixture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import raftmeta
from raftmeta.migrate.items import Source
from raftmeta.migrate.mapping import Mapping, Record
from raftmeta.operations import Get, KeyRecord, prefix_end

__all__ = ["Difference", "compare", "merge", "target_records"]

PAGE_KEYS = 2000
Keyed = TypeVar("Keyed", Record, KeyRecord)


class Difference(NamedTuple):
    """One key that is not alike. what: "missing" in the cluster, "extra" there, or "differs".

    source: what a load would write, None if extra. target: the record that is there, None if missing.
    """

    what: str
    key: bytes
    source: Record | None
    target: KeyRecord | None


def merge(source: Iterable[Record], target: Iterable[KeyRecord]) -> Iterator[Difference]:
    """All differences of two streams that are sorted by key, in order; it holds one record of each.

    Raises ValueError: a stream is not sorted, and the answer would be wrong.
    """
    left, right = _sorted(source, "source"), _sorted(target, "target")
    old, new = next(left, None), next(right, None)
    while old is not None or new is not None:
        if new is None or (old is not None and old.key < new.key):
            assert old is not None, "one of the two is there"
            yield Difference("missing", old.key, old, None)
            old = next(left, None)
        elif old is None or new.key < old.key:
            yield Difference("extra", new.key, None, new)
            new = next(right, None)
        else:
            if old.value != new.value:
                yield Difference("differs", old.key, old, new)
            old, new = next(left, None), next(right, None)


def _sorted(stream: Iterable[Keyed], name: str) -> Iterator[Keyed]:
    previous: bytes | None = None
    for record in stream:
        if previous is not None and record.key <= previous:
            raise ValueError(f"{name}: {record.key!r} comes after {previous!r}")
        previous = record.key
        yield record


def target_records(
    client: raftmeta.Client, prefix: bytes, *, without: bytes = b"", revision: int = 0, timeout_s: float = 30.0
) -> Iterator[KeyRecord]:
    """The records with a prefix at one revision, page by page; without: a prefix that is left out.

    Raises as client.range().
    """
    spans = [(prefix, prefix_end(prefix))]
    if without.startswith(prefix) and without:
        spans = [(prefix, without), (prefix_end(without), prefix_end(prefix))]
    for start, end in spans:
        is_more = True
        while is_more:
            page = client.range(start, end, limit=PAGE_KEYS, revision=revision, timeout_s=timeout_s)
            yield from page.records
            is_more = page.more
            if is_more:
                start = page.records[-1].key + b"\0"


def compare(
    client: raftmeta.Client, source: Source, mapping: Mapping, *, timeout_s: float = 30.0
) -> Iterator[Difference]:
    """All differences between what a load would write and what the cluster has now, region by region.

    Leases are not compared: what is attached to one vanishes with it. Raises Compacted if the cluster forgets the
    revision meanwhile (its history is bounded): compare again.
    """
    # Through the log, so that no write that was acknowledged before is missing from this revision.
    revision = client.txn((), [Get(mapping.progress_key)], timeout_s=timeout_s).revision
    for number, region in enumerate(mapping.regions(source)):
        if number and not mapping.has_side:
            continue
        target = target_records(client, region, without=mapping.side, revision=revision, timeout_s=timeout_s)
        yield from merge(mapping.region(source, number), target)
