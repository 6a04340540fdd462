"""The keys in the store for an item of the old system: one table, the same for loading and for comparing.

    prefix + key                        the value
    side prefix + "item/" + key         facts that the store has no field for (rights, versions, times), as JSON
    side prefix + "counter/" + key      the next number of sequential children, as a counter that `add` moves
    side prefix + "progress"            how far the load is; it stays, as a note of where the data came from

It decides names only. Keys begin with the whole of their prefix, so each of the three regions is sorted like the items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from raftmeta import InvalidArgument
from raftmeta.migrate.items import Item, Record, Source
from raftmeta.migrate.problems import NotMigratable
from raftmeta.migrate.records_handle import Names

__all__ = ["HELD", "KEY_BYTES_MAX", "Mapping", "Plan", "Record", "plan"]

KEY_BYTES_MAX = 480  # of the store: docs/formats.md "Commands"
VALUE_BYTES_MAX = 1 << 20  # Config.value_bytes_max, unless the caller says how much the cluster allows
EXAMPLES = 3  # of what cannot be migrated, in an error
HELD = ("drop", "keep", "lease")
PLANNED_ITEMS = 256  # looked at together, or as many as have so many bytes in values
PLANNED_BYTES = 2 << 20
_DATA = 0  # the first region


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """prefix: of all data. side: of everything else. has_side: write the facts that the store has no field for.

    held: decides about keys that vanish with a session or a lease. "drop" leaves them out, "keep" makes them keys like
    any other, "lease" attaches them to a lease of the same time. The source does the dropping.
    """

    side: bytes
    prefix: bytes = b""
    has_side: bool = True
    held: str = "drop"

    def __post_init__(self) -> None:
        if self.held not in HELD:
            raise InvalidArgument(f"held: one of {', '.join(HELD)}, not {self.held!r}", field="held")
        if not self.side or len(self.side) > KEY_BYTES_MAX // 2:
            raise InvalidArgument("side: a prefix of 1 to 240 bytes", field="side")
        if self.prefix.startswith(self.side):
            raise InvalidArgument("prefix: must not begin with the side prefix, whose keys are no data", field="prefix")

    @property
    def progress_key(self) -> bytes:
        return self.side + b"progress"

    @cached_property
    def names(self) -> Names:
        """The object that makes records of items."""
        regions = (self.prefix, self.side + b"item/", self.side + b"counter/")
        return Names(*regions, has_side=self.has_side, is_leased=self.held == "lease")

    def regions(self, source: Source) -> list[bytes]:
        """The beginnings of the keys: data, side, counters."""
        return [self.prefix + source.root, self.side + b"item/", self.side + b"counter/"]

    def records(self, item: Item) -> list[Record]:
        """All records for an item, in one transaction."""
        return self.names.records(item)

    def region(self, source: Source, number: int) -> Iterator[Record]:
        """The records of one region, in order of their keys."""
        if number != _DATA and not self.has_side:
            return
        for item in source.items():
            records = self.records(item)
            if number < len(records):
                yield records[number]


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a load. fingerprint: of all of it, so that only a load from the same source goes on."""

    items: int
    records: int
    key_bytes: int
    value_bytes: int
    holders: int
    dropped: Counter[str]
    fingerprint: str


def plan(source: Source, mapping: Mapping, *, value_bytes_max: int = VALUE_BYTES_MAX) -> Plan:
    """Look at every key to write, without writing.

    Raises NotMigratable, with examples: keys or values that the store does not take, or that meet the side keys.
    """
    fingerprint = sha256()
    items = records = key_bytes = value_bytes = 0
    holders: set[int] = set()
    refused: list[str] = []
    count = 0
    for chunk in _chunks(source.items()):
        found = mapping.names.look(chunk, mapping.side, KEY_BYTES_MAX, value_bytes_max)
        raw, new_records, new_key_bytes, new_value_bytes, large, astray = found
        fingerprint.update(raw)
        items += len(chunk)
        records += new_records
        key_bytes += new_key_bytes
        value_bytes += new_value_bytes
        holders.update(item.holder for item in chunk if item.holder)
        count += len(large) + len(astray)
        refused += [f"{one.key[:60]!r} has {len(one.key)} bytes, its value {len(one.value)}" for one in large]
        refused += [f"{one.key[:60]!r} begins with the side prefix" for one in astray]
        del refused[EXAMPLES:]
    if count:
        raise NotMigratable(
            f"{count} keys cannot be migrated, for instance {'; '.join(refused)} (a key has at most {KEY_BYTES_MAX} "
            f"bytes with its prefix, a value {value_bytes_max}): shorten the prefixes, raise value_bytes_max of the "
            "cluster, or remove them",
            count=count,
        )
    return Plan(items, records, key_bytes, value_bytes, len(holders), Counter(source.dropped), fingerprint.hexdigest())


def _chunks(items: Iterator[Item]) -> Iterator[list[Item]]:
    """All items, some at a time: so few that their copies take little beside the largest value."""
    found: list[Item] = []
    size = 0
    for item in items:
        found.append(item)
        size += len(item.value)
        if len(found) == PLANNED_ITEMS or size >= PLANNED_BYTES:
            yield found
            found, size = [], 0
    if found:
        yield found
