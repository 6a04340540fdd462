"""Three nodes with Kafka doors: any node coordinates, and a group outlives each of them without a rebalance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import raftmeta
from tests.kafka.nodes import Member, RawClient, doors
from tests.node.nodes import leader_of
from tests.processes.waiting import wait_until


@contextlib.contextmanager
def joined(ports: list[int]) -> Iterator[list[Member]]:
    """Members of one stable group, each over a node of its own."""
    with contextlib.ExitStack() as stack:
        members = [Member(stack.enter_context(RawClient(port))) for port in ports]
        for member in members:
            member.send_join()
            assert member.take_join() == 79
        for member in members:
            member.send_join()
        assert [member.take_join() for member in members] == [0] * len(members)
        yield members


def over(member: Member, port: int) -> Member:
    """The same member over another connection."""
    moved = Member(RawClient(port), member.group)
    moved.id, moved.generation, moved.leader = member.id, member.generation, member.leader
    return moved


def test_every_node_is_told_as_a_broker(tmp_path: Path) -> None:
    with doors(tmp_path, names="abc") as (_, at), RawClient(at["b"]) as client:

        def brokers() -> set[int]:
            return {broker["port"] for broker in client.ask("Metadata", 12, topics=[])["brokers"]}

        wait_until(lambda: brokers() == set(at.values()), timeout_s=10, what=lambda: f"{brokers()} of {at}")
        answer = client.ask("Metadata", 12, topics=[])
        assert len({broker["node_id"] for broker in answer["brokers"]}) == 3


def test_members_over_three_nodes_are_one_group(tmp_path: Path) -> None:
    with doors(tmp_path, names="abc") as (_, at), joined(list(at.values())) as members:
        (leader,) = (member for member in members if member.id == member.leader)
        assert {member["member_id"] for member in leader.members} == {member.id for member in members}
        shares = {member.id: member.id.encode() for member in members}
        for member in members:
            member.send_sync(shares=shares if member is leader else None)
        assert [member.client.take()[1]["assignment"] for member in members] == [
            member.id.encode() for member in members
        ]


def test_the_coordinating_node_goes_between_join_and_sync(tmp_path: Path) -> None:
    """Act: the node that coordinated is closed before the leader has synced. Check: over another node, the same
    generation goes on, with one new connection and no join."""
    with doors(tmp_path, names="abc") as (nodes, at):
        lost = leader_of(nodes).name
        with joined([at[lost], at[lost]]) as members:
            nodes[lost].close(transfer=False)
            other = next(port for name, port in at.items() if name != lost)
            moved = [over(member, other) for member in members]
            shares = {member.id: b"share" for member in moved}
            for member in moved:
                member.send_sync(shares=shares if member.id == member.leader else None)
            answers = [member.client.take()[1] for member in moved]
            assert [(one["error_code"], one["assignment"]) for one in answers] == [(0, b"share")] * 2
            assert [member.beat() for member in moved] == [0, 0]
            for member in moved:
                member.client.stream.close()


def test_a_change_of_the_raft_leader_is_no_rebalance(tmp_path: Path) -> None:
    with doors(tmp_path, names="abc") as (nodes, at), joined(list(at.values())) as members:
        shares = {member.id: b"share" for member in members}
        for member in members:
            member.send_sync(shares=shares if member.id == member.leader else None)
        assert all(member.client.take()[1]["error_code"] == 0 for member in members)
        first = leader_of(nodes).name
        nodes[first].transfer(next(name for name in nodes if name != first))
        assert [member.beat() for member in members] == [0, 0, 0]
        assert {member.beat() for member in members} == {0}


def test_a_user_of_the_library_and_a_client_of_kafka_are_one_group(tmp_path: Path) -> None:
    """Both are members of the group in the log."""
    with doors(tmp_path) as (nodes, at), RawClient(at["a"]) as client:
        groups = nodes["a"].groups
        with nodes["a"].lease(10) as lease:
            mine = groups.join("g", {"range": b"of the library"}, lease=lease, protocol_type="consumer")
            groups.sync("g", mine.generation, mine.member_id, {mine.member_id: b"all"})
            me = Member(client)
            me.send_join()
            me.take_join()
            me.send_join()

            def prepares() -> bool:
                try:
                    groups.heartbeat("g", mine.generation, mine.member_id)
                except raftmeta.GroupRefused as refused:
                    return refused.code == 27
                return False

            wait_until(prepares, timeout_s=10, what="the rebalance")
            again = groups.join(
                "g", {"range": b"of the library"}, member_id=mine.member_id, lease=lease, protocol_type="consumer"
            )
            assert me.take_join() == 0
            assert {member.member_id for member in again.members} == {mine.member_id, me.id}
