"""consul:// on three real servers of Consul: the conformance suite with kills and freezes of the leader."""

from __future__ import annotations

from tests.conformance.consul_cluster import ConsulCluster
from tests.conformance.real_suite import run_own_tests, run_suite
from tests.doors.acceptance.trial import Trial
from tests.doors.software import CONSUL, consul


def run(trial: Trial) -> None:
    consul()
    with ConsulCluster(trial.folder / "servers") as cluster:
        url = f"consul://{cluster.addresses}/suite"
        run_suite(trial, url, cluster.servers(), has_one_server=False, server=f"Consul {CONSUL.version}, three servers")
    run_own_tests(trial, "test_consul.py")
