"""Curator 5.9's recipes, by a program of our own: tests/doors/programs/CuratorChecks.java."""

from __future__ import annotations

from tests.doors.acceptance.trial import Trial
from tests.doors.software import CURATOR, compiled, java
from tests.processes.program import Program

RUN_S = 600.0
CHECKS = 28


def run(trial: Trial) -> None:
    class_path = compiled("CuratorChecks", CURATOR)
    log = trial.folder / "curator.log"
    command = [java(), "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path]
    with trial.servers() as servers:
        program = Program([*command, "CuratorChecks", servers.connect], log=log)
        with program:
            program.wait(timeout_s=RUN_S)
    for line in log.read_text().splitlines():
        word, _, rest = line.partition(" ")
        name, _, more = rest.partition(" ")
        if word == "ok" and more.isdigit():
            trial.add(name, int(more) / 1000)
        elif word == "failed":
            trial.add(name, 0, more)
    assert len(trial.checks) == CHECKS, f"{len(trial.checks)} checks were told\n{program.log_tail()}"
