"""The script whose every sync is a bad moment to lose power: 200 operations on three nodes in one process.

    python -m jepsen.faults.script run '{"folder": ..., "peers": {"a": "127.0.0.1:7001", ...}}'
    python -m jepsen.faults.script verify ...

`run` says on standard output what it begins and what was acknowledged, a line for each, so that whoever reads knows it
after the process was killed in the middle of a system call. Among the operations there are a snapshot, a log conflict
(a leader that is cut off appends what the others never see, and truncates it) and changes of the membership.
`verify` starts the nodes over what the disks have, and says what a linearizable read finds on each of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from raftmeta import Node, RaftmetaError
from raftmeta.testing import Cluster
from raftmeta.testing.cluster import TEST_CONFIG

OPERATIONS = 200
AT_ONCE = 4  # operations under way, so that one sync carries several
ADD_EVERY = 5  # so many operations are an add to the counter, the others put keys of their own
CONFLICT_AT, DEMOTE_AT, PROMOTE_AT = 80, 140, 160
LOST_OPERATIONS = 4  # asked of the leader that is cut off
LOST_S = 0.3
COUNTER, PREFIX = "counter", "key/"
CONFIG = replace(
    TEST_CONFIG, segment_bytes=64 * 1024, wal_bytes_max=4 * 1024 * 1024, snapshot_entries=100, reserve_bytes=64 * 1024
)
VERIFY_S = 60.0


def is_add(number: int) -> bool:
    return number % ADD_EVERY == 0


def key_of(number: int) -> str:
    return f"{PREFIX}{number:03}"


class Script:
    """The operations in order, on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = ThreadPoolExecutor(AT_ONCE)

    def run(self) -> None:
        self._write(range(CONFLICT_AT))
        self._conflict(CONFLICT_AT)
        self._write(range(CONFLICT_AT + 2 * LOST_OPERATIONS, DEMOTE_AT))
        follower = self._cluster.followers()[0]
        self._cluster.leader().demote(follower.name)
        self._write(range(DEMOTE_AT, PROMOTE_AT))
        self._cluster.leader().promote(follower.name)
        self._write(range(PROMOTE_AT, OPERATIONS))
        self._cluster.wait_converged()
        # So many entries with a snapshot every hundred: one that was not taken makes this another script.
        self._cluster.wait_for(
            lambda: all(node.metrics()["snapshots_taken"] > 0 for node in self._cluster.running()),
            what="a snapshot of each node",
        )

    def _conflict(self, first: int) -> None:
        """A leader appends alone; the others elect another one and go on; when it hears them, its tail is truncated."""
        former = self._cluster.leader()
        last = former.status().last
        self._cluster.isolate(former)
        lost = [self._pool.submit(self._one, former, first + number, LOST_S) for number in range(LOST_OPERATIONS)]
        self._cluster.wait_for(lambda: former.status().last > last, what="entries that only the leader has")
        others = [node for node in self._cluster.running() if node is not former]
        self._cluster.wait_for(lambda: any(node.status().is_leader for node in others), what="another leader")
        for future in lost:
            future.result()
        for number in range(first + LOST_OPERATIONS, first + 2 * LOST_OPERATIONS):
            self._one(others[number % 2], number, None)
        self._cluster.heal()
        self._cluster.wait_converged()

    def _write(self, numbers: Iterable[int]) -> None:
        nodes = self._cluster.running()
        for future in [self._pool.submit(self._one, nodes[number % 3], number, None) for number in numbers]:
            future.result()

    def _one(self, node: Node, number: int, timeout_s: float | None) -> None:
        self._say("begin", number)
        try:
            if is_add(number):
                node.add(COUNTER, timeout_s=timeout_s)
            else:
                node.put(key_of(number), str(number), timeout_s=timeout_s)
        except RaftmetaError:
            if timeout_s is None:
                raise
        else:
            self._say("ack", number)

    def _say(self, what: str, number: int) -> None:
        os.write(sys.stdout.fileno(), f"{what} {number}\n".encode())  # whole or not: the end may come at any time


def found(cluster: Cluster) -> dict[str, Any]:
    """What every voter has after a linearizable read: {name: {"keys": [...], "counter": n}}."""
    leader = cluster.leader(timeout_s=VERIFY_S)
    voters = [member.name for member in leader.members(timeout_s=VERIFY_S) if member.role == "voter"]
    told = {}
    for name in voters:
        node = cluster.node(name)
        node.ready(VERIFY_S)
        counter = node.get(COUNTER, timeout_s=VERIFY_S)
        keys = {one.key.decode(): one.value.decode() for one in node.range(prefix=PREFIX, local=True).records}
        told[name] = {"keys": keys, "counter": 0 if counter is None else int.from_bytes(counter.value, "big")}
    return told


def main() -> None:
    verb, settings = sys.argv[1], json.loads(sys.argv[2])
    with contextlib.closing(Cluster(list(settings["peers"]), folder=settings["folder"], config=CONFIG)) as cluster:
        cluster.peers.update(settings["peers"])
        if verb == "run":
            Script(cluster.start(timeout_s=VERIFY_S)).run()
            print("end 0", flush=True)
            sys.stdin.read()  # the power is cut while all is at rest
        else:
            for name in cluster.names:
                cluster.restart(name, wait=False)
            print(json.dumps(found(cluster)), flush=True)


if __name__ == "__main__":
    main()
