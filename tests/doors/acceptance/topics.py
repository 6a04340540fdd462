"""Kafka's own tools for topics: kafka-topics, kafka-configs, kafka-delete-records and kafka-get-offsets of Kafka 3.9.

They tell the same on three nodes of raftmeta and on a real Kafka, but for what brokers are called.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tests.doors.acceptance.records import in_java
from tests.doors.acceptance.trial import Trial
from tests.doors.kafka_broker import KafkaBroker
from tests.doors.kafka_nodes import KafkaNodes
from tests.processes.waiting import free_addresses

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "kafka.tools.ConsoleProducer"
RECORDS = 10


@contextlib.contextmanager
def served(trial: Trial) -> Iterator[str]:
    """An address of what the tools are run on."""
    if trial.kind == "kafka":
        address, proven = free_addresses(2)
        places = {"advertised": address, "sasl_advertised": proven, "address": address, "sasl_address": proven}
        with KafkaBroker(trial.folder / "broker", **places):
            yield address
    else:
        with KafkaNodes(trial.folder / "nodes") as nodes:
            yield nodes.address


class Tools:
    """The tools, each run by its main class against one address."""

    def __init__(self, trial: Trial, address: str) -> None:
        self.trial = trial
        self.address = address
        self.count = 0

    def run(self, main: str, *words: str, lines: str = "") -> str:
        """What the tool prints. lines: what it reads. Raises if it ends with another code than 0."""
        self.count += 1
        reads = self.trial.folder / f"input-{self.count}"
        reads.write_text(lines)
        name = f"tool-{self.count}"
        return in_java(self.trial, name, main, "--bootstrap-server", self.address, *words, reads=reads)

    def partitions(self, topic: str) -> int:
        told = self.run(TOPICS, "--describe", "--topic", topic)
        return sum("Partition:" in line for line in told.splitlines())

    def configs(self, topic: str) -> set[str]:
        """Those that the topic has of its own."""
        told = self.run(CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", topic)
        return {line.split()[0] for line in told.splitlines() if "sensitive=" in line}

    def configure(self, topic: str, *words: str) -> str:
        return self.run(CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", topic, *words)

    def offsets(self, topic: str, time: str) -> list[str]:
        told = self.run(GET_OFFSETS, "--topic", topic, "--time", time)
        return sorted(line for line in told.splitlines() if line.startswith(f"{topic}:"))


def run(trial: Trial) -> None:
    with served(trial) as address:
        tools = Tools(trial, address)
        topics(trial, tools)
        records(trial, tools)


def topics(trial: Trial, tools: Tools) -> None:
    with trial.check("kafka-topics makes a topic"):
        words = ("--topic", "jobs", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=100000")
        assert "Created topic jobs" in tools.run(TOPICS, "--create", *words)
        assert tools.partitions("jobs") == 2
    with trial.check("kafka-topics gives it partitions"):
        tools.run(TOPICS, "--alter", "--topic", "jobs", "--partitions", "5")
        assert tools.partitions("jobs") == 5
    with trial.check("kafka-configs changes its configs"):
        assert tools.configs("jobs") == {"retention.ms=100000"}
        told = tools.configure("jobs", "--add-config", "retention.ms=200000,cleanup.policy=[compact,delete]")
        assert "Completed updating config" in told, told
        assert tools.configs("jobs") == {"retention.ms=200000", "cleanup.policy=compact,delete"}
        tools.configure("jobs", "--delete-config", "cleanup.policy")
        assert tools.configs("jobs") == {"retention.ms=200000"}


def records(trial: Trial, tools: Tools) -> None:
    with trial.check("kafka-delete-records takes the oldest"):
        tools.run(TOPICS, "--create", "--topic", "lines", "--partitions", "1")
        tools.run(PRODUCER, "--topic", "lines", lines="".join(f"{number}\n" for number in range(RECORDS)))
        assert tools.offsets("lines", "-1") == [f"lines:0:{RECORDS}"]
        path = trial.folder / "offsets.json"
        path.write_text(json.dumps({"version": 1, "partitions": [{"topic": "lines", "partition": 0, "offset": 4}]}))
        told = tools.run(DELETE_RECORDS, "--offset-json-file", str(path))
        assert "partition: lines-0\tlow_watermark: 4" in told, told
        assert tools.offsets("lines", "-2") == ["lines:0:4"]
    with trial.check("kafka-topics removes topics"):
        for topic in ("jobs", "lines"):
            tools.run(TOPICS, "--delete", "--topic", topic)
        assert tools.run(TOPICS, "--list", "--exclude-internal").split() == []
