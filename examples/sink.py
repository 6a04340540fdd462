"""A stream written into a store: each batch once, whatever is killed. It needs the extra spark and Java 17.

    python examples/sink.py /tmp/sink-example

Settings of topics lie as JSON in a folder, as some other job left them. A stream of Spark puts each into the store, a
few files in each transaction. Run it again: it writes nothing twice. In a program of yours the client is one of your
cluster.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path

from pyspark.sql import DataFrame

import raftmeta
from raftmeta.spark import Sink, spark_session

PREFIX = "settings/"


def left_by_another_job(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(5):
        settings = {"topic": f"topic-{number}", "retention_days": number + 1}
        (folder / f"{number}.json").write_text(json.dumps(settings))


def write_stream(client: raftmeta.Client, folder: Path) -> None:
    """Run the stream until it has written all present files."""
    with Sink(client, "topic-settings") as sink, spark_session("local[2]") as spark:

        def write(batch: DataFrame, number: int) -> None:
            sink.write(batch, number)

        files = spark.readStream.schema("topic string, retention_days int").option("maxFilesPerTrigger", 2)
        settings = files.json(str(folder / "in")).selectExpr(
            f"concat('{PREFIX}', topic) as key", "to_json(struct(retention_days)) as value"
        )
        stream = settings.writeStream.foreachBatch(write).trigger(availableNow=True)
        stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def main(folder: Path) -> dict[str, int]:
    """Run it; return the days of each key that the store has at the end."""
    if not (folder / "in").exists():
        left_by_another_job(folder / "in")
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        peer, listen = (f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    with raftmeta.Node("a", peers={"a": peer}, data_dir=folder / "a", client_listen=listen) as node:
        node.ready(10)
        with raftmeta.Client(f"raft://{listen}") as client:
            write_stream(client, folder)
            records = client.range(prefix=PREFIX).records
    assert all(record.version == 1 for record in records), "something was written twice"
    for record in records:
        print(record.key.decode(), record.value.decode())
    return {record.key.decode(): json.loads(record.value)["retention_days"] for record in records}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
