"""Real clients on three brokers of examples/python_broker.py, which keep their records in files of their own.

Kafka's console programs and clients in Python produce and read, each what another one wrote. Then one broker is killed
and started again: every record is there still. Its partitions have no leader meanwhile.
"""

from __future__ import annotations

from tests.doors.acceptance.records import RECORDS, in_java, in_python
from tests.doors.acceptance.trial import Trial
from tests.doors.broker_nodes import PythonBrokers

PYTHON = ("confluent", "aiokafka", "kafka_python")
PARTITIONS = 6
TOPIC = "by-console"


def read_by_console(trial: Trial, name: str, address: str) -> None:
    words = ("--bootstrap-server", address, "--topic", TOPIC, "--from-beginning", "--group", name)
    words += ("--max-messages", str(RECORDS), "--timeout-ms", "40000")
    told = in_java(trial, name, "org.apache.kafka.tools.consumer.ConsoleConsumer", *words)
    found = sorted(line for line in told.splitlines() if line.startswith("line "))
    assert found == sorted(f"line {number}" for number in range(RECORDS)), told[-500:]


def run(trial: Trial) -> None:
    with PythonBrokers(trial.folder / "brokers") as brokers:
        address = brokers.address
        with trial.check("kafka-topics.sh creates a topic"):
            words = ("--bootstrap-server", address, "--create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
            in_java(trial, "topics", "org.apache.kafka.tools.TopicCommand", *words)
        with trial.check("the console producer produces"):
            lines = trial.folder / "lines"
            lines.write_text("".join(f"line {number}\n" for number in range(RECORDS)))
            words = ("--bootstrap-server", address, "--topic", TOPIC, "--producer-property", "batch.size=256")
            in_java(trial, "producer", "kafka.tools.ConsoleProducer", *words, reads=lines)
        with trial.check("the console consumer reads"):
            read_by_console(trial, "consumer", address)
        for client in PYTHON:
            with trial.check(f"{client} produces"):
                in_python(trial, client, "produce", address, f"by-{client}")
        for client in PYTHON:
            for topic in PYTHON:
                with trial.check(f"{client} reads by-{topic}"):
                    told = in_python(trial, client, "consume", address, f"by-{topic}")
                    assert f"read {RECORDS} right" in told, told
        with trial.check("a broker is killed and started again"):
            brokers.programs["c"].kill()
            brokers.start("c")
            brokers.await_serving("c")
        with trial.check("the console consumer reads all again"):
            read_by_console(trial, "consumer-again", address)
        with trial.check("each file has records of one leader"):
            files = {path.name: path for name in brokers.programs for path in (brokers.folder / name).rglob("*.log")}
            assert {f"{number}.log" for number in range(PARTITIONS)} <= set(files), files
