"""Moving from another system: read its files, load them, and compare until nothing differs.

    with migrate.ZooKeeperSource("/var/lib/zookeeper") as source, raftmeta.Client("raft://h1:7700") as client:
        mapping = migrate.Mapping(side=b"migrated/zookeeper/")
        migrate.load(client, source, mapping, migrate.plan(source, mapping))
        assert not any(migrate.compare(client, source, mapping))

The readers are plain iterators over files, in bounded memory, and need nothing but the files: `ZooKeeperSource`
(snapshot and transaction logs), `EtcdSource` (database), `PySyncObjSource` (dump and journal), `ConsulSource` and
`CassandraSource` (exports, which are read whole). docs/migration.md says what becomes of each part of the old system.
"""

from raftmeta.migrate.cassandra import CassandraSource
from raftmeta.migrate.catch_up import update
from raftmeta.migrate.comparison import Difference, compare, merge
from raftmeta.migrate.consul import ConsulSource
from raftmeta.migrate.etcd import EtcdChange, EtcdSource
from raftmeta.migrate.items import Item, Record, Source
from raftmeta.migrate.loader import Progress, load, read_progress
from raftmeta.migrate.mapping import Mapping, Plan, plan
from raftmeta.migrate.problems import NotMigratable, SourceDamaged
from raftmeta.migrate.pysyncobj import PySyncObjSource
from raftmeta.migrate.zookeeper import ZooKeeperSource
from raftmeta.migrate.zookeeper_tree import ZooKeeperNode

__all__ = [
    "CassandraSource",
    "ConsulSource",
    "Difference",
    "EtcdChange",
    "EtcdSource",
    "Item",
    "Mapping",
    "NotMigratable",
    "Plan",
    "Progress",
    "PySyncObjSource",
    "Record",
    "Source",
    "SourceDamaged",
    "ZooKeeperNode",
    "ZooKeeperSource",
    "compare",
    "load",
    "merge",
    "plan",
    "read_progress",
    "update",
]
