"""A tree of observers in one process: one voter, and more observers than it feeds (docs/observers.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.waiting import free_addresses, wait_until

WAIT_S = 60.0
FEEDS_MAX = 8
NAMES = [f"o{number}" for number in range(FEEDS_MAX + 3)]


class Tree:
    """The voter, which is the only seed of every observer, and the observers by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seed, self.client_address, *free = free_addresses(2 + len(NAMES))
        self.addresses = dict(zip(NAMES, free, strict=True))
        self.voter = raftmeta.Node(
            "a", peers={"a": self.seed}, data_dir=str(folder / "a"), client_listen=self.client_address
        ).start()
        self.observers: dict[str, raftmeta.Node] = {}

    def open(self, name: str) -> None:
        self.observers[name] = raftmeta.Node(
            name,
            role="observer",
            seeds=[f"a={self.seed}"],
            listen=self.addresses[name],
            data_dir=str(self.folder / name),
        ).start()

    def told(self) -> dict[str, raftmeta.ObserverStatus]:
        """The observers of whom the voter knows."""
        return {one.name: one for one in self.voter.status().observers}

    def is_whole(self) -> bool:
        """Whether the voter knows every observer that runs and no other, and who feeds each."""
        told = self.told()
        return set(told) == set(self.observers) and all(
            told[name].feeder == node.status().feeder != "" for name, node in self.observers.items()
        )

    def wait(self) -> None:
        for node in self.observers.values():
            node.ready(timeout_s=WAIT_S)
        wait_until(self.is_whole, timeout_s=WAIT_S, what=lambda: f"the voter knows {self.told()}", pause_s=0.05)

    def close(self) -> None:
        for node in (*self.observers.values(), self.voter):
            node.close()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    made = Tree(tmp_path_factory.mktemp("tree"))
    try:
        made.voter.ready(timeout_s=WAIT_S)
        for name in NAMES:
            made.open(name)
        made.wait()
        yield made
    finally:
        made.close()


def test_an_observer_with_one_seed_comes_down_the_tree(tree: Tree) -> None:
    """The seed feeds eight at most, and names them to the others, which know nobody else."""
    feeders = [one.feeder for one in tree.told().values()]
    assert 0 < feeders.count("a") <= FEEDS_MAX
    assert {feeder for feeder in feeders if feeder != "a"} <= set(tree.observers)
    tree.voter.put("key", b"value")
    for node in tree.observers.values():
        record = node.get("key", timeout_s=WAIT_S)
        assert record is not None and record.value == b"value"


def test_the_top_of_the_tree_knows_who_follows_through_whom(tree: Tree) -> None:
    """A client that reaches the voter only sees every observer, once, with feeder; without writes nobody lags."""

    def is_seen(client: raftmeta.Client) -> bool:
        found = client.status(timeout_s=WAIT_S).observers
        feeders = {name: node.status().feeder for name, node in tree.observers.items()}
        return {one.name: one.feeder for one in found} == feeders and not any(one.lag for one in found)

    with raftmeta.Client(f"raft://{tree.client_address}") as client:
        wait_until(lambda: is_seen(client), timeout_s=WAIT_S, what=lambda: f"{client.status().observers}", pause_s=0.05)
        statuses = [client.status(timeout_s=WAIT_S), *(node.status() for node in tree.observers.values())]
    assert [one.name for one in raftmeta.ObserverStatus.merged(statuses)] == sorted(NAMES)


def test_those_that_a_lost_observer_fed_find_another_feeder(tree: Tree) -> None:
    """They go on in its place or below others, and the voter forgets the lost one."""
    feeder = next(one.feeder for one in tree.told().values() if one.feeder != "a")
    tree.observers.pop(feeder).close()
    tree.voter.put("key", b"later")
    tree.wait()
    for node in tree.observers.values():
        record = node.get("key", timeout_s=WAIT_S)
        assert record is not None and record.value == b"later"
    tree.open(feeder)
    tree.wait()
