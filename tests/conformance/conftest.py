"""Without Java or ZooKeeper's jars the back end for ZooKeeper has no server to be held to, and the header says so.

The same is true of etcd and Consul, which `./build.sh doors etcd consul` builds.
"""

from __future__ import annotations

from tests.doors.software import CONSUL, ETCD
from tests.migrate import zookeeper_server

WHY_NOT = zookeeper_server.why_not()

collect_ignore = ["test_zookeeper.py"] * bool(WHY_NOT) + ["test_etcd.py"] * (not ETCD.is_built)
collect_ignore += ["test_consul.py"] * (not CONSUL.is_built)


def pytest_report_header() -> str:
    etcd = "yes" if ETCD.is_built else "not built: ./build.sh doors etcd builds it"
    return f"conformance: zookeeper:// on a real ensemble: {WHY_NOT or 'yes'}; etcd:// on a real server: {etcd}"
