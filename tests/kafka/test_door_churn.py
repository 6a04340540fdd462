"""Members of one group over three Kafka doors come and go, and a node goes in the middle: the small sibling of
`./build.sh doors group_churn`, without clocks. Nobody's session ends here; members that go are removed by their ids.

Each member writes for its resources under the fence that the store tells it. A recorder outside watches these keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import raftmeta
from raftmeta.operations import Fence
from tests.kafka.nodes import WAIT_S, Member, RawClient, doors
from tests.node.nodes import leader_of

GROUP = "churned"
MEMBERS = 12
RESOURCES = tuple(f"r{number:02}" for number in range(2 * MEMBERS))
SESSION_MS = 300_000
ROUNDS, LEAVING = 4, 3

Fences = dict[str, tuple[Fence, list[str]]]  # of each member, with the resources that it owns


class Shared:
    """The group. fences: of the members of the newest generation."""

    def __init__(self, node: raftmeta.Node) -> None:
        self.node = node
        self.members: list[Member] = []
        self.fences: Fences = {}

    def come(self, count: int, ports: Iterable[int]) -> None:
        for port in itertools.islice(itertools.cycle(ports), count):
            self.members.append(Member(RawClient(port), GROUP, session_ms=SESSION_MS))

    def go(self, count: int) -> None:
        """The oldest ones end; as after a session, the group is told by nobody else."""
        gone, self.members = self.members[:count], self.members[count:]
        for member in gone:
            member.client.stream.close()
        self.node.groups.leave(GROUP, [member.id for member in gone], timeout_s=WAIT_S)

    def join(self) -> None:
        """All go through the join phase. New ones get their ids first, so that it has one end."""
        for member in self.members:
            if not member.id:
                member.send_join()
                assert member.take_join() == 79
        for member in self.members:
            member.send_join()
        assert {member.take_join() for member in self.members} == {0}
        assert len({member.generation for member in self.members}) == 1

    def sync(self) -> None:
        """The leader shares the resources, and every member learns its fence."""
        owned = {member.id: list(RESOURCES[place :: len(self.members)]) for place, member in enumerate(self.members)}
        shares = {id: ",".join(names).encode() for id, names in owned.items()}
        for member in self.members:
            member.send_sync(shares=shares if member.id == member.leader else None)
        for member in self.members:
            answer = member.client.take()[1]
            assert (answer["error_code"], answer["assignment"]) == (0, shares[member.id])
        self.fences = {}
        for member in self.members:
            synced = self.node.groups.sync(GROUP, member.generation, member.id, timeout_s=WAIT_S)
            self.fences[member.id] = synced.fence, owned[member.id]

    def move(self, ports: Iterable[int]) -> None:
        """All go on over other connections, with the ids that they have."""
        for member, port in zip(self.members, itertools.cycle(ports), strict=False):
            member.client.stream.close()
            member.client = RawClient(port)

    def close(self) -> None:
        for member in self.members:
            member.client.stream.close()


def write(node: raftmeta.Node, fences: Fences, *, is_fenced: bool = True) -> list[bool]:
    """Each owner writes its id for each of its resources; whether the store accepted it."""
    accepted = []
    for id, (fence, resources) in fences.items():
        for resource in resources:
            try:
                node.put(f"owned/{resource}", id, fence=fence if is_fenced else None, timeout_s=WAIT_S)
            except raftmeta.Fenced:
                accepted.append(False)
            else:
                accepted.append(True)
    return accepted


def writers(watch: raftmeta.Watch, count: int) -> list[tuple[bytes, str]]:
    """The next changes of resources, as somebody outside sees them."""
    events = itertools.islice(watch, count)
    return [(event.key, event.value.decode()) for event in events]


def owners(fences: Fences) -> list[tuple[bytes, str]]:
    return [(f"owned/{resource}".encode(), id) for id, (_, resources) in fences.items() for resource in resources]


def test_members_come_and_go_and_no_resource_has_two_writers(tmp_path: Path) -> None:
    """Act: in each round members go, others come, and the owners of the round before write once more; in one round the
    Raft leader closes between join and sync. Check: every assignment is complete, its owners may write, those before
    may not, and a watch sees one writer for each resource and round. No generation comes without a reason."""
    with doors(tmp_path, names="abc") as (nodes, at):
        lost = leader_of(nodes).name
        watcher = next(node for name, node in nodes.items() if name != lost)
        shared = Shared(watcher)
        with watcher.watch(prefix="owned/") as watch:
            try:
                shared.come(MEMBERS, at.values())
                for number in range(ROUNDS):
                    before = shared.fences
                    if number:
                        shared.go(LEAVING)
                        shared.come(LEAVING, at.values())
                    shared.join()
                    if number == ROUNDS - 2:
                        nodes.pop(lost).close(transfer=False)
                        del at[lost]
                        leader_of(nodes)
                        shared.move(at.values())
                    shared.sync()
                    assert not any(write(watcher, before))
                    assert all(write(watcher, shared.fences))
                    assert sorted(name for _, names in shared.fences.values() for name in names) == list(RESOURCES)
                    assert writers(watch, len(RESOURCES)) == owners(shared.fences)
                found = watcher.groups.describe(GROUP, timeout_s=WAIT_S)
                assert found is not None and found.generation == ROUNDS
            finally:
                shared.close()


def test_a_watch_sees_two_writers_when_one_leaves_out_its_fence(tmp_path: Path) -> None:
    """The check of the test above finds a member that goes on without its fence."""
    with doors(tmp_path) as (nodes, at):
        node = nodes["a"]
        shared = Shared(node)
        with node.watch(prefix="owned/") as watch:
            try:
                shared.come(3, at.values())
                shared.join()
                shared.sync()
                before = shared.fences
                shared.go(1)
                shared.join()
                shared.sync()
                assert all(write(node, before, is_fenced=False))
                assert all(write(node, shared.fences))
                assert writers(watch, len(RESOURCES)) != owners(shared.fences)
            finally:
                shared.close()
