"""From ZooKeeper to raftmeta while the old system goes on: look, load, compare, catch up (docs/migration.md).

    python examples/migrate.py /tmp/migrate-example [DATADIR]

DATADIR is the dataDir of a ZooKeeper server, which may be running: nothing is written there. Without DATADIR the old
system is a PySyncObj node in this process (the extra pysyncobj). The new system is a cluster of three nodes here. With
a cluster of yours run `raftmeta --url raft://... migrate zookeeper DATADIR`, with --dry-run, --compare or --update.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import raftmeta
from raftmeta import migrate
from raftmeta.testing import Cluster


class OldSystem:
    """A dictionary on PySyncObj, and its dump, which the example migrates."""

    def __init__(self, folder: Path) -> None:
        from pysyncobj import SyncObj, SyncObjConf
        from pysyncobj.batteries import ReplDict

        self.dump = folder / "dump.bin"
        self._data = ReplDict()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._node = SyncObj(
            address, [], consumers=[self._data], conf=SyncObjConf(fullDumpFile=str(self.dump), useFork=False)
        )
        wait_for(self._node.isReady)

    def put(self, key: str, value: str) -> None:
        self._data.set(key, value, sync=True)

    def save(self) -> Path:
        """A fresh dump of all keys."""
        self.dump.unlink(missing_ok=True)
        self._node.forceLogCompaction()
        wait_for(self.dump.exists)
        return self.dump

    def close(self) -> None:
        self._node.destroy()


def wait_for(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until_s:
            raise TimeoutError("PySyncObj does not answer")
        time.sleep(0.05)


def differences(client: raftmeta.Client, source: migrate.Source, mapping: migrate.Mapping) -> list[tuple[str, bytes]]:
    return [(found.what, found.key) for found in migrate.compare(client, source, mapping)]


def from_zookeeper(client: raftmeta.Client, data_dir: Path) -> int:
    mapping = migrate.Mapping(side=b"migrated/zookeeper/")
    with migrate.ZooKeeperSource(data_dir) as source:
        plan = migrate.plan(source, mapping)
        print(f"{source.position}: {plan.items} nodes; left out: {dict(plan.dropped)}")
        loaded = migrate.load(client, source, mapping, plan)
        assert not differences(client, source, mapping)
    return loaded.items


def from_pysyncobj(client: raftmeta.Client, folder: Path) -> int:
    old = OldSystem(folder)
    mapping = migrate.Mapping(side=b"migrated/pysyncobj/")
    try:
        for number in range(20):
            old.put(f"topics/{number:02}", "retention=24")

        # 1. Look: everything is read and checked, nothing is written.
        with migrate.PySyncObjSource(old.save()) as source:
            plan = migrate.plan(source, mapping)
            print(f"{plan.items} items, {plan.value_bytes} bytes; left out: {dict(plan.dropped)}")
            # 2. Load. A load that was killed is called again, and goes on behind what is there.
            loaded = migrate.load(client, source, mapping, plan)

        # 3. The old system went on: compare with its files of now, and write what differs, until nothing does.
        old.put("topics/00", "retention=72")
        old.put("topics/20", "retention=24")
        with migrate.PySyncObjSource(old.save()) as source:
            while found := differences(client, source, mapping):
                print(found)
                migrate.update(client, source, mapping, migrate.plan(source, mapping), delete=True)
    finally:
        old.close()
    return loaded.items


def main(folder: Path, data_dir: Path | None = None) -> dict[bytes, bytes]:
    """Run it; return the keys of the new cluster, but not those that the migration keeps beside the data."""
    (folder / "cluster").mkdir(parents=True, exist_ok=True)
    config = raftmeta.Config(local_clients=True)
    with Cluster(3, folder=folder / "cluster", config=config) as cluster:
        with raftmeta.Client(f"raft+unix://{folder / 'cluster' / 'a'}") as client:
            items = from_pysyncobj(client, folder) if data_dir is None else from_zookeeper(client, data_dir)
        records = cluster.leader().range().records
    print(f"{items} items loaded, and nothing differs")
    return {record.key: record.value for record in records if not record.key.startswith(b"migrated/")}


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(Path, sys.argv[2:]))
