"""The small tables of churn as Arrow, with their columns: the same ones whether they have rows or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["tables_of"]

TIME = pa.timestamp("us", "UTC")
SCHEMAS = {
    "brokers": pa.schema(
        [
            ("revision", pa.int64()),
            ("ts", TIME),
            ("broker", pa.string()),
            ("event", pa.string()),
            ("epoch", pa.int64()),
            ("rack", pa.string()),
            ("endpoints", pa.list_(pa.string())),
            ("lease", pa.int64()),
        ]
    ),
    "controllers": pa.schema(
        [
            ("revision", pa.int64()),
            ("ts", TIME),
            ("controller", pa.string()),
            ("epoch", pa.int64()),
            ("duration_ms", pa.int64()),
            ("vacant_ms", pa.int64()),
        ]
    ),
    "outages": pa.schema(
        [
            ("started", TIME),
            ("revision", pa.int64()),
            ("brokers", pa.list_(pa.string())),
            ("within_ms", pa.int64()),
            ("are_back", pa.bool_()),
            ("lasted_ms", pa.int64()),
        ]
    ),
    "unreadable": pa.schema([("revision", pa.int64()), ("key_text", pa.string()), ("raw", pa.string())]),
}


def tables_of(*rows: list[dict[str, Any]]) -> dict[str, pa.Table]:
    """rows: of brokers, controllers, outages and unreadable, in this order; fields that no column has are dropped."""
    return {
        name: pa.Table.from_pylist(these, schema=schema)
        for (name, schema), these in zip(SCHEMAS.items(), rows, strict=True)
    }
