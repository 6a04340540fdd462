"""The table of groups, cell by cell: what each request is answered in each state, on a real Kafka 3.9 and on raftmeta.

On Kafka the recorded lines are compared, or written anew. On raftmeta each cell is that of Kafka.
"""

from __future__ import annotations

from tests.doors.acceptance.topics import served
from tests.doors.acceptance.trial import Trial
from tests.kafka import group_table
from tests.kafka.nodes import RawClient
from tests.processes.waiting import wait_until

SHOWN = 10
COORDINATOR_S = 60.0


def make_ready(port: int) -> None:
    """A topic for offsets, and a coordinator that answers."""
    topic = {"name": group_table.TOPIC, "num_partitions": 1, "replication_factor": 1}
    with RawClient(port) as client:
        assert client.ask("CreateTopics", 5, topics=[topic], timeout_ms=10_000)["topics"][0]["error_code"] == 0

        def coordinates() -> bool:
            found = client.ask("FindCoordinator", 4, key_type=0, coordinator_keys=["any"])["coordinators"][0]
            (group,) = client.ask("DescribeGroups", 5, groups=["any"])["groups"]
            return found["error_code"] == group["error_code"] == 0

        wait_until(coordinates, timeout_s=COORDINATOR_S, what="a coordinator", pause_s=0.5)


def run(trial: Trial, *, write: bool = False) -> None:
    with served(trial) as address:
        port = int(address.partition(",")[0].rpartition(":")[2])
        make_ready(port)
        if trial.kind == "kafka":
            with trial.check("every cell is asked"):
                found = group_table.record(port)
            if write:
                group_table.write(found)
            wrong = [f"{cell}: {told}" for cell, told in found.items() if group_table.recorded()[cell] != told]
        else:
            with trial.check("every cell is asked"):
                wrong = group_table.differences(port, quiet_s=group_table.QUIET_S)
        for line in wrong:
            trial.tell(line)
        trial.add(f"{len(list(group_table.cells()))} cells are as they are recorded", 0, "; ".join(wrong[:SHOWN]))
