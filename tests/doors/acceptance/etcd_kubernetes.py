"""10,000 objects by the library that kube-apiserver asks etcd by: created, listed, watched, updated, deleted."""

from __future__ import annotations

from tests.doors.acceptance.trial import Trial
from tests.doors.etcd_servers import ETCD_KINDS
from tests.doors.software import go_client
from tests.processes.program import Program

OBJECTS = 10_000
CHECKS = 15
RUN_S = 900.0


def run(trial: Trial) -> None:
    command = go_client("EtcdKubernetes")
    with ETCD_KINDS[trial.kind](trial.folder / "servers") as servers:
        words = [command, ",".join(servers.addresses), str(OBJECTS)]
        with Program(words, log=trial.folder / "go.log") as program:
            code = program.wait(timeout_s=RUN_S)
        lines = program.log_tail().splitlines()
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "ok":
                name, _, seconds = rest.rpartition(" ")
                trial.add(name, float(seconds))
        with trial.check("the program runs to its end"):
            assert code == 0 and len(trial.checks) == CHECKS, program.log_tail()
