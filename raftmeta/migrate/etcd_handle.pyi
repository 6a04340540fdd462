"""The loops over all rows of an etcd database: they run a million times, and do what bolt.py and etcd.py say.

They read a leaf page of bbolt (little-endian), and a row of the bucket `key`: revision, "_", sub revision and "t" for a
tombstone, all big-endian, then mvccpb.KeyValue of api/v3 kv.proto. Bytes without sense raise a ValueError.
"""

from __future__ import annotations

def leaf_of(page: bytes, previous: bytes | None) -> list[tuple[bytes, bytes, int]]:
    """(key, value, flags) of the elements of a leaf page. previous: the key before them, or None: they go upward."""

def changes_of(rows: list[tuple[bytes, bytes, int]]) -> list[tuple[int, int, bytes, bytes, int, int, int, bool]]:
    """The fields of EtcdChange of each row of a leaf."""

def fold(rows: list[tuple[bytes, bytes, int]], last: dict[bytes, bytes]) -> int:
    """Set the last change of each key, as four native numbers (create, mod, version, lease) and the value.

    A deletion has only zeros. Returns the revision of the last row, 0 without one.
    """
