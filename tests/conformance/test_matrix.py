"""The table of back ends in docs/backends.md is that of the reports, and the reports are of what is declared now."""

from __future__ import annotations

import pytest

from raftmeta.backends import BackendUrl, plugin_of
from tests.conformance.matrix import ORDER, PAGE, page_with, reports, table

URLS = {
    "embedded": "embedded:///folder?name=a&peers=a=127.0.0.1:1",
    "raft": "raft://127.0.0.1:1",
    "http": "http://127.0.0.1:1",
    "zookeeper": "zookeeper://127.0.0.1:1?reads=quorum",
    "etcd": "etcd://127.0.0.1:1",
    "consul": "consul://127.0.0.1:1",
    "cassandra": "cassandra://127.0.0.1:1/space",
    "pysyncobj": "pysyncobj://127.0.0.1:1",
}


def test_the_page_has_the_table_of_the_reports() -> None:
    assert page_with(table()) == PAGE.read_text()


@pytest.mark.parametrize("name", ORDER)
def test_a_report_is_of_the_promises_that_are_declared_and_none_of_them_failed(name: str) -> None:
    report, made = reports()[name]
    assert report.capabilities == plugin_of(name).capabilities(BackendUrl.parse(URLS[name]))
    assert not report.counts()["failed"] and report.counts()["passed"]
    assert made["server"] and made["date"] and made["commit"]
