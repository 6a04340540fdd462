"""The loops over all items of a migration: they run a million times, and do what mapping.py and loader.py say.

They decide nothing: names of keys are those of the mapping, limits those of the loader and of the store. They take and
give objects of Python, with the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from raftmeta.migrate.items import Item, Record
from raftmeta.operations import Operation

class Names:
    """Beginnings of keys. data: the prefix; side, counters: of side keys and counters.

    has_side: there are such. is_leased: records name the holder of their item.
    """

    def __init__(self, data: bytes, side: bytes, counters: bytes, *, has_side: bool, is_leased: bool) -> None: ...
    def records(self, item: Item) -> list[Record]:
        """All that is written for an item: data, side key, counter."""
    def look(
        self, items: list[Item], astray: bytes, key_bytes_max: int, value_bytes_max: int
    ) -> tuple[bytes, int, int, int, list[Record], list[Record]]:
        """The cost of writing items: (fingerprint bytes, records, bytes of keys, of values, too large, astray).

        The last two are lists of records: with a key or value above the limit, and of data whose keys begin with
        `astray`.
        """
    def fill(
        self, items: Iterator[Item], ahead: Item | None, records_max: int, bytes_max: int
    ) -> tuple[int, bytes | None, list[Record], Item | None]:
        """One batch from an iterator: (items taken, key of the last one or None, records, the item behind it or None).

        ahead: the item behind the batch before, or None. A batch has at most so many records, and so many bytes in
        keys and values; the records of one item are never parted, and one item may have more of both.
        """

def new_keys(records: list[Record], leases: Mapping[int, int]) -> list[Operation]:
    """The operations that write records whose keys are not there. leases: the lease of each holder that they name."""
