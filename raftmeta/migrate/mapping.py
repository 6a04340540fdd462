"""What becomes of an item of the old system in the store: one table, the same for loading and for comparing.

    prefix + key                        the value
    side prefix + "item/" + key         what the store has no field for (rights, versions, times), as JSON
    side prefix + "counter/" + key      where the numbers of sequential children go on, as a counter that `add` moves
    side prefix + "progress"            how far the load is; it stays, as a note of where the data came from

It decides names only. Keys begin with the whole of their prefix, so each of the three regions is sorted like the items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from raftmeta import InvalidArgument
from raftmeta.migrate.items import Item, Source
from raftmeta.migrate.problems import NotMigratable

__all__ = ["HELD", "KEY_BYTES_MAX", "Mapping", "Plan", "Record", "plan"]

KEY_BYTES_MAX = 480  # of the store: docs/formats.md "Commands"
VALUE_BYTES_MAX = 1 << 20  # Config.value_bytes_max, unless the caller says how much the cluster allows
EXAMPLES = 3  # of what cannot be migrated, in an error
HELD = ("drop", "keep", "lease")
_DATA, _SIDE, _COUNTER = range(3)


class Record(NamedTuple):
    """One key to be written. holder: of the item, where it is attached to a lease; else 0.

    is_counter: it becomes a counter, which `add` moves; the value shows its number.
    """

    key: bytes
    value: bytes
    holder: int = 0
    is_counter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """prefix: of all data. side: of everything else. has_side: write what the store has no field for.

    held: what becomes of keys that vanish with a session or a lease: "drop" leaves them out, "keep" makes them keys
    like any other, "lease" attaches them to a lease of the same time. Dropping is done by the source.
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

    def regions(self, source: Source) -> list[bytes]:
        """What the keys begin with: data, side, counters."""
        return [self.prefix + source.root, self.side + b"item/", self.side + b"counter/"]

    def records(self, item: Item) -> list[Record]:
        """All that is written for an item, in one transaction."""
        key, value, metadata, holder, counter, is_counter = item
        found = [Record(self.prefix + key, value, holder if self.held == "lease" else 0, is_counter)]
        if self.has_side:
            found.append(Record(self.side + b"item/" + key, metadata.encode()))
            if counter is not None:
                found.append(Record(self.side + b"counter/" + key, counter.to_bytes(8, "big", signed=True), 0, True))
        return found

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
    """What a load will write. fingerprint: of all of it, so that a load is only gone on with from the same source."""

    items: int
    records: int
    key_bytes: int
    value_bytes: int
    holders: int
    dropped: Counter[str]
    fingerprint: str


def plan(source: Source, mapping: Mapping, *, value_bytes_max: int = VALUE_BYTES_MAX) -> Plan:
    """Look at everything that would be written, without writing.

    Raises NotMigratable, with examples: keys or values that the store does not take, or that meet the side keys.
    """
    fingerprint = sha256()
    update = fingerprint.update
    items = records = key_bytes = value_bytes = 0
    holders: set[int] = set()
    refused: list[str] = []
    count = 0
    for item in source.items():
        items += 1
        for key, value, holder, is_counter in mapping.records(item):
            records += 1
            key_bytes += len(key)
            value_bytes += len(value)
            update(b"%d %d %d %d %b%b" % (len(key), len(value), holder, is_counter, key, value))
            if len(key) > KEY_BYTES_MAX or len(value) > value_bytes_max:
                count += 1
                refused.append(f"{key[:60]!r} has {len(key)} bytes, its value {len(value)}")
        if item.holder:
            holders.add(item.holder)
        if (mapping.prefix + item.key).startswith(mapping.side):
            count += 1
            refused.append(f"{item.key[:60]!r} begins with the side prefix")
        del refused[EXAMPLES:]
    if count:
        raise NotMigratable(
            f"{count} keys cannot be migrated, for instance {'; '.join(refused)} (a key has at most {KEY_BYTES_MAX} "
            f"bytes with its prefix, a value {value_bytes_max}): shorten the prefixes, raise value_bytes_max of the "
            "cluster, or remove them",
            count=count,
        )
    return Plan(items, records, key_bytes, value_bytes, len(holders), Counter(source.dropped), fingerprint.hexdigest())
