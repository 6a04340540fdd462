"""Groups at the Kafka door: each request in each state is answered as a real Kafka 3.9.2 did (group_table.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka import group_table
from tests.kafka.group_table import REQUESTS, STATES
from tests.kafka.nodes import RawClient, doors

QUIET_S = 0.05  # of cells that wait: a late answer is found by ./build.sh doors group_table --on raftmeta


def test_every_cell_is_recorded() -> None:
    assert set(group_table.recorded()) == set(group_table.cells())
    assert len(group_table.recorded()) == len(REQUESTS) * len(STATES)


@pytest.mark.timeout(120)
def test_each_request_in_each_state_is_answered_as_kafka_does(tmp_path: Path) -> None:
    with doors(tmp_path) as (_, at):
        with RawClient(at["a"]) as client:
            topic = {"name": group_table.TOPIC, "num_partitions": 1, "replication_factor": 1}
            client.ask("CreateTopics", 5, topics=[topic], timeout_ms=1000)
        assert group_table.differences(at["a"], quiet_s=QUIET_S) == []
