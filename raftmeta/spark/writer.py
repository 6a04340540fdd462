"""`write.format("raftmeta")` and `writeStream.format("raftmeta")`: rows into a store, once, as a Sink writes them.

    frame.write.format("raftmeta").options(url="raft://h1:7100", sink="topic-settings").mode("append").save()
    stream.writeStream.format("raftmeta").options(url=..., sink=..., checkpointLocation=...).start()

Tasks only read. The rows of a batch travel to the driver with the messages of the tasks, and the driver writes them. So
a task that runs twice writes nothing twice, and a batch with a failed task is not written at all.

Spark makes a writer anew for each batch, so a writer cannot hold the fence that a Sink holds from its beginning.
Instead the newest batch decides: a query that begins (batch 0) replaces the one before it, and a replaced query is
refused at its next batch.

It decides whose batch may be written. raftmeta/spark/sink.py decides what is written, and that it is written once.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

import raftmeta
from raftmeta.errors import Fenced, InvalidArgument
from raftmeta.spark.options import SinkOptions
from raftmeta.spark.shipping import travelling
from raftmeta.spark.sink import COLUMNS, Sink

__all__ = ["BatchWriter", "StreamWriter"]


@dataclass
class Rows(WriterCommitMessage):
    """The rows of a task, as a stream of Arrow."""

    raw: bytes


def _collected(batches: Iterator[pa.RecordBatch]) -> Rows:
    """The columns of a sink from the batches of a task. A task without rows has no batch, and sends none."""
    sent = io.BytesIO()
    writer = None
    for batch in batches:
        picked = batch.select([name for name in COLUMNS if name in batch.schema.names])
        if writer is None:
            writer = pa.ipc.new_stream(sent, picked.schema)
        writer.write_batch(picked)
    if writer is not None:
        writer.close()
    return Rows(sent.getvalue())


def _table_of(messages: Sequence[WriterCommitMessage | None]) -> pa.Table:
    tables = [pa.ipc.open_stream(one.raw).read_all() for one in messages if isinstance(one, Rows) and one.raw]
    if not tables:
        return pa.table({"key": pa.array([], pa.binary()), "value": pa.array([], pa.binary())})
    return pa.concat_tables(tables)


class _Writer:
    def __init__(self, options: Mapping[str, str], names: Sequence[str], overwrite: bool) -> None:
        """Raises InvalidArgument that names a wrong option or a missing column."""
        self._given, self._names, self._overwrite = dict(options), list(names), overwrite
        self._options = SinkOptions.parse(options)
        if overwrite:
            raise InvalidArgument("mode: a store is added to: .mode('append'), outputMode('append')", field="mode")
        if missing := [name for name in ("key", "value") if name not in names]:
            raise InvalidArgument(
                f"frame: has no column {', '.join(missing)}; a sink takes key, value, and op if there are deletes",
                field="frame",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(self, (self._given, self._names, self._overwrite))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of a task to the driver."""
        return _collected(iterator)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch: int, query: str) -> None:
        options = self._options
        with raftmeta.Client(options.url, cluster=options.cluster) as client:
            client.ready(options.timeout_s)
            sink = Sink(client, options.sink, timeout_s=options.timeout_s, split=options.split)
            newest = sink.newest()
            if newest is not None and newest[0] != query and batch > 0:
                raise Fenced(
                    f"sink {options.sink!r}: its newest batch is number {newest[1]} of the query {newest[0]!r}, which "
                    f"replaced this one ({query!r}, batch {batch}): begin with a new checkpoint, or use another sink"
                )
            sink.begin().write(_table_of(messages), batch, query)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """A DataFrame into a store, in one batch."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write all rows, on the driver."""
        query = self._options.query or uuid.uuid4().hex
        self._commit(messages, self._options.batch, query)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The batches of a stream into a store."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Write all rows of a batch, on the driver; pass over a batch that comes again."""
        self._commit(messages, batchId, self._options.query or _query_at(self._options.checkpoint))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: nothing was written, so there is nothing to take back."""


def _query_at(checkpoint: str) -> str:
    """The id of the query with this checkpoint; if the checkpoint cannot be read here, its name."""
    metadata = Path(unquote(urlsplit(checkpoint).path)) / "metadata"
    try:
        return str(json.loads(metadata.read_text(encoding="utf-8").splitlines()[-1])["id"])
    except (OSError, ValueError, KeyError, IndexError):
        return checkpoint
