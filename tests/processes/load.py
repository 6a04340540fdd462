"""Writers in the test's own process: what they were told to be written is remembered here, and no kill forgets it.

with Load(cluster) as load:
    cluster.nodes["a"].kill()
load.check(cluster)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import raftmeta
from tests.processes.cluster import Cluster, NodeProcess, ready
from tests.processes.remote import ProcessGone, RemoteError
from tests.processes.waiting import wait_until

WRITERS = 6
PUT_S = 3.0
ENDS_S = PUT_S + 60.0  # a put ends by itself; a process that is asked while it starts answers when it has started
# What a kill elsewhere may do to a write; whatever else is raised is a mistake.
EXPECTED = {"NoLeader", "NotReady", "NodeRemoved", "ReadyTimeout", "Withdrawn", "OutcomeUnknown", "OutcomeTimeout"}


@dataclass(frozen=True)
class Acknowledged:
    key: str
    value: bytes
    revision: int
    begun_s: float
    ended_s: float


def put_within(node: raftmeta.Node, key: str, value: bytes, timeout_s: float) -> int:
    return int(node.put(key, value, timeout_s=timeout_s))


def read_all(node: raftmeta.Node, prefix: str) -> list[list[Any]]:
    """What this node itself has, after a linearizable read that waits for all that was acknowledged before."""
    node.get(prefix, timeout_s=10)
    return [[one.key, one.value, one.mod_revision] for one in node.range(prefix=prefix, local=True).records]


class Load:
    """Writers that go from node to node; each has one write under way. A key is written by one call, never twice.

    expected: names of errors that are no mistake here, beside those that a kill may bring.
    """

    def __init__(
        self, cluster: Cluster, *, prefix: str = "load/", writers: int = WRITERS, expected: Collection[str] = ()
    ) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.unexpected: list[str] = []
        self._cluster = cluster
        self._prefix = prefix
        self._expected = EXPECTED | set(expected)
        self._must_stop = threading.Event()
        self._threads = [threading.Thread(target=self._write_on, args=(number,)) for number in range(writers)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._must_stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int = 20, *, timeout_s: float = 60.0) -> None:
        """Until so many more writes, begun after this call, are acknowledged."""
        now = time.monotonic()

        def fresh() -> bool:
            return sum(one.begun_s > now for one in self.acknowledged[-10 * count :]) >= count

        wait_until(fresh, timeout_s=timeout_s, what=lambda: f"{count} more writes\n{self._cluster.logs()}")

    def check(self, cluster: Cluster) -> None:
        """Every acknowledged write is on every node as it was acknowledged, and no two have one revision."""
        assert not self.unexpected, "\n".join(self.unexpected[:5])
        assert self.acknowledged
        assert len({one.revision for one in self.acknowledged}) == len(self.acknowledged)
        for name, node in cluster.nodes.items():
            found = {key.decode(): (value, revision) for key, value, revision in node.call(read_all, self._prefix)}
            lost = [one for one in self.acknowledged if found.get(one.key) != (one.value, one.revision)]
            assert not lost, f"node {name} lost {len(lost)} of {len(self.acknowledged)}: {lost[:3]}"

    def _write_on(self, writer: int) -> None:
        number = 0
        while not self._must_stop.is_set():
            nodes = list(self._cluster.nodes.values())  # members come and go
            key = f"{self._prefix}{writer}/{number}"
            self._write_one(nodes[(writer + number) % len(nodes)], key, key.encode() * 3)
            number += 1

    def _write_one(self, node: NodeProcess, key: str, value: bytes) -> None:
        begun_s = time.monotonic()
        try:
            revision = node.call(put_within, key, value, PUT_S, timeout_s=ENDS_S)
        except ProcessGone:
            self._must_stop.wait(0.005)  # nobody is told anything; another node is next
            return
        except RemoteError as error:
            if error.kind not in self._expected:
                self.unexpected.append(str(error))
            return
        except TimeoutError:
            self.unexpected.append(f"put of {key} on {node.name} did not end\n{node.log_tail()}")
            return
        self.acknowledged.append(Acknowledged(key, value, revision, begun_s, time.monotonic()))


def start_again(node: NodeProcess, *, timeout_s: float = 40.0) -> None:
    """On return it has caught up."""
    node.start()
    node.call(ready, timeout_s, timeout_s=timeout_s + 5)
