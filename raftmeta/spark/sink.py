"""Batches of rows into a store: each row of a batch once, by one driver.

    with Sink(client, "topic-settings") as sink:
        frame.writeStream.foreachBatch(sink.write).option("checkpointLocation", ...).start().awaitTermination()

The transaction of a batch writes and compares two keys of the sink:

    _raftmeta/sinks/NAME/driver     created anew by each driver that begins: its create revision is the driver's fence
    _raftmeta/sinks/NAME/batch      the newest batch: query, number, hash of its rows, how many of them are written

So the sink passes over a batch that comes again after a crash, and the store refuses a driver that was replaced,
whatever the driver believes. A batch is one transaction. A batch that is too large for one is refused before anything
is written. With `split` it becomes several transactions, in order of keys. Each of them says how many rows are written,
so a batch that comes again goes on where it ended.

It decides whether a batch is written, and which of its rows remain.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import raftmeta
from raftmeta.errors import ConfigError, Fenced, InvalidArgument, NotExecuted, OutcomeUnknown
from raftmeta.interfaces import FenceLike
from raftmeta.operations import CompareOperator, CreateRevision, Delete, Get, KeyRecord, ModRevision, Operation, Put
from raftmeta.recipes.keys import is_reserved, prefix_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Sink", "WrittenBatch"]

# A transaction has 10,000 operations and compares (OPS_MAX of bindings/commands), of which the sink needs four, and
# COMMAND_BYTES_MAX bytes (wire/commands.pxd), of which it leaves a part for what a command has beside keys and values.
ROWS_MAX = 9_996
BATCH_BYTES_MAX = 6 * 1024 * 1024 - 1024 * 1024
ROW_BYTES = 64  # of a row beside its key and value, at most
KEY_BYTES_MAX = 480
COLUMNS = ("op", "key", "value")
TRIES_MAX = 5  # of a batch of which a try was certainly not executed, or whose outcome is asked for


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """revision: of its last transaction. was_there: an earlier call had written the batch, and this one passed over it.

    transactions: made by this call; more than one only with `split`.
    """

    revision: int
    was_there: bool
    transactions: int = 1


class Sink:
    """The one driver of a sink; as a context it begins and ends.

    client: of the store; it stays the caller's. name: of the sink, the same for every run of the query. fence: a lead,
    lock, member or Fence that must be held for each batch as well. timeout_s: for each try of a transaction. split:
    write a batch that is larger than a transaction as several; a reader may then see a part of it.
    """

    def __init__(
        self,
        client: raftmeta.Client,
        name: str,
        *,
        fence: FenceLike | None = None,
        timeout_s: float = 30.0,
        split: bool = False,
    ) -> None:
        prefix = prefix_of("sinks", name)
        self._client = client
        self._name = name
        self._fence = fence
        self._timeout_s = timeout_s
        self._is_split = split
        self._driver_key, self._batch_key = f"{prefix}driver", f"{prefix}batch"
        self._epoch = 0  # create revision of the driver's key, 0: not begun

    def begin(self) -> Self:
        """Be the driver from now on; the store refuses an earlier driver from here on."""
        then: list[Operation] = [Delete(self._driver_key), Put(self._driver_key, b"")]
        self._epoch = self._client.txn([], then, timeout_s=self._timeout_s).revision
        return self

    def write(self, frame: DataFrame | pa.Table, batch: int, query: str | None = None) -> WrittenBatch:
        """Write the rows of a batch, all of them or none (with `split`: all remaining ones), unless they are there.

        frame: a DataFrame or table of Arrow with key (bytes or text), value (bytes or text), and op, "put" or "delete";
        without op every row is a put. A key may be there once. batch: its number; in one query they rise. query: whose
        batches they are; None: the id of the stream that calls this, "" without one.
        Raises InvalidArgument: the rows are wrong, or without `split` more than a transaction holds; nothing is
        written.
        Fenced: another driver of this sink has begun, or `fence` is not held; nothing more was written. ConfigError:
        this batch is older than the newest, another one of the same number, or the newest is half written.
        NotExecuted, OutcomeUnknown: as any write; write the same batch again.
        """
        if not self._epoch:
            raise ConfigError(f"sink {self._name!r}: begin() first, or use it as a context")
        whose = _query_of(frame) if query is None else query
        table = _rows_of(frame, None if self._is_split else ROWS_MAX + 1)
        operations = _operations(table, self._is_split)
        facts = {"query": whose, "batch": int(batch), "rows": len(operations), "hash": _hash(operations)}
        made, tries = 0, 0
        while True:
            there = self._client.get(self._batch_key, timeout_s=self._timeout_s)
            written = self._written(there, facts)
            if there is not None and written == len(operations):
                return WrittenBatch(there.mod_revision, made == 0, made)
            part = operations[written or 0 : _end_of_part(operations, written or 0)]
            try:
                self._commit(there, part, {**facts, "written": (written or 0) + len(part)})
            except (NotExecuted, OutcomeUnknown):
                tries += 1
                if tries == TRIES_MAX:
                    raise  # what became of it is looked up when it comes again
            else:
                made, tries = made + 1, 0

    def newest(self) -> tuple[str, int] | None:
        """Query and number of the newest batch; None before the first one."""
        there = self._client.get(self._batch_key, timeout_s=self._timeout_s)
        facts = None if there is None else json.loads(there.value)
        return None if facts is None else (str(facts["query"]), int(facts["batch"]))

    def _written(self, there: KeyRecord | None, facts: dict[str, Any]) -> int | None:
        """How many rows of this batch are in the store; None: it has not begun. Raises ConfigError."""
        if there is None:
            return None
        newest = json.loads(there.value)
        if newest["query"] != facts["query"]:
            return None
        written = int(newest.get("written", newest["rows"]))
        if facts["batch"] > newest["batch"]:
            if written < newest["rows"]:
                raise ConfigError(
                    f"sink {self._name!r}: batch {facts['batch']} comes before batch {newest['batch']} is whole, of "
                    f"which {written:,} of {newest['rows']:,} rows are written: write that one again first"
                )
            return None
        if facts["batch"] < newest["batch"]:
            raise ConfigError(
                f"sink {self._name!r}: batch {facts['batch']} comes after batch {newest['batch']} of the same query: "
                "give the query a name of its own"
            )
        if facts["hash"] != newest["hash"]:
            raise ConfigError(
                f"sink {self._name!r}: batch {facts['batch']} was written with other rows: the query does not give the "
                "same rows again, or another one has its name"
            )
        return written

    def _commit(self, there: KeyRecord | None, operations: list[Operation], facts: dict[str, Any]) -> int:
        compares: list[CompareOperator] = [
            CreateRevision(self._driver_key) == self._epoch,
            ModRevision(self._batch_key) == (0 if there is None else there.mod_revision),
        ]
        then = [*operations, Put(self._batch_key, json.dumps(facts, sort_keys=True))]
        otherwise = [Get(self._driver_key)]
        reply = self._client.txn(compares, then, otherwise, fence=self._fence, timeout_s=self._timeout_s)
        if reply.succeeded:
            return reply.revision
        driver = reply.results[0]
        if isinstance(driver, KeyRecord) and driver.create_revision == self._epoch:
            raise NotExecuted("the batch was written by this driver at the same time")  # looked at once more
        raise Fenced(f"sink {self._name!r}: another driver has begun since", revision=reply.revision)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Give back nothing: the next driver replaces this one."""


