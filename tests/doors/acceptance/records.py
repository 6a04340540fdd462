"""Real clients produce and read records on three nodes of raftmeta: each by itself, and each what another one wrote.

The topics are made by the producers' first question for them. Then one node is killed, and clients go on at the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.kafka_broker import LOGGING
from tests.doors.kafka_nodes import KafkaNodes
from tests.doors.servers import JAVA
from tests.doors.software import KAFKA, java, kafka_python_clients
from tests.processes.program import run_program

RECORDS = 500
RUN_S = 90.0
PROGRAM = Path(__file__).parent.parent / "programs" / "record_client.py"
PYTHON = ("confluent", "aiokafka", "kafka_python")


def in_python(trial: Trial, client: str, verb: str, address: str, topic: str, group: str = "readers") -> str:
    log = trial.folder / f"{client}-{verb}-{topic}-{group}.log"
    run_program(
        [sys.executable, PROGRAM, client, verb, address, topic, str(RECORDS), f"{group}-{client}"],
        log=log,
        timeout_s=RUN_S,
        environment={"PYTHONPATH": str(kafka_python_clients())},
    )
    return log.read_text()


def in_java(trial: Trial, name: str, main: str, *words: str, reads: Path | None = None) -> str:
    """One of Kafka's own programs for the console."""
    logging = trial.folder / "log4j.properties"
    logging.write_text(LOGGING.replace("INFO", "WARN"))
    log = trial.folder / f"{name}.log"
    command = [java(), "-Xmx96m", *JAVA, f"-Dlog4j.configuration=file:{logging}", "-cp", KAFKA.class_path(), main]
    run_program([*command, *words], log=log, timeout_s=RUN_S, reads=reads)
    return log.read_text()


def run(trial: Trial) -> None:
    nodes = KafkaNodes(trial.folder / "nodes", kafka_initial_delay_s=0.0)
    with nodes:
        address = nodes.address
        for client in PYTHON:
            with trial.check(f"{client} produces"):
                in_python(trial, client, "produce", address, f"by-{client}")
        with trial.check("the console producer produces"):
            lines = trial.folder / "lines"
            lines.write_text("".join(f"line {number}\n" for number in range(RECORDS)))
            words = ("--bootstrap-server", address, "--topic", "by-console")
            in_java(trial, "producer", "kafka.tools.ConsoleProducer", *words, reads=lines)
        for client in PYTHON:
            for topic in PYTHON:
                with trial.check(f"{client} reads by-{topic}"):
                    told = in_python(trial, client, "consume", address, f"by-{topic}")
                    assert f"read {RECORDS} right" in told, told
        nodes.nodes[2].kill()
        with trial.check("confluent reads beside a killed node"):
            told = in_python(trial, "confluent", "consume", address, "by-confluent", group="later")
            assert f"read {RECORDS} right" in told, told
        with trial.check("the console consumer reads beside it"):
            words = ("--bootstrap-server", address, "--topic", "by-console", "--from-beginning")
            words += ("--max-messages", str(RECORDS), "--timeout-ms", "30000")
            told = in_java(trial, "consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer", *words)
            found = [line for line in told.splitlines() if line.startswith("line ")]
            assert found == [f"line {number}" for number in range(RECORDS)], told[-500:]
