"""Three nodes of raftmeta whose doors for Kafka's clients are open, as processes on loopback."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import raftmeta
from tests.kafka.nodes import LEVEL_OF_CONSUMER_GROUPS
from tests.processes.cluster import Cluster, status
from tests.processes.waiting import free_addresses, wait_until

MEMBERS = 3
START_S = 90.0


# --- in the process of a node -----------------------------------------------------------------------------------------
def enable_rights(node: raftmeta.Node, user: str, password: str) -> None:
    """From now on everybody proves who they are. This user may do everything with groups."""
    node.auth.put_role("groups")
    node.auth.grant("groups", "read", "write", "lease", prefix="groups/")
    node.auth.put_role("admin")
    node.auth.grant("admin", "admin")
    for name, role in ((user, "groups"), ("admin", "admin")):
        node.auth.put_user(name, password)
        node.auth.bind(name, role)
    node.auth.enable()


class KafkaNodes:
    """A context: nodes that serve at `address`, which names all of them. settings: of Config."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.addresses = free_addresses(MEMBERS)
        names = [f"n{number}" for number in range(MEMBERS)]
        self.cluster = Cluster(folder, names=names, **{"kafka_initial_delay_s": 0.0, **settings})
        self.nodes = list(self.cluster.nodes.values())
        for node, address in zip(self.nodes, self.addresses, strict=True):
            name, peers, place, config, *listens = node.arguments
            node.arguments = (name, peers, place, {**config, "kafka_listen": address}, *listens)

    @property
    def address(self) -> str:
        return ",".join(self.addresses)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.cluster.start()
            self.cluster.wait_ready()
            wait_until(
                lambda: all(node.call(status)["feature_level"] >= LEVEL_OF_CONSUMER_GROUPS for node in self.nodes),
                timeout_s=START_S,
                what=self.cluster.logs,
            )
        except BaseException:
            self.cluster.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.kill()
