"""The changes of a store as a stream of Spark, each once over restarts. It needs the extra spark and Java 17.

    python examples/stream.py /tmp/stream-example

A cluster of three nodes in this process gets orders in transactions. A stream writes them into Parquet, ends, and goes
on from its checkpoint with later orders, while one node is killed. At the end the example compares the files with the
store. With a cluster of yours the url is raft://host:port,host:port.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import raftmeta
from raftmeta.operations import Put
from raftmeta.spark import spark_session
from raftmeta.testing import Cluster

EACH = 10  # transactions before the first run, and between it and the second


def place_orders(node: raftmeta.Node, first: int) -> None:
    for number in range(first, first + EACH):
        node.txn([], [Put(f"orders/{number}", "placed"), Put("orders/last", str(number))])


def follow(spark: SparkSession, url: str, folder: Path) -> None:
    """Write all present changes, from the checkpoint on. Without the trigger the stream goes on until it is stopped."""
    changes = spark.readStream.format("raftmeta").options(
        url=url, table="changes", prefix="orders/", revisions_per_batch="4"
    )
    query = (
        changes.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "changes"))
    )
    query.awaitTermination()


def main(folder: Path) -> list[tuple[int, int]]:
    """Run it; return revision and place of each change that the stream wrote."""
    (folder / "cluster").mkdir(parents=True, exist_ok=True)
    config = raftmeta.Config(local_clients=True)
    with Cluster(3, folder=folder / "cluster", config=config) as cluster, spark_session("local[2]") as spark:
        url = f"raft+unix://{folder / 'cluster' / 'a'}"
        place_orders(cluster.node("a"), 0)
        follow(spark, url, folder)
        cluster.kill("b")
        place_orders(cluster.node("a"), EACH)
        follow(spark, url, folder)
        rows = spark.read.parquet(str(folder / "changes")).select("revision", "sub").collect()
        tip = cluster.node("a").status().revision
    found = sorted((row.revision, row.sub) for row in rows)
    assert found == [(revision, sub) for revision in range(1, tip + 1) for sub in (0, 1)], "not exactly once"
    print(f"{len(found)} changes, each once; the last revision is {tip}")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
