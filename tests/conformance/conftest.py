"""Without Java or ZooKeeper's jars the back end for ZooKeeper has no server to be held to, and the header says so."""

from __future__ import annotations

from tests.migrate import zookeeper_server

WHY_NOT = zookeeper_server.why_not()

collect_ignore = ["test_zookeeper.py"] if WHY_NOT else []


def pytest_report_header() -> str:
    return f"conformance: zookeeper:// on a real ensemble: {WHY_NOT or 'yes'}"
