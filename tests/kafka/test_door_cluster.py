"""Three nodes with Kafka doors: any node coordinates, and a group outlives each of them without a rebalance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import raftmeta
from tests.kafka.nodes import GROUPS, LEVEL_OF_CONSUMER_GROUPS, WAIT_S, Member, RawClient, doors
from tests.node.nodes import QUICK, leader_of
from tests.processes.child import hold_gil
from tests.processes.cluster import NodeProcess, ready, status
from tests.processes.waiting import free_ports, wait_until

HELD_S = 3.0
TOPICS = 20


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


def test_a_node_without_a_leader_sends_its_clients_away(tmp_path: Path) -> None:
    """A connection of before is closed, and a new one when it asks for more than versions."""
    with doors(tmp_path, names="abc") as (nodes, at):
        with RawClient(at["a"]) as client:
            assert client.ask("Metadata", 12, topics=[])["brokers"]
            for name in "bc":
                nodes[name].close(transfer=False)
            assert client.is_closed()
        with RawClient(at["a"]) as client:
            assert client.ask("ApiVersions", 0)["error_code"] == 0
            client.send("Metadata", 12, topics=[])
            assert client.is_closed()


def test_a_host_that_holds_the_gil_costs_no_member_its_session(tmp_path: Path) -> None:
    """Act: the program of the only node holds the GIL for twice a session. Check: each heartbeat is answered, and the
    generation goes on."""
    peer, address = (f"127.0.0.1:{port}" for port in free_ports(2))
    settings = {**QUICK, **GROUPS, "kafka_listen": address}
    node = NodeProcess("a", peers={"a": peer}, folder=tmp_path, settings=settings)
    try:
        node.start()
        node.call(ready, 30)
        wait_until(
            lambda: node.call(status)["feature_level"] >= LEVEL_OF_CONSUMER_GROUPS, timeout_s=WAIT_S, what=node.log_tail
        )
        with RawClient(int(address.rpartition(":")[2])) as client:
            me = Member(client, session_ms=1500)
            assert me.join() == 0
            assert me.sync(shares={})["error_code"] == 0
            held = node.begin(hold_gil, HELD_S)
            beats = 0
            while not held.done():
                assert me.beat() == 0
                beats += 1
            assert held.result(20) >= HELD_S
            assert beats > 100
            assert me.beat() == 0
    finally:
        node.kill()


def test_a_topic_that_was_made_is_told_by_every_node_at_once(tmp_path: Path) -> None:
    """A consumer that is told that its topic is gone begins a rebalance. Act: topics are made at one node, and each is
    asked for at the others as soon as it is made; nodes lag behind the leader by a message."""
    with doors(tmp_path, names="abc") as (nodes, at), contextlib.ExitStack() as stack:
        leader = leader_of(nodes).name
        maker = stack.enter_context(RawClient(at[leader]))
        others = [stack.enter_context(RawClient(port)) for name, port in at.items() if name != leader]
        for number in range(TOPICS):
            topic = {"name": f"topic{number}", "num_partitions": 2, "replication_factor": 1}
            assert maker.ask("CreateTopics", 5, topics=[topic], timeout_ms=30_000)["topics"][0]["error_code"] == 0
            asked = {"topics": [{"name": topic["name"]}], "allow_auto_topic_creation": False}
            for other in others:
                other.send("Metadata", 12, **asked)
            found = [other.take()[1]["topics"][0] for other in others]
            assert [(one["error_code"], len(one["partitions"])) for one in found] == [(0, 2)] * len(others)
