"""Our door: every line of what it says to every program is the line of a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.servers import NodeServers
from tests.doors.traces import GOLDEN, Traces, difference, read, record

EXPECTED = read(GOLDEN.read_text())


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """At a follower of three nodes."""
    folder: Path = tmp_path_factory.mktemp("door")
    with NodeServers(folder / "servers") as servers:
        return record(servers, folder)


@pytest.mark.parametrize("program", EXPECTED)
def test_the_door_says_what_a_real_zookeeper_says(traces: Traces, program: str) -> None:
    """kazoo is one of the programs: it ends with an assertion where a server is no ZooKeeper."""
    found = difference(EXPECTED[program], traces[program])
    assert not found, found
