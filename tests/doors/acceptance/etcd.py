"""etcd:// on three real servers of etcd: the conformance suite with kills and freezes of the leader, and own tests."""

from __future__ import annotations

from tests.conformance.etcd_cluster import EtcdCluster
from tests.conformance.real_suite import run_own_tests, run_suite
from tests.doors.acceptance.trial import Trial
from tests.doors.software import ETCD, etcd

TTL_S = 5


def run(trial: Trial) -> None:
    etcd()
    with EtcdCluster(trial.folder / "servers") as cluster:
        url = f"etcd://{cluster.addresses}/suite?ttl_s={TTL_S}"
        run_suite(trial, url, cluster.servers(), has_one_server=False, server=f"etcd {ETCD.version}, three servers")
    run_own_tests(trial, "test_etcd.py")
