"""Records at the Kafka door: byte by byte, and by a real client on three nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import raftmeta
from tests.kafka.batches import Batch, Record, batch, read
from tests.kafka.nodes import RawClient, doors
from tests.processes.waiting import wait_until

OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, BAD_ACKS, OUT_OF_ORDER, INVALID_RECORD = 1, 2, 3, 21, 45, 87
SESSION_UNKNOWN, UNKNOWN_EPOCH = 70, 75
UNKNOWN_ID, POLICY_VIOLATION, UNSUPPORTED_VERSION = 100, 44, 35
VERSION_OF_IDS = (13, 13)  # of Produce and of Fetch
WAIT_MS = 10_000
END, START, LATEST = -1, -2, -3


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, raftmeta.Node], dict[str, int]]]:
    with doors(tmp_path_factory.mktemp("records"), names="abc") as (nodes, at):
        with RawClient(at["a"]) as client:
            create(client, "plain", partitions=2)
            create(client, "other")
            create(client, "compacted", policy="compact")
        yield nodes, at


@pytest.fixture(scope="module")
def cluster(stage: tuple[dict[str, raftmeta.Node], dict[str, int]]) -> dict[str, int]:
    return stage[1]


@pytest.fixture
def client(cluster: dict[str, int]) -> Iterator[RawClient]:
    with RawClient(cluster["a"]) as made:
        yield made


def create(client: RawClient, name: str, *, partitions: int = 1, policy: str = "delete") -> None:
    configs = [{"name": "cleanup.policy", "value": policy}]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": []}
    answer = client.ask("CreateTopics", 5, topics=[topic | {"configs": configs}], timeout_ms=WAIT_MS)
    assert answer["topics"][0]["error_code"] == 0, answer


def produced(client: RawClient, parts: dict[tuple[str, int], bytes], *, acks: int = -1, version: int = 9) -> Any:
    """The answers by topic and partition."""
    if version >= VERSION_OF_IDS[0]:
        ids = {id_of(client, name): name for name, _ in parts}
        topics = [
            {"topic_id": id, "partition_data": [{"index": index, "records": made}]}
            for id, name in ids.items()
            for (topic, index), made in parts.items()
            if topic == name
        ]
        answer = client.ask("Produce", version, acks=acks, timeout_ms=WAIT_MS, topic_data=topics)
        found = [(ids[one["topic_id"]], one["partition_responses"]) for one in answer["responses"]]
        return {(name, one["index"]): one for name, ones in found for one in ones}
    topics = [
        {"name": name, "partition_data": [{"index": index, "records": made}]} for (name, index), made in parts.items()
    ]
    answer = client.ask("Produce", version, transactional_id=None, acks=acks, timeout_ms=WAIT_MS, topic_data=topics)
    return {(topic["name"], one["index"]): one for topic in answer["responses"] for one in topic["partition_responses"]}


def id_of(client: RawClient, topic: str) -> bytes:
    answer = client.ask("Metadata", 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
    found: bytes = answer["topics"][0]["topic_id"]
    return found


def append(client: RawClient, made: bytes, topic: str = "plain", index: int = 0, **options: Any) -> tuple[int, int]:
    one = produced(client, {(topic, index): made}, **options)[topic, index]
    return one["error_code"], one["base_offset"]


def asked(topic: str, index: int, offset: int, **options: int) -> dict[str, Any]:
    partition = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | options
    topics = [{"topic": topic, "partitions": [partition]}]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0, "topics": topics}


def fetch(
    client: RawClient, offset: int, topic: str = "plain", index: int = 0, *, version: int = 12, **more: Any
) -> Any:
    request = asked(topic, index, offset) | {"session_id": 0, "rack_id": ""} | more
    if version >= VERSION_OF_IDS[1]:
        request["topics"][0]["topic_id"] = id_of(client, topic)
    answer = client.ask("Fetch", version, **request)
    return answer["responses"][0]["partitions"][0]


def fetched(client: RawClient, offset: int, topic: str = "plain", index: int = 0, **more: Any) -> list[Batch]:
    one = fetch(client, offset, topic, index, **more)
    assert one["error_code"] == 0, one
    return read(one["records"] or b"")


def listed(
    client: RawClient, timestamp: int, topic: str = "plain", index: int = 0, *, version: int = 7
) -> tuple[int, int, int]:
    partition = {"partition_index": index, "timestamp": timestamp}
    answer = client.ask(
        "ListOffsets", version, replica_id=-1, isolation_level=0, topics=[{"name": topic, "partitions": [partition]}]
    )
    one = answer["topics"][0]["partitions"][0]
    return one["error_code"], one["offset"], one["timestamp"]


# --- Produce, Fetch ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(3, 19))
def test_records_are_fetched_as_they_were_produced(client: RawClient, version: int) -> None:
    _, end, _ = listed(client, END)
    records = [Record(b"k", b"%d" % version), Record(None, b"v", 2_000, ((b"h", b"x"),))]
    assert append(client, batch(records), version=min(version, 13)) == (0, end)
    (found,) = fetched(client, end, version=max(version, 4))
    assert [one for _, one in found.records] == records
    assert listed(client, END) == (0, end + 2, -1)


def test_each_partition_of_a_request_has_its_own_log(client: RawClient) -> None:
    places = [("plain", 0), ("plain", 1), ("other", 0)]
    ends = {place: listed(client, END, *place)[1] for place in places}
    made = {(name, index): batch([Record(None, b"%s %d" % (name.encode(), index))]) for name, index in places}
    answers = produced(client, made | {("none", 0): batch([Record(None, b"")]), ("other", 7): b"no batch"})
    assert {place: one["error_code"] for place, one in answers.items()} == dict.fromkeys(places, 0) | {
        ("none", 0): UNKNOWN_TOPIC,
        ("other", 7): UNKNOWN_TOPIC,
    }
    for name, index in places:
        assert answers[name, index]["base_offset"] == ends[name, index]
        (found,) = fetched(client, ends[name, index], name, index)
        assert found.records[0][1].value == b"%s %d" % (name.encode(), index)


def test_an_id_that_no_topic_has_is_told_so(client: RawClient) -> None:
    parts = [{"index": 0, "records": batch([Record(None, b"v")])}]
    topics = [{"topic_id": b"i" * 16, "partition_data": parts}]
    answer = client.ask("Produce", 13, acks=-1, timeout_ms=WAIT_MS, topic_data=topics)["responses"][0]
    assert (answer["topic_id"], answer["partition_responses"][0]["error_code"]) == (b"i" * 16, UNKNOWN_ID)
    request = asked("", 0, 0) | {"session_id": 0, "rack_id": "", "max_wait_ms": WAIT_MS}
    request["topics"][0]["topic_id"] = b"i" * 16
    answer = client.ask("Fetch", 17, **request)["responses"][0]
    assert (answer["topic_id"], answer["partitions"][0]["error_code"]) == (b"i" * 16, UNKNOWN_ID)


# --- DeleteRecords ----------------------------------------------------------------------------------------------------
def deleted(client: RawClient, offset: int, topic: str, index: int = 0, *, version: int = 2) -> tuple[int, int]:
    topics = [{"name": topic, "partitions": [{"partition_index": index, "offset": offset}]}]
    answer = client.ask("DeleteRecords", version, topics=topics, timeout_ms=WAIT_MS)["topics"][0]
    one = answer["partitions"][0]
    assert (answer["name"], one["partition_index"]) == (topic, index)
    return one["error_code"], one["low_watermark"]


@pytest.mark.parametrize("version", range(3))
def test_the_oldest_records_go(client: RawClient, version: int) -> None:
    name = f"shortened-{version}"
    create(client, name)
    for _ in range(4):
        append(client, batch([Record(None, b"1"), Record(None, b"2")]), name)
    assert deleted(client, 3, name, version=version) == (0, 3)
    assert listed(client, START, name) == (0, 3, -1)
    assert deleted(client, 2, name, version=version) == (0, 3)
    assert deleted(client, 9, name, version=version) == (OUT_OF_RANGE, -1)
    assert deleted(client, -2, name, version=version) == (OUT_OF_RANGE, -1)
    assert fetch(client, 2, name)["error_code"] == OUT_OF_RANGE
    assert fetched(client, 4, name)[0].base_offset == 4
    assert deleted(client, -1, name, version=version) == (0, 8)
    assert listed(client, START, name) == listed(client, END, name) == (0, 8, -1)
    assert append(client, batch([Record(None, b"3")]), name) == (0, 8)


def test_records_that_may_not_go_stay(client: RawClient) -> None:
    assert deleted(client, 0, "nowhere") == (UNKNOWN_TOPIC, -1)
    assert deleted(client, 0, "plain", 2) == (UNKNOWN_TOPIC, -1)
    assert deleted(client, 0, "compacted") == (POLICY_VIOLATION, -1)


def test_what_cannot_be_kept_is_refused(client: RawClient) -> None:
    good = batch([Record(None, b"v")])
    assert append(client, good[:-1] + b"x") == (CORRUPT, -1)
    assert append(client, b"") == (CORRUPT, -1)
    assert append(client, good, acks=2) == (BAD_ACKS, -1)
    assert append(client, good, "compacted") == (INVALID_RECORD, -1)
    assert append(client, batch([Record(b"k", b"v")]), "compacted") == (0, listed(client, END, "compacted")[1] - 1)


def test_a_request_without_acks_is_not_answered(client: RawClient) -> None:
    _, end, _ = listed(client, END)
    part = {"index": 0, "records": batch([Record(None, b"quiet")])}
    topics = [{"name": "plain", "partition_data": [part]}]
    sent = client.send("Produce", 9, transactional_id=None, acks=0, timeout_ms=WAIT_MS, topic_data=topics)
    del client.asked[sent]
    assert listed(client, END) == (0, end + 1, -1)


def test_a_producer_is_given_an_id_and_its_batches_are_stored_once(client: RawClient) -> None:
    ids = set()
    for version in range(6):
        answer = client.ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=WAIT_MS)
        assert (answer["error_code"], answer["producer_epoch"]) == (0, 0)
        ids.add(answer["producer_id"])
    assert len(ids) == 6
    first = batch([Record(None, b"once")], producer=max(ids), epoch=0, sequence=0)
    _, end, _ = listed(client, END)
    assert append(client, first) == append(client, first) == (0, end)
    assert append(client, batch([Record(None, b"")], producer=max(ids), epoch=0, sequence=2)) == (OUT_OF_ORDER, -1)
    assert listed(client, END) == (0, end + 1, -1)
    answer = client.ask("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=WAIT_MS)
    assert answer["error_code"] == 42


def test_a_compacted_topic_keeps_the_last_value_of_a_key(client: RawClient) -> None:
    _, start, _ = listed(client, END, "compacted")
    for value in (b"1", b"2", b"3"):
        assert append(client, batch([Record(b"a", value)]), "compacted")[0] == 0
    found = [one for part in fetched(client, 0, "compacted") for one in part.records if one[1].key == b"a"]
    assert [(offset, one.value) for offset, one in found] == [(start + 2, b"3")]


def test_a_fetch_waits_for_a_record_on_any_node(cluster: dict[str, int], client: RawClient) -> None:
    _, end, _ = listed(client, END, index=1)
    with RawClient(cluster["b"]) as other:
        sent = other.send(
            "Fetch", 12, **(asked("plain", 1, end) | {"max_wait_ms": 30_000, "session_id": 0, "rack_id": ""})
        )
        assert append(client, batch([Record(None, b"awaited")]), index=1) == (0, end)
        correlation, answer = other.take()
    assert correlation == sent
    (found,) = read(answer["responses"][0]["partitions"][0]["records"])
    assert found.records[0][1].value == b"awaited"


def test_a_fetch_that_waits_ends_with_its_time(client: RawClient) -> None:
    _, end, _ = listed(client, END)
    assert fetched(client, end, max_wait_ms=20) == []


def test_no_node_says_that_an_acknowledged_offset_is_out_of_range(cluster: dict[str, int], client: RawClient) -> None:
    """A client goes on at another node, which may lag."""
    for _ in range(30):
        code, offset = append(client, batch([Record(None, b"v")]))
        assert code == 0
        for name in "bc":
            with RawClient(cluster[name]) as other:
                assert fetch(other, offset + 1)["error_code"] == 0
    assert fetch(client, listed(client, END)[1] + 1)["error_code"] == OUT_OF_RANGE
    assert fetch(client, -1)["error_code"] == OUT_OF_RANGE


def test_there_are_no_fetch_sessions(client: RawClient) -> None:
    answer = client.ask("Fetch", 12, **(asked("plain", 0, 0) | {"session_id": 5, "rack_id": ""}))
    assert (answer["error_code"], answer["session_id"]) == (SESSION_UNKNOWN, 0)
    assert fetch(client, 0, "none")["error_code"] == UNKNOWN_TOPIC


def test_a_fetch_takes_no_more_than_it_asks_for_but_one_batch(client: RawClient) -> None:
    _, end, _ = listed(client, END)
    for _ in range(3):
        append(client, batch([Record(None, bytes(1_000))]))
    assert len(fetched(client, end)) == 3
    assert len(fetched(client, end, max_bytes=1)) == 1
    assert len(fetched(client, end, max_bytes=2_500)) == 2


# --- ListOffsets, OffsetForLeaderEpoch --------------------------------------------------------------------------------
def test_times_that_mean_a_place_have_versions(client: RawClient) -> None:
    """KafkaApis of Kafka 3.9: -3 since version 7, -4 since 8, -5 since 9, and no other negative one."""
    for timestamp, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 10)):
        codes = {version: listed(client, timestamp, version=version)[0] for version in range(1, 10)}
        assert codes == {version: 0 if version >= since else UNSUPPORTED_VERSION for version in range(1, 10)}


def test_offsets_are_listed(client: RawClient) -> None:
    create(client, "times")
    for stamp in (1_000, 3_000, 2_000):
        append(client, batch([Record(None, b"", stamp)]), "times")
    found = [listed(client, stamp, "times") for stamp in (START, END, LATEST, 0, 1_001, 3_001)]
    assert found == [(0, 0, -1), (0, 3, -1), (0, 1, 3_000), (0, 0, 1_000), (0, 1, 3_000), (0, -1, -1)]
    assert listed(client, END, "none")[0] == UNKNOWN_TOPIC


def test_a_log_has_one_leader_epoch(client: RawClient) -> None:
    _, end, _ = listed(client, END)
    partitions = [
        {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        for current, epoch in ((0, 0), (-1, 0), (0, 1), (3, 0))
    ]
    answer = client.ask("OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": "plain", "partitions": partitions}])
    found = [(one["error_code"], one["leader_epoch"], one["end_offset"]) for one in answer["topics"][0]["partitions"]]
    assert found == [(0, 0, end), (0, 0, end), (0, -1, -1), (UNKNOWN_EPOCH, -1, -1)]


def test_a_topic_that_is_made_again_has_a_new_log(
    stage: tuple[dict[str, raftmeta.Node], dict[str, int]], client: RawClient
) -> None:
    """And the log of the one before is dropped."""
    create(client, "again")
    assert append(client, batch([Record(None, b"old")]), "again") == (0, 0)
    answer = client.ask("DeleteTopics", 4, topic_names=["again"], timeout_ms=WAIT_MS)
    assert answer["responses"][0]["error_code"] == 0
    create(client, "again")
    assert listed(client, END, "again") == (0, 0, -1)
    assert append(client, batch([Record(None, b"new")]), "again") == (0, 0)

    def logs() -> list[bytes]:
        found = stage[0]["a"].range("kafka-logs/again/", "kafka-logs/again0").records
        return [one.key for one in found if b"\0" not in one.key]

    wait_until(lambda: len(logs()) == 1, timeout_s=30, what="the end of the old log")
    assert listed(client, END, "again") == (0, 1, -1)


# --- a real client ----------------------------------------------------------------------------------------------------
def test_a_real_client_produces_and_consumes_while_a_node_stops(tmp_path: Path) -> None:
    """librdkafka, idempotent, with compressed batches: each record once and in order, though a broker goes."""
    with doors(tmp_path, names="abc") as (nodes, at):
        with RawClient(at["a"]) as client:
            create(client, "real")
        servers = ",".join(f"127.0.0.1:{port}" for port in at.values())
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
        )
        failed: list[Any] = []
        stopped = threading.Event()
        for number in range(300):
            producer.produce(
                "real", b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None
            )
            producer.poll(0)
            if number == 100:
                producer.flush(30)
                nodes["c"].close()
                stopped.set()
        assert stopped.is_set()
        assert producer.flush(60) == 0
        assert not failed
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.assign([confluent_kafka.TopicPartition("real", 0, 0)])
        taken: list[bytes] = []

        def has_all() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                taken.append(message.value())
            return len(taken) >= 300

        wait_until(has_all, timeout_s=60, what="all records")
        consumer.close()
        assert taken == [b"%d" % number for number in range(300)]
