"""Messages of Kafka's protocol against Kafka's own classes: tests/kafka reads and writes what kafka-clients does.

No server is asked: tests/doors/programs/KafkaMessages.java makes messages, and reads those that we make.
"""

from __future__ import annotations

from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.servers import JAVA
from tests.doors.software import KAFKA_CLIENTS, compiled, java
from tests.kafka.compare import (
    NOTHING,
    RECORDED,
    RECORDED_EACH,
    difference,
    difference_from_nothing,
    line_of,
    random_messages,
)
from tests.kafka.schema import messages
from tests.processes.program import Program

RUN_S = 300.0
SEED = 1
MADE_EACH = 20  # messages for each version and side
SHOWN = 5


def lines_of(folder: Path, name: str, *words: str, reads: Path | None = None) -> list[str]:
    """What the program in Java prints."""
    log = folder / name
    command = [java(), "-Xmx256m", *JAVA, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    command += ["-cp", compiled("KafkaMessages", KAFKA_CLIENTS), "KafkaMessages", *words]
    with Program(command, log=log, reads=reads) as program:
        code = program.wait(timeout_s=RUN_S)
    assert code == 0, program.log_tail()
    return log.read_text().splitlines()


def run(trial: Trial, *, write: bool = False) -> None:
    keys = [str(key) for key in messages()]
    with trial.check("Kafka's messages are made"):
        made = lines_of(trial.folder, "made.txt", "make", str(SEED), str(MADE_EACH), *keys)
        recorded = lines_of(trial.folder, "recorded.txt", "make", str(SEED), str(RECORDED_EACH), *keys)
        nothing = lines_of(trial.folder, "nothing.txt", "nothing", *keys)
    if write:
        RECORDED.write_text("\n".join(recorded) + "\n")
        NOTHING.write_text("\n".join(nothing) + "\n")
    wrong = [found for found in map(difference, made) if found]
    trial.add(f"{len(made)} of theirs are read and written", 0, "; ".join(wrong[:SHOWN]))
    wrong = [found for found in map(difference_from_nothing, nothing) if found]
    trial.add(f"{len(nothing)} defaults are the same", 0, "; ".join(wrong[:SHOWN]))
    with trial.check("our messages are read by Kafka"):
        ours = list(random_messages(SEED, MADE_EACH))
        asked = trial.folder / "ours.txt"
        lines = [line_of(*one[:2], one[3], is_request=one[2]) for one in ours]
        asked.write_text("".join(f"{line}\n" for line in lines))
        answers = lines_of(trial.folder, "read.txt", "read", reads=asked)
        assert len(answers) == len(ours), f"{len(answers)} answers to {len(ours)} messages"
    # Kafka prints the bytes that it would write itself, and the values: another line of the kind that it makes.
    wrong = [found for line, answer in zip(lines, answers, strict=True) if (found := answered_wrong(line, answer))]
    trial.add(f"{len(ours)} of ours are read and written", 0, "; ".join(wrong[:SHOWN]))
    is_recorded = (RECORDED.read_text().splitlines(), NOTHING.read_text().splitlines()) == (recorded, nothing)
    trial.add("the recorded messages are those", 0, "" if is_recorded else "others")


def answered_wrong(line: str, answer: str) -> str:
    """In what Kafka's reading of our line differs; empty if it does not."""
    bytes_of_ours = line.rpartition(" ")[2]
    if answer.partition(" ")[0] != bytes_of_ours:
        return f"{line} is {answer} for Kafka"
    return difference(f"{line.rpartition(' ')[0]} {answer}")
