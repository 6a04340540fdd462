"""The differences between an old system and a cluster: a merge of two sorted streams, in the memory of one page.

It decides equality of records as a load would write them, one region after another (raftmeta/migrate/mapping.py). It
reads the cluster at one revision, so that later writes do not make a mixture of states. An update needs this merge,
because an update writes in the order of keys. So does a machine without Java; raftmeta/spark/comparison.py makes a join
instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import raftmeta
from raftmeta.migrate.items import Record, Source
from raftmeta.migrate.mapping import Mapping
from raftmeta.operations import Get, KeyRecord, prefix_end
from raftmeta.scan import ClusterScan, node_urls

__all__ = ["Difference", "compare", "compared_revision", "compared_spans", "merge", "target_records"]

PAGE_KEYS = 2000  # of one answer, which is of a mebibyte at most
Keyed = TypeVar("Keyed", Record, KeyRecord)


class Difference(NamedTuple):
    """One key that differs. what: "missing" in the cluster, "extra" there, or "differs".

    source: the record that a load would write, None if extra. target: the record in the cluster, None if missing.
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
    """The records with a prefix at one revision, one answer of a node after the other; without: a prefix to leave out.

    revision: 0: the newest. Raises Compacted, FutureRevision, and NotExecuted when no node answers.
    """
    with ClusterScan(node_urls(client.url), cluster=client.cluster, timeout_s=timeout_s) as scan:
        revision = revision or scan.newest()
        for start, end in _spans(prefix, without):
            for page in scan.records(start, end, revision, limit=PAGE_KEYS):
                yield from page


def _spans(prefix: bytes, without: bytes) -> list[tuple[bytes, bytes]]:
    """The ranges [start, end) of the keys with one prefix and not the other."""
    if without.startswith(prefix) and without:
        return [(prefix, without), (prefix_end(without), prefix_end(prefix))]
    return [(prefix, prefix_end(prefix))]


def compared_revision(client: raftmeta.Client, mapping: Mapping, *, timeout_s: float = 30.0) -> int:
    """The revision to compare at. Raises as client.txn()."""
    # Through the log, so that no write that was acknowledged before is missing from this revision.
    return int(client.txn((), [Get(mapping.progress_key)], timeout_s=timeout_s).revision)


def compared_spans(source: Source, mapping: Mapping) -> list[tuple[int, list[tuple[bytes, bytes]]]]:
    """(number of a region, the ranges [start, end) of its keys in the cluster) of all compared keys."""
    regions = list(enumerate(mapping.regions(source)))
    return [(number, _spans(region, mapping.side)) for number, region in regions if not number or mapping.has_side]


def compare(
    client: raftmeta.Client, source: Source, mapping: Mapping, *, timeout_s: float = 30.0
) -> Iterator[Difference]:
    """All differences between the records that a load would write and those of the cluster now, region by region.

    Leases are not compared: a key that is attached to one vanishes with it. Raises Compacted if the cluster forgets the
    revision meanwhile (its history is bounded): compare again.
    """
    revision = compared_revision(client, mapping, timeout_s=timeout_s)
    for number, region in enumerate(mapping.regions(source)):
        if number and not mapping.has_side:
            continue
        target = target_records(client, region, without=mapping.side, revision=revision, timeout_s=timeout_s)
        yield from merge(mapping.region(source, number), target)
