"""Kafka's assignors beside ours on the same groups: tests/doors/programs/KafkaAssignors.java. No server takes part.

`--write` keeps the first few cases with Kafka's answers for the suite: tests/assignors/testdata/kafka-3.9.2.json.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.assignors.kafka import Case, Tally, compare_consumers, compare_workers, consumer_case, worker_case
from tests.doors.acceptance.trial import Trial
from tests.doors.software import KAFKA_ASSIGNORS, compiled, java
from tests.processes.program import run_program

RUN_S = 300.0
CONSUMERS, WORKERS = 1_000, 200
CONSUMERS_KEPT, WORKERS_KEPT = 16, 6
PROGRAM = "org.apache.kafka.connect.runtime.distributed.KafkaAssignors"
KEPT = Path(__file__).parents[2] / "assignors" / "testdata" / "kafka-3.9.2.json"


def run(trial: Trial, *, write: bool = False) -> None:
    consumers = [consumer_case(seed) for seed in range(CONSUMERS)]
    workers = [worker_case(seed) for seed in range(WORKERS)]
    with trial.check("Kafka answers"):
        answers = asked(trial.folder, [*consumers, *workers])
    told = list(zip([*consumers, *workers], answers, strict=True))
    if write:
        kept = told[:CONSUMERS_KEPT] + told[CONSUMERS : CONSUMERS + WORKERS_KEPT]
        lines = ",\n".join(json.dumps({"case": case, "answer": answer}) for case, answer in kept)
        KEPT.write_text(f"[\n{lines}\n]\n")
    for name, part, compare in (
        ("consumers", told[:CONSUMERS], compare_consumers),
        ("workers", told[CONSUMERS:], compare_workers),
    ):
        tally = Tally()
        with trial.check(f"{len(part)} groups of {name}"):
            for case, answer in part:
                compare(case, answer, tally)
        trial.tell(f"{name}: {tally}")


def asked(folder: Path, cases: list[Case]) -> list[object]:
    """Kafka's answers to cases."""
    given, answers = folder / "cases.json", folder / "answers.json"
    given.write_text(json.dumps(cases))
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", compiled("KafkaAssignors", KAFKA_ASSIGNORS), PROGRAM]
    run_program([*command, given, answers], log=folder / "assignors.log", timeout_s=RUN_S)
    found: list[object] = json.loads(answers.read_text())
    return found
