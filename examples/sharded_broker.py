"""A sharded broker: processes share the partitions of a topic, and append to a partition only while they own it.

    python examples/sharded_broker.py /var/lib/broker 3 12

One process runs the node (here a cluster of its own; give it peers and it is one of three). The brokers are processes
that import no engine. `raftmeta.workers` gives each of them partitions, and a fence for its appends. A partition that
moves is given up first, so the next owner goes on at the end of its log. One broker is killed. Another one is frozen,
loses its partitions meanwhile, and wakes up: its appends are refused. No offset of any partition is missing or taken
twice.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import defaultdict
from pathlib import Path

import raftmeta
from raftmeta.coordinator import Assigned, Lost, Revoked, Settings

GROUP = "broker"
LOG = "log/"
SETTINGS = Settings(session_timeout_s=1.0, rebalance_timeout_s=10.0, heartbeat_interval_s=0.2)


class Broker:
    """One broker: the partitions that it owns, and the end of each of their logs."""

    def __init__(self, client: raftmeta.Client, name: str) -> None:
        self.client = client
        self.name = name
        self.ends: dict[str, int] = {}
        self.fence: raftmeta.Fence | None = None

    def on_event(self, event: Assigned | Revoked | Lost | None) -> None:
        if isinstance(event, Assigned):
            self.fence = event.fence
            for partition in event.resources:
                self.ends.setdefault(partition, self.end_of(partition))
        elif event is not None:
            for partition in event.resources:
                self.ends.pop(partition, None)

    def end_of(self, partition: str) -> int:
        """The first free offset. Nobody else appends: this broker owns the partition, or its appends are refused."""
        return self.client.range(prefix=f"{LOG}{partition}/", count_only=True).count

    def append(self, message: str) -> None:
        """Append to each partition that is owned."""
        for partition, offset in list(self.ends.items()):
            try:
                self.client.create(f"{LOG}{partition}/{offset:08}", message, fence=self.fence)
            except raftmeta.Fenced:
                return  # another generation has begun: its event comes next
            except raftmeta.KeyExists:
                self.ends[partition] = self.end_of(partition)
            else:
                self.ends[partition] = offset + 1


def serve(folder: str, name: str, partitions: int) -> None:
    """Run one broker."""
    with (
        raftmeta.Client(f"raft+unix://{folder}") as client,
        raftmeta.workers(GROUP, store=client, resources={"orders": partitions}, settings=SETTINGS) as workers,
    ):
        broker = Broker(client, name)
        while True:
            broker.on_event(workers.next(0.02))
            broker.append(name)


def logs(node: raftmeta.Node) -> dict[str, list[tuple[int, str]]]:
    """Offset and message of every append, by partition."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for record in node.range(prefix=LOG).records:
        _, partition, offset = record.key.decode().split("/")
        found[partition].append((int(offset), record.value.decode()))
    return found


def wait_for_owners(node: raftmeta.Node, names: set[str], partitions: int) -> None:
    """From now on exactly these brokers append, and every partition grows."""
    before = {partition: len(log) for partition, log in logs(node).items()}
    while True:
        now = logs(node)
        new = {partition: log[before.get(partition, 0) :] for partition, log in now.items()}
        if len(now) == partitions and all(new.values()) and {log[-1][1] for log in new.values()} == names:
            break
        time.sleep(0.05)
    print(" ".join(sorted(names)), flush=True)


def main(folder: Path, count: int, partitions: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = raftmeta.Config(local_clients=True)
    with raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=config) as node:
        node.ready(10)
        context = multiprocessing.get_context("spawn")
        names = [f"broker-{number}" for number in range(count)]
        brokers = {name: context.Process(target=serve, args=(str(folder), name, partitions)) for name in names}
        for process in brokers.values():
            process.start()
        frozen = brokers[names[1]].pid or 0
        try:
            wait_for_owners(node, set(names), partitions)
            brokers[names[0]].kill()
            wait_for_owners(node, set(names[1:]), partitions)
            os.kill(frozen, signal.SIGSTOP)
            wait_for_owners(node, set(names[2:]), partitions)
            os.kill(frozen, signal.SIGCONT)  # it believes that it owns partitions, until an append is refused
            wait_for_owners(node, set(names[1:]), partitions)
        finally:
            for process in brokers.values():
                process.kill()
                process.join()
        whole = all([offset for offset, _ in log] == list(range(len(log))) for log in logs(node).values())
        print(f"no offset is missing: {whole}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
