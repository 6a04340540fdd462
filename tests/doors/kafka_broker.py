"""One real Kafka 3.9 in KRaft mode on loopback, broker and controller in one process. It leaves no process behind."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.doors.servers import JAVA
from tests.doors.software import KAFKA, java
from tests.processes.program import Program, run_program
from tests.processes.waiting import free_ports

START_S = 120.0
FORMAT_S = 60.0
CLUSTER_ID = "cmFmdG1ldGEtZ3JvdXBzMQ"  # a UUID in base64, as Kafka writes it
USER, PASSWORD = "member", "secret"
LOGGING = """\
log4j.rootLogger=INFO, a
log4j.appender.a=org.apache.log4j.ConsoleAppender
log4j.appender.a.target=System.err
log4j.appender.a.layout=org.apache.log4j.PatternLayout
log4j.appender.a.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1} %m%n
"""


class KafkaBroker:
    """A context: it serves clients at `address`, and tells them that its place is `advertised`.

    Clients connect to the place that they are told, so a proxy in front of the broker is advertised in its place.
    sasl_address, sasl_advertised: the same for clients that prove who they are. settings: of server.properties.
    """

    def __init__(self, folder: Path, *, advertised: str, sasl_advertised: str, address: str, sasl_address: str) -> None:
        self.folder = folder
        self.address = address
        self.sasl_address = sasl_address
        folder.mkdir(parents=True)
        inner, controller = free_ports(2)
        login = "org.apache.kafka.common.security"
        user = f'username="{USER}" password="{PASSWORD}"'
        self._settings: Mapping[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"CLIENTS://{address},PROVEN://{sasl_address},INNER://127.0.0.1:{inner},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"CLIENTS://{advertised},PROVEN://{sasl_advertised},INNER://127.0.0.1:{inner}",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PROVEN:SASL_PLAINTEXT,INNER:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "controller.listener.names": "CONTROLLER",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.proven.plain.sasl.jaas.config": (
                f'{login}.plain.PlainLoginModule required {user} user_{USER}="{PASSWORD}";'
            ),
            "listener.name.proven.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
            "log.dirs": folder / "logs",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.coordinator.rebalance.protocols": "classic,consumer",
            "group.consumer.heartbeat.interval.ms": 1000,
            "group.consumer.min.heartbeat.interval.ms": 1000,
            "group.consumer.session.timeout.ms": 20_000,
            "group.consumer.min.session.timeout.ms": 6000,
            "num.network.threads": 2,
            "num.io.threads": 3,
        }
        self._properties = folder / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        (folder / "log4j.properties").write_text(LOGGING)
        self.program = Program([*self._java("384m"), "kafka.Kafka", self._properties], log=folder / "broker.log")

    def _java(self, heap: str) -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        return [java(), f"-Xmx{heap}", *JAVA, logging, "-cp", KAFKA.class_path()]

    def __enter__(self) -> Self:
        command = [*self._java("128m"), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]
        scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        words = [self._properties, "--add-scram", scram]
        run_program([*command, *words], log=self.folder / "format.log", timeout_s=FORMAT_S)
        try:
            self.program.start()
            self.program.wait_until(self._listens, timeout_s=START_S, what="Kafka serves")
        except BaseException:
            self.program.kill()
            raise
        return self

    def _listens(self) -> bool:
        return "Kafka Server started" in self.program.log.read_text(errors="replace") and _is_open(self.address)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.kill()


def _is_open(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except OSError:
        return False
