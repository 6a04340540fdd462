"""A store as tables of Spark: keys, changes, members, leases. It needs the extra spark and Java 17.

    python examples/tables.py /tmp/tables-example

A cluster of three nodes in this process gets topics and brokers, whose keys go with leases. Spark reads them from the
running cluster, as of now and as of an earlier revision, and from a backup. With a cluster of yours the url is
raft://host:port,host:port, and `pipeline sizes` and `pipeline history` answer without a program.
"""

from __future__ import annotations

import sys
from pathlib import Path

import raftmeta
from raftmeta import snapshot
from raftmeta.spark import read, spark_session
from raftmeta.testing import Cluster


def change_topics(node: raftmeta.Node, leases: list[raftmeta.Lease]) -> int:
    """Make some changes; return the revision before retention was changed.

    leases: takes the leases of the brokers. A lease is kept alive as long as somebody holds its object.
    """
    for broker in (1, 2, 3):
        leases.append(node.lease(60.0))
        node.put(f"brokers/{broker}", f"10.0.0.{broker}:9092", lease=leases[-1])
    for topic in range(20):
        node.put(f"topics/{topic:02}", '{"retention_hours":24}')
    before = node.status().revision
    for topic in range(5):
        node.put(f"topics/{topic:02}", '{"retention_hours":72}')
    node.delete("topics/19")
    return before


def main(folder: Path) -> dict[str, int]:
    """Run it; return the answer to each question."""
    (folder / "cluster").mkdir(parents=True, exist_ok=True)
    config = raftmeta.Config(local_clients=True)
    found = {}
    with Cluster(3, folder=folder / "cluster", config=config) as cluster, spark_session("local[2]") as spark:
        leases: list[raftmeta.Lease] = []
        before = change_topics(cluster.leader(), leases)
        url = f"raft+unix://{folder / 'cluster' / 'a'}"

        # 1. The keys of now. A query sees one revision, whatever is written meanwhile.
        topics = read(spark, url=url, prefix="topics/")
        found["topics"] = topics.count()
        topics.selectExpr("key_text", "get_json_object(cast(value as string), '$.retention_hours') as hours").groupBy(
            "hours"
        ).count().show()

        # 2. The keys of then, by revision; only the columns that are wanted.
        found["topics_before"] = read(spark, url=url, prefix="topics/", revision=before, columns="key_text").count()

        # 3. What changed since, and what was there before.
        changed = read(spark, "changes", url=url, start_revision=before + 1, previous="true")
        found["changed"] = changed.where("prev_value is not null").count()
        changed.selectExpr(
            "revision", "op", "key_text", "cast(prev_value as string) as before", "cast(value as string)"
        ).orderBy("revision").show(truncate=False)

        # 4. Who is there, and which keys go with whose lease.
        read(spark, "members", url=url).show()
        leases = read(spark, "leases", url=url).withColumnRenamed("id", "lease")
        found["leased"] = read(spark, url=url).join(leases, "lease").count()

        # 5. The same out of a backup, without the cluster.
        snapshot.save(cluster.leader(), folder / "backup.sealed")
        found["topics_in_backup"] = read(spark, path=folder / "backup.sealed", prefix="topics/").count()
    print(found)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
