"""What an error says of an operation is what became of it, while leaders are killed around the one that asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.processes.cluster import Cluster, NodeProcess
from tests.processes.load import read_all, start_again
from tests.processes.waiting import wait_until

WRITERS = 8
LEADERS_KILLED = 3
IMPATIENT_S = 0.004  # about as long as a write takes: it ends before the proposal, after it, or in time


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


class Impatient:
    """Writers that wait for a few milliseconds only, and what each was told."""

    def __init__(self, node: raftmeta.Node) -> None:
        self.node = node
        self.ended = threading.Event()
        self.fates: dict[str, str] = {}  # of each key: "done", "not executed", "unknown"
        self.tickets: list[tuple[str, Any]] = []
        self.numbers: list[int] = []  # what each add() answered, at once or by its ticket
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, writer: int) -> None:
        number = 0
        while not self.ended.is_set():
            self.put(f"fate/{writer}/{number}")
            self.add(f"add/{writer}/{number}")
            number += 1

    def put(self, key: str) -> None:
        try:
            self.node.put(key, key, timeout_s=IMPATIENT_S)
            self.fates[key] = "done"
        except raftmeta.NotExecuted:
            self.fates[key] = "not executed"
            self.ended.wait(0.002)
        except raftmeta.OutcomeUnknown as error:
            self.fates[key] = "unknown"
            self.tickets.append((key, error.ticket))

    def add(self, name: str) -> None:
        try:
            self.numbers.append(self.node.add("count", timeout_s=IMPATIENT_S).result)
        except raftmeta.NotExecuted:
            self.ended.wait(0.002)
        except raftmeta.OutcomeUnknown as error:
            self.tickets.append((name, error.ticket))

    def learn(self) -> None:
        """Go on with every operation whose outcome was unknown, twice: the second answer is the first."""
        for name, ticket in self.tickets:
            if ticket is None:
                continue  # nothing more can be learned
            revision = ticket.result(20)
            assert int(ticket.result(1)) == int(revision)
            if name.startswith("add/"):
                self.numbers.append(revision.result)
            else:
                self.fates[name] = "done"


RUNNING: list[Impatient] = []


def begin(node: raftmeta.Node) -> None:
    RUNNING.append(Impatient(node))


def told_so_far(_node: raftmeta.Node) -> int:
    return len(RUNNING[-1].fates)


def end(_node: raftmeta.Node) -> dict[str, Any]:
    """Stop writing, resolve what is unknown, and tell."""
    impatient = RUNNING.pop()
    impatient.ended.set()
    for thread in impatient.threads:
        thread.join()
    unknown = len(impatient.tickets)
    impatient.learn()
    return {
        "fates": impatient.fates,
        "numbers": impatient.numbers,
        "unknown": unknown,
        "lost": sum(ticket is None for _, ticket in impatient.tickets),
    }


def count(node: raftmeta.Node) -> int:
    return int(node.add("count", 0, timeout_s=20).result)


def kill_leaders(cluster: Cluster, writer: NodeProcess) -> None:
    """Whenever another node leads, it dies; writes go on for a while between two deaths."""
    for _ in range(LEADERS_KILLED):
        enough = writer.call(told_so_far) + 300
        wait_until(lambda enough=enough: writer.call(told_so_far) > enough, timeout_s=20, what=cluster.logs)
        leader = cluster.leader()
        if leader is writer:
            leader.call(give_away)
            leader = cluster.leader(other_than=writer.name)
        leader.kill()
        start_again(leader)


def give_away(node: raftmeta.Node) -> None:
    node.transfer(timeout_s=10)


def test_every_error_tells_what_became_of_the_write(cluster: Cluster) -> None:
    """NotExecuted is nowhere, done is everywhere, and an unknown outcome is learned by
    its ticket: each add() is counted exactly once, however often the cluster had to be asked."""
    writer = cluster.followers()[0]
    writer.call(begin)
    kill_leaders(cluster, writer)
    told = writer.call(end, timeout_s=100)
    fates = told["fates"]
    kinds = list(fates.values())
    assert kinds.count("done") > 100
    assert kinds.count("not executed") > 0
    assert told["unknown"] > 0
    assert told["lost"] == 0
    for name, node in cluster.nodes.items():
        found = {key.decode() for key, _, _ in node.call(read_all, "fate/")}
        wrong = [key for key, fate in fates.items() if (fate == "not executed") == (key in found)]
        assert not wrong, f"{name}: {[(key, fates[key]) for key in wrong[:5]]}"
    assert sorted(told["numbers"]) == list(range(1, len(told["numbers"]) + 1))
    assert writer.call(count) == len(told["numbers"])
