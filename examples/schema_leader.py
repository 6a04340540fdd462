"""A leader as Schema Registry has it: one of several registries numbers the schemas, and a fence keeps a late one out.

    python examples/schema_leader.py /var/lib/registry 3

One process runs the node (here a cluster of its own; give it peers and it is one of three). The registries are
processes that import no engine. They elect a leader in a worker group, as Schema Registry and Karapace do over Kafka.
A leader of Karapace waits 5 s before it writes, because nothing fences the leader before it. Here each write carries
the fence of the leader's assignment, so a new leader writes at once, and a write of the old one is refused.

The first leader is frozen while it registers schemas, and wakes up when another registry leads. Every number is given
once, and no number is missing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import raftmeta
from raftmeta.coordinator import Coordinator, MemberMetadata, Settings, StoreGroup

GROUP = "schema-registry"
SCHEMAS = "schemas/"
LEADER = "leader"  # its name, for people
SETTINGS = Settings(session_timeout_s=1.0, rebalance_timeout_s=10.0, heartbeat_interval_s=0.2)


class Registry(Coordinator):
    """The member whose host sorts first leads, as it does while it lives."""

    protocol_type = "sr"

    def __init__(self, client: raftmeta.Client, host: str) -> None:
        super().__init__(StoreGroup(client, GROUP, client=host, initial_delay_s=0), SETTINGS)
        self.client = client
        self.host = host
        self.is_leader = False

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [("v0", self.host.encode())]

    def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        leading = min(member.metadata for member in members)
        return {member.member_id: leading for member in members}

    def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.is_leader = assignment == self.host.encode()

    def on_join_prepare(self, generation: int, member_id: str) -> bool:
        self.is_leader = False
        return True

    def lead(self) -> None:
        """Register one more schema. Raises Fenced, without any effect: another registry may lead."""
        fence = self.fence  # before the number is read: the two belong to one lead
        number = self.client.range(prefix=SCHEMAS, count_only=True).count + 1
        time.sleep(0.01)  # a leader that is slow here has its number taken by the next one
        self.client.put(f"{SCHEMAS}{number:06}", self.host, fence=fence)
        self.client.put(LEADER, self.host, fence=fence)


def serve(folder: str, host: str) -> None:
    """Run one registry."""
    with raftmeta.Client(f"raft+unix://{folder}") as client, Registry(client, host) as registry:
        while True:
            registry.poll()
            try:
                if registry.is_leader:
                    registry.lead()
                else:
                    time.sleep(0.02)
            except raftmeta.Fenced as late:
                print(f"{host}: refused: {late}", flush=True)


def wait_for_leader(node: raftmeta.Node, host: str) -> int:
    """How many schemas there are when this registry leads."""
    while (record := node.get(LEADER)) is None or record.value.decode() != host:
        time.sleep(0.02)
    print(f"{host} leads", flush=True)
    return node.range(prefix=SCHEMAS, count_only=True).count


def main(folder: Path, count: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = raftmeta.Config(local_clients=True)
    with raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=config) as node:
        node.ready(10)
        context = multiprocessing.get_context("spawn")
        hosts = [f"host-{number}" for number in range(count)]
        registries = {host: context.Process(target=serve, args=(str(folder), host)) for host in hosts}
        for process in registries.values():
            process.start()
        pids = {host: process.pid or 0 for host, process in registries.items()}
        try:
            wait_for_leader(node, hosts[0])
            os.kill(pids[hosts[0]], signal.SIGSTOP)
            wait_for_leader(node, hosts[1])
            os.kill(pids[hosts[0]], signal.SIGCONT)  # it believes that it leads, until its write is refused
            wait_for_leader(node, hosts[0])
            registries[hosts[0]].kill()
            wait_for_leader(node, hosts[1])
        finally:
            for process in registries.values():
                process.kill()
                process.join()
        numbers = [int(record.key.rsplit(b"/", 1)[1]) for record in node.range(prefix=SCHEMAS).records]
        once = all(record.version == 1 for record in node.range(prefix=SCHEMAS).records)
        print(f"each number once: {once and numbers == list(range(1, len(numbers) + 1))}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
