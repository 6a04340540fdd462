"""Consumer groups (KIP-848) at the Kafka door, byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.kafka.nodes import RawClient, doors
from tests.machine import consumers as k
from tests.processes.waiting import wait_until

INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, INVALID_REQUEST, GROUP_ID_NOT_FOUND = 24, 25, 42, 69
FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR = 82, 110, 111, 112
STALE_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION = 113, 128
BEAT_MS = 40
SETTINGS = {"kafka_consumer_session_s": 1.5, "kafka_consumer_beat_s": BEAT_MS / 1000}
WAIT_S = 30.0
PARTITIONS = 4


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("door"), **SETTINGS) as (_, at):
        yield at["a"]


def make_topic(port: int, name: str) -> bytes:
    """Its id."""
    topic = {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}
    with RawClient(port) as client:
        (made,) = client.ask("CreateTopics", 7, topics=[topic], timeout_ms=10_000)["topics"]
    assert made["error_code"] == 0
    found: bytes = made["topic_id"]
    return found


@pytest.fixture
def topic(door: int, request: pytest.FixtureRequest) -> tuple[str, bytes]:
    name = request.node.name.replace("[", "-").replace("]", "")
    return name, make_topic(door, name)


class Consumer:
    """A member over one connection. held: partitions that it reads."""

    def __init__(self, port: int, group: str, id: str, names: Iterable[str], *, version: int = 1, **more: Any) -> None:
        self.client = RawClient(port)
        self.group = group
        self.id = id
        self.names = list(names)
        self.version = version
        self.more = more
        self.epoch = 0
        self.held: list[tuple[bytes, int]] = []

    def ask(self, **values: Any) -> dict[str, Any]:
        said = {"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch, **self.more, **values}
        return self.client.ask("ConsumerGroupHeartbeat", self.version, **said)

    def owned(self) -> list[dict[str, Any]]:
        topics = sorted({topic for topic, _ in self.held}, reverse=True)
        return [
            {"topic_id": topic, "partitions": [number for other, number in reversed(self.held) if other == topic]}
            for topic in topics
        ]

    def beat(self, **values: Any) -> dict[str, Any]:
        """With all that it has to say; it takes and gives back at once."""
        said = {"subscribed_topic_names": self.names, "rebalance_timeout_ms": 10_000, "topic_partitions": self.owned()}
        answer = self.ask(**{**said, **values})
        if answer["error_code"] == 0:
            self.id, self.epoch = answer["member_id"], answer["member_epoch"]
            if answer["assignment"] is not None:
                topics = answer["assignment"]["topic_partitions"]
                self.held = [(one["topic_id"], number) for one in topics for number in one["partitions"]]
        return answer

    def close(self) -> None:
        self.client.stream.close()


Come = Callable[..., Consumer]


@pytest.fixture
def come() -> Iterator[Come]:
    """Make consumers whose connections close with the test."""
    with ExitStack() as stack:

        def one(*place: Any, **more: Any) -> Consumer:
            consumer = Consumer(*place, **more)
            stack.callback(consumer.close)
            return consumer

        yield one


def share(*consumers: Consumer) -> None:
    """Beat until they hold all partitions, each as many as the others and none twice."""

    def shared() -> bool:
        for one in consumers:
            assert one.beat()["error_code"] == 0
        held = [set(one.held) for one in consumers]
        each = PARTITIONS // len(consumers)
        return len(set().union(*held)) == PARTITIONS and all(len(one) == each for one in held)

    wait_until(shared, timeout_s=WAIT_S, what="all partitions to be shared", pause_s=BEAT_MS / 1000)


@pytest.mark.parametrize("version", [0, 1])
def test_members_share_a_topic_and_the_group_is_described(
    door: int, topic: tuple[str, bytes], version: int, come: Come
) -> None:
    name, id = topic
    group = name
    one = come(door, group, "one", [name], version=version)
    answer = one.beat()
    assert (answer["error_code"], answer["member_id"], answer["member_epoch"]) == (0, "one", 1)
    assert answer["heartbeat_interval_ms"] == BEAT_MS
    assert answer["assignment"]["topic_partitions"] == [{"topic_id": id, "partitions": [0, 1, 2, 3]}]
    two = come(door, group, "" if version == 0 else "two", [name], version=version)
    assert two.beat()["assignment"]["topic_partitions"] == []
    with RawClient(door) as client:
        listed = client.ask("ListGroups", 5, states_filter=[], types_filter=["consumer"])["groups"]
        assert {"Assigning", "Reconciling"} >= {row["group_state"] for row in listed if row["group_id"] == group}
        share(one, two)
        (row,) = [
            row for row in client.ask("ListGroups", 5, states_filter=["Stable"])["groups"] if row["group_id"] == group
        ]
        assert (row["protocol_type"], row["group_type"]) == ("consumer", "consumer")
        assert client.ask("ListGroups", 5, types_filter=["classic"])["groups"] == []
        (told,) = client.ask("ConsumerGroupDescribe", version, group_ids=[group])["groups"]
        (classic,) = client.ask("DescribeGroups", 5, groups=[group])["groups"]
    assert (told["error_code"], told["group_state"], told["assignor_name"]) == (0, "Stable", "uniform")
    assert told["group_epoch"] == told["assignment_epoch"] == one.epoch
    assert sorted(member["member_id"] for member in told["members"]) == sorted([one.id, two.id])
    for member in told["members"]:
        (held,) = member["assignment"]["topic_partitions"]
        assert member["assignment"] == member["target_assignment"]
        assert (held["topic_id"], held["topic_name"], len(held["partitions"])) == (id, name, 2)
        assert member["subscribed_topic_names"] == [name]
        assert version == 0 or member["member_type"] == 1
    assert (classic["group_state"], classic["members"]) == ("Dead", [])


def test_a_heartbeat_without_news_is_short_and_changes_nothing(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    one = come(door, name, "one", [name])
    one.beat()
    for _ in range(3):
        answer = one.ask()
        assert (answer["error_code"], answer["member_epoch"], answer["assignment"]) == (0, 1, None)
    assert one.beat()["assignment"] is not None


def test_a_member_that_is_silent_loses_its_partitions(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    one, two = (come(door, name, id, [name]) for id in ("one", "two"))
    share(one, two)
    share(one)
    assert two.beat()["error_code"] == UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_is_gone_at_once(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    one, two = (come(door, name, id, [name]) for id in ("one", "two"))
    share(one, two)
    left = two.ask(member_epoch=-1)
    assert (left["error_code"], left["member_epoch"], left["assignment"]) == (0, -1, None)
    assert two.ask(member_epoch=-1)["error_code"] == UNKNOWN_MEMBER_ID
    assert one.beat()["assignment"]["topic_partitions"][0]["partitions"] == [0, 1, 2, 3]


def test_a_static_member_comes_back_without_a_rebalance(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    one, two = come(door, name, "one", [name], instance_id="i"), come(door, name, "two", [name])
    share(one, two)
    held, epoch = one.held, one.epoch
    thief = come(door, name, "thief", [name], instance_id="i")
    assert thief.beat()["error_code"] == UNRELEASED_INSTANCE_ID
    assert one.ask(member_epoch=-2)["member_epoch"] == -2
    again = come(door, name, "again", [name], instance_id="i")
    again.beat()
    assert (again.held, again.epoch) == (held, epoch)
    assert two.beat()["member_epoch"] == epoch
    assert one.ask()["error_code"] == FENCED_INSTANCE_ID


def test_new_partitions_are_given_to_members_that_beat(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    later = f"{name}-later"
    one = come(door, name, "one", [name, later])
    assert len(one.beat()["assignment"]["topic_partitions"]) == 1
    make_topic(door, later)
    assert len(one.ask(topic_partitions=one.owned())["assignment"]["topic_partitions"]) == 2


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"member_id": ""}, INVALID_REQUEST),
        ({"member_id": "x" * 200}, INVALID_REQUEST),
        ({"member_epoch": -3}, INVALID_REQUEST),
        ({"member_epoch": -2}, INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, INVALID_REQUEST),
        ({"topic_partitions": None}, INVALID_REQUEST),
        ({"topic_partitions": [{"topic_id": b"i" * 16, "partitions": [1]}]}, INVALID_REQUEST),
        ({"subscribed_topic_names": None}, INVALID_REQUEST),
        ({"subscribed_topic_names": ["n" * 250]}, INVALID_REQUEST),
        ({"subscribed_topic_regex": "a.*"}, INVALID_REGULAR_EXPRESSION),
        ({"server_assignor": "sticky"}, UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 4}, GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, GROUP_ID_NOT_FOUND),
        ({"group_id": ""}, INVALID_GROUP_ID),
    ],
)
def test_what_means_nothing_is_refused(door: int, values: dict[str, Any], code: int, come: Come) -> None:
    assert come(door, "nothing", "one", ["t"]).beat(**values)["error_code"] == code


def test_a_member_with_another_epoch_is_fenced(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    one = come(door, name, "one", [name])
    one.beat()
    assert one.ask(member_epoch=7)["error_code"] == FENCED_MEMBER_EPOCH
    assert come(door, name, "two", [name]).ask(member_epoch=1)["error_code"] == UNKNOWN_MEMBER_ID


def test_offsets_are_for_members_of_their_epoch(door: int, topic: tuple[str, bytes], come: Come) -> None:
    name, _ = topic
    one = come(door, name, "one", [name])
    one.beat()

    def commit(epoch: int) -> int:
        partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [partition]}]
        said = {"group_id": name, "generation_id_or_member_epoch": epoch, "member_id": "one", "topics": topics}
        code: int = one.client.ask("OffsetCommit", 9, **said)["topics"][0]["partitions"][0]["error_code"]
        return code

    def fetch(member: str | None, epoch: int) -> int:
        topics = [{"name": name, "partition_indexes": [0]}]
        asked = [{"group_id": name, "member_id": member, "member_epoch": epoch, "topics": topics}]
        code: int = one.client.ask("OffsetFetch", 9, groups=asked)["groups"][0]["error_code"]
        return code

    assert (commit(1), commit(2)) == (0, STALE_MEMBER_EPOCH)
    assert (fetch("one", 1), fetch(None, -1)) == (0, 0)
    assert (fetch("one", 2), fetch("two", 1)) == (STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID)


def test_words_of_the_other_protocol_find_no_member(tmp_path: Path, come: Come) -> None:
    """GroupMetadataManager.throwIfMemberDoesNotUseClassicProtocol. Programs see the group, and remove its members."""
    with doors(tmp_path, **SETTINGS) as (nodes, at):
        id = make_topic(at["a"], "t")
        one = come(at["a"], "g", "one", ["t"])
        one.beat()
        said = {"group_id": "g", "generation_id": 1, "member_id": "one"}
        assert one.client.ask("Heartbeat", 4, **said)["error_code"] == UNKNOWN_MEMBER_ID
        asked = {**said, "protocol_type": "consumer", "protocol_name": "uniform", "assignments": []}
        assert one.client.ask("SyncGroup", 5, **asked)["error_code"] == UNKNOWN_MEMBER_ID
        asked = {**said, "session_timeout_ms": 9000, "rebalance_timeout_ms": 9000, "protocol_type": "consumer"}
        protocols = [{"name": "range", "metadata": b""}]
        assert one.client.ask("JoinGroup", 9, **asked, protocols=protocols)["error_code"] == INCONSISTENT_GROUP_PROTOCOL
        groups = nodes["a"].groups
        with pytest.raises(raftmeta.GroupRefused) as caught:
            groups.heartbeat("g", 1, "one", timeout_s=WAIT_S)
        assert caught.value.code == UNKNOWN_MEMBER_ID
        described = groups.describe("g")
        assert described is not None
        (member,) = described.members
        assert (member.member_id, member.said) == ("one", k.subscription([b"t"]))
        assert member.assignment == k.partitions((id, number) for number in range(PARTITIONS))
        assert groups.leave("g", ["one"]) == (0,)
        assert one.ask()["error_code"] == UNKNOWN_MEMBER_ID
        groups.delete("g")
        assert one.ask()["error_code"] == GROUP_ID_NOT_FOUND


def test_a_group_that_is_none_is_described_so(door: int) -> None:
    with RawClient(door) as client:
        (told,) = client.ask("ConsumerGroupDescribe", 1, group_ids=["nobody"])["groups"]
    assert (told["error_code"], told["group_state"]) == (GROUP_ID_NOT_FOUND, "Dead")


def test_a_member_goes_on_at_another_node(tmp_path: Path, come: Come) -> None:
    """The leader's node ends: its member asks another node, and reads on in its epoch."""
    with doors(tmp_path, names="abc", **{**SETTINGS, "kafka_consumer_session_s": 20.0}) as (nodes, at):
        make_topic(at["a"], "t")
        leader = next(name for name, node in nodes.items() if node.status().role == "leader")
        other = next(name for name in nodes if name != leader)
        one, two = come(at[leader], "g", "one", ["t"]), come(at[other], "g", "two", ["t"])
        share(one, two)
        held, epoch = one.held, one.epoch
        nodes[leader].close(transfer=False)
        one.close()
        one.client = RawClient(at[other])
        for member in (one, two):

            def goes_on(member: Consumer = member) -> bool:
                return bool(member.ask()["error_code"] == 0)

            wait_until(goes_on, timeout_s=WAIT_S, what="a new leader")
        one.beat()
        assert (one.held, one.epoch) == (held, epoch)
