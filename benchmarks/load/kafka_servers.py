"""Servers of Kafka's protocol for measurements: real brokers of Kafka 3.9 in KRaft mode, or nodes of raftmeta.

Both keep what they acknowledge as they do by default: Kafka in its page cache, raftmeta synced to the disk.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.doors.kafka_broker import CLUSTER_ID, LOGGING
from tests.doors.servers import JAVA
from tests.doors.software import KAFKA, java
from tests.kafka.nodes import LEVEL_OF_CONSUMER_GROUPS
from tests.processes.cluster import Cluster, status
from tests.processes.program import Program, run_program
from tests.processes.waiting import free_addresses, wait_until

START_S = 180.0
NAMES = "abcde"
PARTITIONS = 4  # of Kafka's log of offsets: by default 50, which take a busy disk half a minute to make


class Brokers:
    """A context: real brokers, each a controller too."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.addresses = free_addresses(count)
        controllers = free_addresses(count)
        voters = ",".join(f"{number + 1}@{address}" for number, address in enumerate(controllers))
        self.programs: list[Program] = []
        self._properties: list[Path] = []
        folder.mkdir(parents=True)
        logging = folder / "log4j.properties"
        logging.write_text(LOGGING)
        words = [f"-Dlog4j.configuration=file:{logging}", "-cp", KAFKA.class_path()]
        self._java = [java(), "-Xmx1g", *JAVA, *words]
        for number, (address, controller) in enumerate(zip(self.addresses, controllers, strict=True)):
            settings = {
                "process.roles": "broker,controller",
                "node.id": number + 1,
                "controller.quorum.voters": voters,
                "listeners": f"CLIENTS://{address},CONTROLLER://{controller}",
                "advertised.listeners": f"CLIENTS://{address}",
                "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "CLIENTS",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": folder / f"logs-{number}",
                "offsets.topic.replication.factor": count,
                "offsets.topic.num.partitions": PARTITIONS,
                "group.initial.rebalance.delay.ms": 0,
            }
            path = folder / f"server-{number}.properties"
            path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            self._properties.append(path)
            self.programs.append(Program([*self._java, "kafka.Kafka", path], log=folder / f"broker-{number}.log"))

    def __enter__(self) -> Self:
        for number, path in enumerate(self._properties):
            command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", path]
            run_program(command, log=self.folder / f"format-{number}.log", timeout_s=START_S)
        try:
            for program in self.programs:
                program.start()
            for program in self.programs:
                program.wait_until(
                    lambda log=program.log: "Kafka Server started" in log.read_text(errors="replace"),
                    timeout_s=START_S,
                    what="Kafka serves",
                )
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def pids(self) -> list[int]:
        return [program.pid for program in self.programs]

    def kill_at(self, address: str) -> None:
        """Without waiting until it is gone."""
        os.kill(self.programs[self.addresses.index(address)].pid, signal.SIGKILL)

    def kill(self) -> None:
        for program in self.programs:
            program.kill()


class Nodes:
    """A context: nodes of raftmeta with a Kafka door each."""

    def __init__(self, folder: Path, count: int) -> None:
        names = NAMES[:count]
        self.folder = folder
        self.addresses = free_addresses(count)
        settings = {"kafka_initial_delay_s": 0.0, "kafka_connections_max": 20_000}
        self.cluster = Cluster(folder, names=[*names], **settings)
        for node, address in zip(self.cluster.nodes.values(), self.addresses, strict=True):
            name, peers, place, config, *listens = node.arguments
            node.arguments = (name, peers, place, {**config, "kafka_listen": address}, *listens)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cluster.__enter__()
        nodes = self.cluster.nodes.values()
        wait_until(
            lambda: all(node.call(status)["feature_level"] >= LEVEL_OF_CONSUMER_GROUPS for node in nodes),
            timeout_s=START_S,
            what="the level of the door",
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.kill()

    def pids(self) -> list[int]:
        return [node.pid for node in self.cluster.nodes.values()]

    def kill_at(self, address: str) -> None:
        """Without waiting until it is gone."""
        os.kill([*self.cluster.nodes.values()][self.addresses.index(address)].pid, signal.SIGKILL)

    def address_of_leader(self) -> str:
        leader = self.cluster.leader()
        return self.addresses[[*self.cluster.nodes].index(leader.name)]