# --- rows -------------------------------------------------------------------------------------------------------------
def _query_of(frame: DataFrame | pa.Table) -> str:
    """The id of the calling stream, which its checkpoint keeps over restarts."""
    spark = getattr(frame, "sparkSession", None)
    return "" if spark is None else str(spark.sparkContext.getLocalProperty("sql.streaming.queryId") or "")


def _rows_of(frame: DataFrame | pa.Table, rows_max: int | None) -> pa.Table:
    names = getattr(frame, "columns" if hasattr(frame, "sparkSession") else "column_names")
    if "key" not in names or "value" not in names:
        raise InvalidArgument(f"frame: needs columns key and value, and has {', '.join(names)}", field="frame")
    if not hasattr(frame, "sparkSession"):
        return frame
    from pyspark.sql import functions as f

    wanted = [f.col(name) for name in COLUMNS if name in names]
    # One row more than fit is enough to say so: without `split` the driver never holds a batch that it cannot write.
    picked = frame.select(*wanted)
    return (picked if rows_max is None else picked.limit(rows_max)).toArrow()


def _operations(table: pa.Table, is_split: bool) -> list[Operation]:
    """One operation for each row, in order of keys. Raises InvalidArgument that names the row."""
    if len(table) > ROWS_MAX and not is_split:
        raise InvalidArgument(
            f"frame: more than {ROWS_MAX:,} rows; one transaction holds no more: write it as several (split), or make "
            "smaller batches (a limit of rows for each trigger)",
            field="frame",
        )
    found: dict[bytes, Operation] = {}
    size_bytes = 0
    ops = table["op"].to_pylist() if "op" in table.column_names else ["put"] * len(table)
    for op, key, value in zip(ops, table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
        key, value = _raw(key, "key"), _raw(value, "value")
        if key is None or not 1 <= len(key) <= KEY_BYTES_MAX:
            raise InvalidArgument(f"key: {key!r} is not 1 to {KEY_BYTES_MAX} bytes", field="key")
        if is_reserved(key):
            raise InvalidArgument(f"key: {key!r} belongs to the recipes of raftmeta", field="key")
        if key in found:
            raise InvalidArgument(f"key: {key!r} is in two rows of one batch, which have no order", field="key")
        if op not in ("put", "delete") or (op == "put" and value is None):
            raise InvalidArgument(f"op: {op!r} of {key!r} is no delete and no put with a value", field="op")
        found[key] = Delete(key) if op == "delete" else Put(key, value)
        row_bytes = len(key) + len(value or b"") + ROW_BYTES
        if row_bytes > BATCH_BYTES_MAX:
            raise InvalidArgument(
                f"value: that of {key!r} has {len(value or b''):,} bytes; one transaction holds {BATCH_BYTES_MAX:,}",
                field="value",
            )
        size_bytes += row_bytes
    if size_bytes > BATCH_BYTES_MAX and not is_split:
        raise InvalidArgument(
            f"frame: {size_bytes:,} bytes; one transaction holds {BATCH_BYTES_MAX:,}: write it as several (split), or "
            "make smaller batches",
            field="frame",
        )
    return [found[key] for key in sorted(found)]


def _end_of_part(operations: list[Operation], begin: int) -> int:
    """The index behind the last operation that one transaction holds, beginning with operation `begin`."""
    size_bytes = 0
    for place in range(begin, min(len(operations), begin + ROWS_MAX)):
        one = operations[place]
        assert isinstance(one, Put | Delete)
        size_bytes += len(one.key) + len(getattr(one, "value", b"") or b"") + ROW_BYTES
        if size_bytes > BATCH_BYTES_MAX:
            return place
    return min(len(operations), begin + ROWS_MAX)


def _raw(text: Any, field: str) -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise InvalidArgument(f"{field}: must be bytes or text, not {type(text).__name__}", field=field)


def _hash(operations: list[Operation]) -> str:
    digest = hashlib.sha256()
    for one in operations:
        assert isinstance(one, Put | Delete)
        for part in (type(one).__name__.encode(), one.key, getattr(one, "value", b"")):
            raw = part.encode() if isinstance(part, str) else part or b""
            digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
