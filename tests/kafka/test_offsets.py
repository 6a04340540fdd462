"""Offsets of groups at the Kafka door, byte by byte: every version that it offers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.nodes import Member, RawClient, doors

UNKNOWN_TOPIC, METADATA_TOO_LARGE, ILLEGAL_GENERATION, INVALID_GROUP_ID, UNKNOWN_MEMBER = 3, 12, 22, 24, 25
GROUP_ID_NOT_FOUND, SUBSCRIBED = 69, 86
SUBSCRIPTION = struct.pack(">hih1si", 0, 1, 1, b"t", -1)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("door")) as (_, at):
        with RawClient(at["a"]) as client:
            client.ask("Metadata", 9, topics=[{"name": "t"}, {"name": "u"}], allow_auto_topic_creation=True)
        yield at["a"]


@pytest.fixture
def client(door: int) -> Iterator[RawClient]:
    with RawClient(door) as client:
        yield client


def asked(group: str, offset: int, *, topic: str = "t", **options: Any) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
    values: dict[str, Any] = {"topics": [{"name": topic, "partitions": [partition]}], "retention_time_ms": -1}
    return {"group_id": group, "generation_id_or_member_epoch": -1, **values, **options}


def code(answer: dict[str, Any]) -> int:
    return int(answer["topics"][0]["partitions"][0]["error_code"])


def committed(client: RawClient, group: str, version: int = 8) -> dict[tuple[str, int], int]:
    if version < 8:
        found = client.ask("OffsetFetch", version, group_id=group, topics=None)
    else:
        found = client.ask("OffsetFetch", version, groups=[{"group_id": group, "topics": None}])["groups"][0]
    assert found["error_code"] == 0
    return {
        (topic["name"], partition["partition_index"]): partition["committed_offset"]
        for topic in found["topics"]
        for partition in topic["partitions"]
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_is_fetched(client: RawClient, version: int) -> None:
    group = f"commit {version}"
    assert code(client.ask("OffsetCommit", version, **asked(group, version))) == 0
    assert committed(client, group) == {("t", 0): version}


@pytest.mark.parametrize("retention_ms", [0, (1 << 40) - 1, 1 << 40, 0x5CFF_FFFF_FFFF, (1 << 63) - 1, -(1 << 63)])
def test_offsets_may_be_asked_to_live_for_any_time(client: RawClient, retention_ms: int) -> None:
    """A fuzzer found that a time longer than any lease stopped every node of the cluster."""
    group = f"retention {retention_ms}"
    assert code(client.ask("OffsetCommit", 4, **asked(group, 3, retention_time_ms=retention_ms))) == 0
    assert committed(client, group) == {("t", 0): 3}


@pytest.mark.parametrize("version", range(1, 10))
def test_a_fetch_tells_what_there_is(client: RawClient, version: int) -> None:
    group = f"fetch {version}"
    client.ask("OffsetCommit", 9, **asked(group, 7))
    topics = [{"name": name, "partition_indexes": [0]} for name in ("t", "u", "nowhere")]
    if version < 8:
        answer = client.ask("OffsetFetch", version, group_id=group, topics=topics)
    else:
        answer = client.ask("OffsetFetch", version, groups=[{"group_id": group, "topics": topics}])["groups"][0]
    told = {topic["name"]: topic["partitions"][0] for topic in answer["topics"]}
    assert {name: (one["committed_offset"], one["metadata"], one["error_code"]) for name, one in told.items()} == {
        "t": (7, "note", 0),
        "u": (-1, "", 0),
        "nowhere": (-1, "", 0),
    }
    if version >= 2:
        assert committed(client, group, version) == {("t", 0): 7}


def test_members_alone_commit_to_a_group_that_has_any(door: int, client: RawClient) -> None:
    with RawClient(door) as other:
        member = Member(other, "members")
        assert member.join(protocols=(("range", SUBSCRIPTION),)) == 0
        member.sync(shares={member.id: b"all"})
        mine = {"member_id": member.id, "generation_id_or_member_epoch": member.generation}
        assert code(client.ask("OffsetCommit", 9, **asked("members", 1))) == UNKNOWN_MEMBER
        assert code(other.ask("OffsetCommit", 9, **asked("members", 2, **mine))) == 0
        mine["generation_id_or_member_epoch"] += 1
        assert code(other.ask("OffsetCommit", 9, **asked("members", 3, **mine))) == ILLEGAL_GENERATION
        assert committed(client, "members") == {("t", 0): 2}
        answer = client.ask(
            "OffsetDelete", 0, group_id="members", topics=[{"name": "t", "partitions": [{"partition_index": 0}]}]
        )
        assert (answer["error_code"], code(answer)) == (0, SUBSCRIBED)


def test_an_offset_is_deleted_and_the_group_is_deleted_by_itself(client: RawClient) -> None:
    for topic in ("t", "u"):
        client.ask("OffsetCommit", 9, **asked("gone", 1, topic=topic))
    for topic, left in (("t", {("u", 0): 1}), ("u", {})):
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = client.ask("OffsetDelete", 0, group_id="gone", topics=topics)
        assert (answer["error_code"], code(answer)) == (0, 0)
        assert committed(client, "gone") == left
    assert client.ask("DeleteGroups", 2, groups_names=["gone"])["results"][0]["error_code"] == 0
    answer = client.ask("OffsetDelete", 0, group_id="gone", topics=topics)
    assert (answer["error_code"], answer["topics"]) == (GROUP_ID_NOT_FOUND, [])


def test_what_cannot_be_committed_is_refused_alone(client: RawClient) -> None:
    partitions = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": "m" * length}
        for index, length in ((0, 1), (1, 1), (-1, 1), (0, 5000))
    ]
    topics = [{"name": name, "partitions": partitions} for name in ("t", "nowhere", "no/name")]
    answer = client.ask("OffsetCommit", 9, **asked("some", 1, topics=topics))
    told = [[one["error_code"] for one in topic["partitions"]] for topic in answer["topics"]]
    assert told == [[0, UNKNOWN_TOPIC, UNKNOWN_TOPIC, METADATA_TOO_LARGE], [UNKNOWN_TOPIC] * 4, [UNKNOWN_TOPIC] * 4]
    assert code(client.ask("OffsetCommit", 9, **asked("", 1))) == INVALID_GROUP_ID
    assert code(client.ask("OffsetCommit", 9, **asked("some", 1, member_id="m" * 400))) == UNKNOWN_MEMBER


def test_commits_that_are_sent_together_stand_in_their_order(client: RawClient) -> None:
    """None waits for the one before; the last one holds, and answers come in the order of requests."""
    sent = [client.send("OffsetCommit", 9, **asked("many", offset)) for offset in range(300)]
    answers = [client.take() for _ in sent]
    assert [correlation for correlation, _ in answers] == sent
    assert {code(answer) for _, answer in answers} == {0}
    assert committed(client, "many") == {("t", 0): 299}


def test_a_topic_that_is_made_again_has_no_offsets(client: RawClient) -> None:
    client.ask("Metadata", 9, topics=[{"name": "again"}], allow_auto_topic_creation=True)
    client.ask("OffsetCommit", 9, **asked("again", 5, topic="again"))
    client.ask("DeleteTopics", 5, topic_names=["again"], timeout_ms=1000)
    client.ask("Metadata", 9, topics=[{"name": "again"}], allow_auto_topic_creation=True)
    assert committed(client, "again") == {}


def test_librdkafka_makes_a_topic_commits_and_fetches(door: int) -> None:
    address = {"bootstrap.servers": f"127.0.0.1:{door}"}
    admin = AdminClient(address)
    admin.create_topics([NewTopic("real", 3, 1)])["real"].result(20)
    assert len(admin.list_topics(timeout=20).topics["real"].partitions) == 3
    consumer = Consumer({**address, "group.id": "real"})
    try:
        consumer.commit(offsets=[TopicPartition("real", 1, 41, metadata="note")], asynchronous=False)
        told = consumer.committed([TopicPartition("real", 0), TopicPartition("real", 1)], timeout=20)
        assert [(one.offset, one.metadata) for one in told if one.partition == 1] == [(41, "note")]
        assert [one.offset for one in told if one.partition == 0] == [-1001]  # OFFSET_INVALID of librdkafka
    finally:
        consumer.close()
    admin.delete_topics(["real"])["real"].result(20)
