"""Observers as processes: they follow, read, write and watch, and go on elsewhere when their feeder dies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.processes.cluster import Cluster, get, put, ready, status
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_addresses, wait_until

WAIT_S = 40.0
WRITES = 60
SEEN: list[bytes] = []  # of the process of an observer: the values that its watch showed


def open_observer(name: str, seeds: Sequence[str], listen: str, folder: str) -> raftmeta.Node:
    return raftmeta.Node(name, role="observer", seeds=seeds, listen=listen, data_dir=folder).start()


def watch_all(node: raftmeta.Node, prefix: str) -> None:
    """Keep every value under the prefix that the watch shows, in its order."""
    node.watch(prefix=prefix, callback=lambda batch: SEEN.extend(event.value for event in batch.events))


def seen(node: raftmeta.Node) -> list[bytes]:
    return list(SEEN)


def counter(node: raftmeta.Node, name: str) -> int:
    return int(node.metrics()[name])


class Observer(RemoteProcess):
    """One observer of a cluster, in a process and a folder of its own."""

    def __init__(
        self, name: str, cluster: Cluster, folder: Path, seeds: dict[str, str] | None = None, *, address: str = ""
    ) -> None:
        self.address = address or free_addresses(1)[0]
        listed = [f"{seed}={address}" for seed, address in (seeds or cluster.peers).items()]
        super().__init__(open_observer, name, listed, self.address, str(folder / name), log=folder / f"{name}.log")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.call(status, timeout_s=WAIT_S)
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


@pytest.fixture
def observers(cluster: Cluster, tmp_path: Path) -> Iterator[list[Observer]]:
    """Two of them, both ready."""
    found = [Observer(name, cluster, tmp_path) for name in ("x", "y")]
    try:
        for begun in [one.begin_start() for one in found]:
            begun.result(WAIT_S)
        for one in found:
            one.call(ready, WAIT_S, timeout_s=WAIT_S)
        yield found
    finally:
        for one in found:
            one.kill()


def test_an_observer_does_all_that_a_member_does_and_is_none(cluster: Cluster, observers: list[Observer]) -> None:
    """Each writes, and each reads at once what the other one wrote. The membership stays as it was."""
    for number in range(10):
        writer, reader = observers[number % 2], observers[(number + 1) % 2]
        writer.call(put, f"key-{number}", b"%d" % number)
        assert reader.call(get, f"key-{number}") == b"%d" % number
        assert cluster.leader().call(get, f"key-{number}") == b"%d" % number
    told = observers[0].status()
    assert (told["state"], told["role"], told["is_ready"]) == ("observing", "observer", True)
    assert {member["name"] for member in told["members"] if member["role"]} == {"a", "b", "c"}
    fed = {one[0] for node in (*cluster.nodes.values(), *observers) for one in node.call(status)["observers"]}
    assert fed == {"x", "y"}


def test_an_observer_goes_on_elsewhere_when_its_feeder_dies(cluster: Cluster, observers: list[Observer]) -> None:
    """Its watch shows every write once and in order; that of an observer which fed another one ends with it."""
    observer = observers[0]
    observer.call(watch_all, "w/")
    wanted = []
    writer = cluster.leader()
    for number in range(WRITES):
        if number == WRITES // 3:
            feeder = observer.status()["feeder"]
            victim = cluster.nodes.get(feeder) or observers[1]
            victim.kill()
        if not writer.is_alive:
            writer = cluster.leader()
        value = b"%d" % number
        writer.call(put, f"w/{number % 7}", value)
        wanted.append(value)
    wait_until(lambda: len(observer.call(seen)) >= WRITES, timeout_s=WAIT_S, what=lambda: str(observer.call(seen)))
    assert observer.call(seen) == wanted
    assert observer.status()["feeder"] != feeder


def test_an_observer_begins_with_an_observer_and_comes_back_with_its_folder(
    cluster: Cluster, observers: list[Observer], tmp_path: Path
) -> None:
    """Its only seed is an observer, by which it learns the members. It is killed, misses writes, and has them then."""
    late = Observer("z", cluster, tmp_path, {"x": observers[0].address})
    try:
        late.start()
        late.call(ready, WAIT_S, timeout_s=WAIT_S)
        late.call(put, "from-z", b"1")
        late.kill()
        observers[0].call(put, "while-away", b"2")
        observers[0].kill()
        observers[0].start()
        late.start()
        late.call(ready, WAIT_S, timeout_s=WAIT_S)
        assert late.call(get, "from-z") == b"1"
        assert late.call(get, "while-away") == b"2"
    finally:
        late.kill()


def test_a_member_is_no_observer(cluster: Cluster, tmp_path: Path) -> None:
    """A node that says so under a member's name is refused, and the member is not disturbed."""
    false = Observer("a", cluster, tmp_path / "other", {name: cluster.peers[name] for name in ("b", "c")})
    (tmp_path / "other").mkdir()
    try:
        false.start()
        wait_until(
            lambda: any(problem["kind"] == "same_name" for problem in _problems(false)),
            timeout_s=WAIT_S,
            what=lambda: str(false.status()["problems"]),
        )
        cluster.leader().call(put, "key", b"v")
    finally:
        false.kill()


def _problems(node: Observer) -> list[dict[str, Any]]:
    return [problem if isinstance(problem, dict) else dict(zip(("kind", "text"), problem, strict=True))
            for problem in node.status()["problems"]]  # fmt: skip


def remove_member(node: raftmeta.Node, name: str) -> None:
    node.remove_member(name, timeout_s=WAIT_S)


def add_member(node: raftmeta.Node, name: str, address: str) -> None:
    node.add_member(name, address, timeout_s=WAIT_S)


def test_a_member_becomes_an_observer_and_a_member_again(cluster: Cluster, tmp_path: Path) -> None:
    """With its folder, all the way: it gives up its place, follows as an observer, and is added again."""
    cluster.leader().call(put, "before", b"1")
    member = cluster.followers()[0]
    cluster.leader().call(remove_member, member.name, timeout_s=WAIT_S)
    member.close()
    seeds = {name: address for name, address in cluster.peers.items() if name != member.name}
    observer = Observer(member.name, cluster, tmp_path, seeds, address=cluster.peers[member.name])
    try:
        observer.start()
        observer.call(ready, WAIT_S, timeout_s=WAIT_S)
        observer.call(put, "between", b"2")
        assert observer.call(get, "before") == b"1"
        assert observer.status()["state"] == "observing"
    finally:
        observer.kill()
    member.start()
    cluster.leader().call(add_member, member.name, cluster.peers[member.name], timeout_s=WAIT_S)
    member.call(ready, WAIT_S, timeout_s=WAIT_S)
    assert member.call(get, "between") == b"2"
    told = member.call(status)
    assert {each["name"] for each in told["members"] if each["role"]} == {"a", "b", "c"}
    assert (told["state"], told["role"]) == ("running", "follower")
