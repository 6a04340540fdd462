"""Keys for the page: folders and keys below a prefix, one key with its value, and what it was before."""

from __future__ import annotations

from typing import Any

from raftmeta.aio import Client
from raftmeta.dashboard.shapes import key_id, key_shape, record_shape, value_shape
from raftmeta.errors import Compacted
from raftmeta.operations import KeyRecord

__all__ = ["folder_shape", "history_shape", "key_page"]

PAGE_KEYS = 100
HISTORY_MAX = 20
TIMEOUT_S = 5.0
DELIMITER = b"/"


async def folder_shape(client: Client, prefix: bytes, start: bytes, *, revision: int, flat: bool) -> dict[str, Any]:
    """A page of the keys below a prefix in order, those with a `/` behind it as folders. flat: without folders."""
    found = await client.range(
        start,
        prefix=prefix,
        limit=PAGE_KEYS,
        revision=revision,
        delimiter=None if flat else DELIMITER,
        timeout_s=TIMEOUT_S,
    )
    rows = [(record.key, {"kind": "key", **record_shape(record)}) for record in found.records]
    rows += [(folder, {"kind": "folder", **key_shape(folder)}) for folder in found.prefixes]
    rows.sort(key=lambda row: row[0])
    return {
        "prefix": key_shape(prefix),
        "revision": found.revision,
        "rows": [shape for _, shape in rows],
        "next": key_id(found.next_start) if found.more else "",
    }


async def key_page(client: Client, key: bytes, *, revision: int) -> dict[str, Any]:
    """A key with its value, as of a revision; 0: now."""
    record = await client.get(key, revision=revision, timeout_s=TIMEOUT_S)
    return {**key_shape(key), "record": None if record is None else _whole(record)}


def _whole(record: KeyRecord) -> dict[str, Any]:
    return {**record_shape(record), "value": value_shape(record.value)}


async def history_shape(client: Client, key: bytes, *, revision: int) -> dict[str, Any]:
    """The values that a key had, newest first, back to its creation or to the floor of the history.

    end: "created", "compacted" (older values are gone), or "more" (the next page begins before the last one).
    """
    shapes: list[dict[str, Any]] = []
    end, at = "created", revision
    while True:
        try:
            record = await client.get(key, revision=at, timeout_s=TIMEOUT_S)
        except Compacted:
            end = "compacted"
            break
        if record is None:
            break
        if len(shapes) == HISTORY_MAX:
            end = "more"
            break
        shapes.append(_whole(record))
        if record.version == 1:
            break
        at = record.mod_revision - 1
    return {**key_shape(key), "values": shapes, "end": end}
