"""Clients of etcd that wait and watch, unmodified, on three nodes of raftmeta with etcd doors.

etcd's own recipes in Go (locks, elections, transactions, watches), etcd3gw from Python, and our back end etcd:// with
the whole conformance suite, kills and freezes of the leader included.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.etcd_doors import EtcdDoors
from tests.conformance.real_suite import run_suite
from tests.doors.acceptance.trial import Trial
from tests.doors.software import PROGRAMS, etcd3gw, go_client
from tests.processes.program import run_program

RUN_S = 180.0
TTL_S = 5


def run(trial: Trial) -> None:
    with EtcdDoors(trial.folder / "servers") as nodes:
        with trial.check("etcd's recipes in Go"):
            run_program([go_client("EtcdConcurrency"), nodes.addresses], log=trial.folder / "go.log", timeout_s=RUN_S)
        with trial.check("etcd3gw"):
            host, _, port = nodes.addresses.partition(",")[0].rpartition(":")
            run_program(
                [sys.executable, str(Path(PROGRAMS, "etcd3gw_client.py")), host, port],
                log=trial.folder / "etcd3gw.log",
                timeout_s=RUN_S,
                environment={"PYTHONPATH": str(etcd3gw())},
            )
        url = (
            f"etcd://{nodes.addresses}?ttl_s={TTL_S}"  # no prefix: keys of the suite are as long as the door takes them
        )
        run_suite(trial, url, nodes.servers(), has_one_server=False, server="raftmeta's etcd door, three nodes")
