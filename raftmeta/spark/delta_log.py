"""A Delta log beside the changes of a lake: other engines, which read by path, see exactly the files that count.

    changes/_delta_log/<version>.json                   files that came and went, a line each
    changes/_delta_log/<version>.checkpoint.parquet     all files that count as of a version

A lake's own list is lake.json. One commit brings the log up to it, after lake.json was replaced and before a file goes
that it no longer names. So at every moment the table is what some lake.json said. After a crash it may be one step
behind, and the next driver makes that step first. This module writes the commits itself, because no library of Delta
can replace some files by others in one commit without writing the data itself (deltalake 1.6 appends, or overwrites
everything). Source: Delta Transaction Log Protocol, reader version 1, writer version 2.

It decides what the log says. It never decides which files count.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from raftmeta.errors import ConfigError
from raftmeta.spark.folders import write_json, written

__all__ = ["LOG", "bring_up"]

LOG = "_delta_log"
CHECKPOINT_EACH = 100  # commits; older ones than those of the checkpoint before are removed
LAST_CHECKPOINT = "_last_checkpoint"
COLUMNS = (
    ("revision", "long", False),
    ("sub", "integer", False),
    ("ts", "timestamp", False),
    ("op", "string", False),
    ("key", "binary", False),
    ("key_text", "string", False),
    ("value", "binary", True),
    ("prev_value", "binary", True),
    ("lease", "long", True),
    ("prev_lease", "long", True),
    ("create_revision", "long", True),
    ("prev_revision", "long", True),
    ("version", "long", True),
    ("day", "date", True),
)
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
ROOT = "changes/"  # of the table, in the lake


class Counted(Protocol):
    """A file of changes that counts, as lake.json tells it."""

    @property
    def file(self) -> str: ...
    @property
    def day(self) -> str: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


Actions = dict[str, dict[str, Any]]  # `add` of each file that counts, by its path


def bring_up(folder: Path, cluster: str, files: Iterable[Counted]) -> None:
    """Make the log of the lake in this folder name these files, in one commit if it does not.

    cluster: id of the store. Raises ConfigError for a log that is damaged.
    """
    log = folder / ROOT / LOG
    version, there = _read(log)
    wanted = {one.file.removeprefix(ROOT): one for one in files}
    gone = there.keys() - wanted.keys()
    new = [path for path in wanted if path not in there]
    if version >= 0 and not gone and not new:
        return
    now_ms = time.time_ns() // 1_000_000
    has_data = not gone  # a merge adds rows that are there already; readers of changes pass it over
    lines: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now_ms, "operation": "WRITE", "engineInfo": "raftmeta"}}
    ]
    if version < 0:
        lines += [{"protocol": PROTOCOL}, {"metaData": _metadata(cluster, now_ms)}]
    for path in sorted(gone):
        lines.append({"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": has_data}})
        del there[path]
    for path in new:
        there[path] = _added(path, wanted[path], now_ms, has_data)
        lines.append({"add": there[path]})
    version += 1
    with written(log / f"{version:020}.json") as half:
        half.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    if version and version % CHECKPOINT_EACH == 0:
        _write_checkpoint(log, version, cluster, now_ms, there)


def _metadata(cluster: str, now_ms: int) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": null, "metadata": {}} for name, kind, null in COLUMNS]
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, cluster)),
        "name": "changes",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {},
        "createdTime": now_ms,
    }


def _added(path: str, one: Counted, now_ms: int, has_data: bool) -> dict[str, Any]:
    bounds = {"numRecords": one.rows, "minValues": {"revision": one.first}, "maxValues": {"revision": one.last}}
    return {
        "path": path,
        "partitionValues": {"day": one.day},
        "size": one.size_bytes,
        "modificationTime": now_ms,
        "dataChange": has_data,
        "stats": json.dumps({**bounds, "nullCount": {"revision": 0}}),
    }


# --- what the log says ------------------------------------------------------------------------------------------------
def _read(log: Path) -> tuple[int, Actions]:
    """The version of a log, -1 without one, and the files that it names."""
    version, there = -1, {}
    try:
        if (log / LAST_CHECKPOINT).exists():
            version = int(json.loads((log / LAST_CHECKPOINT).read_text(encoding="utf-8"))["version"])
            there = _read_checkpoint(log, version)
        while (commit := log / f"{version + 1:020}.json").exists():
            for line in commit.read_text(encoding="utf-8").splitlines():
                action = json.loads(line)
                if "add" in action:
                    there[action["add"]["path"]] = action["add"]
                elif "remove" in action:
                    there.pop(action["remove"]["path"], None)
            version += 1
    except (ValueError, KeyError, OSError) as error:
        raise ConfigError(
            f"{log}: damaged: {error}; remove the folder, and the next feed writes the log anew from lake.json"
        ) from None
    return version, there


def _read_checkpoint(log: Path, version: int) -> Actions:
    import pyarrow.parquet as pq

    rows = pq.read_table(log / f"{version:020}.checkpoint.parquet", columns=["add"])["add"].to_pylist()
    adds = [{**row, "partitionValues": dict(row["partitionValues"])} for row in rows if row is not None]
    return {row["path"]: row for row in adds}


def _write_checkpoint(log: Path, version: int, cluster: str, now_ms: int, there: Actions) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pairs = pa.map_(pa.string(), pa.string())
    kinds = {
        "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", pairs)])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("configuration", pairs),
                ("createdTime", pa.int64()),
            ]
        ),
        "add": pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", pairs),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", pa.string()),
            ]
        ),
    }
    metadata = _metadata(cluster, now_ms)
    metadata = {**metadata, "format": {"provider": "parquet", "options": []}, "configuration": []}
    adds = [{**one, "partitionValues": list(one["partitionValues"].items())} for one in there.values()]
    rows: list[dict[str, Any]] = [{"protocol": PROTOCOL}, {"metaData": metadata}, *({"add": one} for one in adds)]
    columns = [pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()]
    with written(log / f"{version:020}.checkpoint.parquet") as half:
        pq.write_table(pa.table(columns, names=list(kinds)), half)
    write_json(log / LAST_CHECKPOINT, {"version": version, "size": len(rows)})
    for old in log.glob("*"):
        number = old.name.partition(".")[0]
        if number.isdecimal() and int(number) < version - CHECKPOINT_EACH:
            old.unlink()
