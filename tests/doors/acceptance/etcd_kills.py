"""etcd's package `concurrency` in Go, while each server in turn is killed every five seconds and started again."""

from __future__ import annotations

import time

from tests.doors.acceptance.trial import Trial
from tests.doors.etcd_servers import ETCD_KINDS
from tests.doors.servers import Servers
from tests.doors.software import go_client
from tests.processes.program import Program
from tests.processes.waiting import wait_until

KILLS = 12
EVERY_S = 5.0
AWAY_S = 2.0
BEGIN_S = 60.0
SETTLE_S = 180.0


def run(trial: Trial) -> None:
    client = go_client("EtcdUnderKills")
    with ETCD_KINDS[trial.kind](trial.folder / "servers") as servers:
        command = [client, ",".join(servers.addresses), str(int(KILLS * EVERY_S))]
        with Program(command, log=trial.folder / "go.log") as program:
            with trial.check(f"{KILLS} kills of servers"):
                program.wait_until(lambda: "begun" in program.log_tail(), timeout_s=BEGIN_S, what="the first requests")
                for number in range(KILLS):
                    _kill(servers, number % len(servers.addresses))
            with trial.check("lock, election and transactions"):
                code = program.wait(timeout_s=SETTLE_S)
                assert code == 0, program.log_tail()
            for line in program.log_tail().splitlines():
                if line.startswith("ok "):
                    trial.tell(line)


def _kill(servers: Servers, victim: int) -> None:
    begun_s = time.monotonic()
    servers.kill(victim)
    wait_until(
        lambda: time.monotonic() > begun_s + AWAY_S, timeout_s=2 * AWAY_S, what="a server to be away", pause_s=0.1
    )
    servers.restart(victim)
    wait_until(lambda: time.monotonic() > begun_s + EVERY_S, timeout_s=EVERY_S, what="the next kill", pause_s=0.1)
