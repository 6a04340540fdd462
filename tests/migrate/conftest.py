"""Which oracles there are on this machine: where one is missing its tests are not collected, and the header says so."""

from __future__ import annotations

from tests.migrate import etcd_server, zookeeper_server

ORACLES = {"ZooKeeper": zookeeper_server.why_not(), "etcd": etcd_server.why_not()}

collect_ignore = [
    file
    for file, oracle in (
        ("test_zookeeper_server.py", "ZooKeeper"),
        ("test_live.py", "ZooKeeper"),
        ("test_live_secure.py", "ZooKeeper"),
        ("test_etcd_server.py", "etcd"),
    )
    if ORACLES[oracle]
]


def pytest_report_header() -> list[str]:
    """One line for each real server: whether the readers are compared with it."""
    return [f"migrate: compared with a real {name}: {why or 'yes'}" for name, why in ORACLES.items()]
