"""A real ZooKeeper 3.9, of the jars within pyspark: kazoo works on it, and the lines we expect are its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.servers import ZooKeeperServers
from tests.doors.traces import GOLDEN, Traces, difference, read, record
from tests.migrate.zookeeper_server import classpath, logging_folder


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traces]:
    folder = tmp_path_factory.mktemp("zookeeper")
    class_path = classpath(logging_folder(folder))
    with ZooKeeperServers(folder / "servers", members=1, class_path=class_path) as servers:
        yield record(servers, folder)


def test_the_expected_lines_are_those_of_a_real_zookeeper(traces: Traces) -> None:
    """Every program of tests/doors, kazoo's among them: every line."""
    expected = read(GOLDEN.read_text())
    assert expected.keys() == traces.keys()
    differences = [difference(expected[name], lines) for name, lines in traces.items()]
    assert not any(differences), "\n".join(differences)


def test_no_program_failed(traces: Traces) -> None:
    """kazoo's ends with an assertion where a server is no ZooKeeper."""
    assert len(traces) > 8
    for name, lines in traces.items():
        assert len(lines) > 5, name
        assert not [line for line in lines if line.startswith(("the program fails", "out of order"))], name
