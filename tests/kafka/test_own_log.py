"""A Python program keeps the records of topics behind the Kafka door: byte by byte, and by a real client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import raftmeta
from tests.kafka.batches import Record, batch, read
from tests.kafka.nodes import GROUPS, Member, RawClient, doors
from tests.kafka.own_log import MemoryLog
from tests.kafka.test_records_door import append, asked, create, fetch, fetched, listed, produced
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until

OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, NO_LEADER, NOT_LEADER, TIMED_OUT, POLICY, STORAGE = 1, 2, 3, 5, 6, 7, 44, 56
FENCED_EPOCH, UNKNOWN_EPOCH = 74, 75
END, START = -1, -2


def leaders(client: RawClient, topic: str) -> list[tuple[int, int, int]]:
    """Error, leader and epoch of each partition of the topic, as Metadata tells them."""
    answer = client.ask("Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
    (found,) = answer["topics"]
    return [(one["error_code"], one["leader_id"], one["leader_epoch"]) for one in found["partitions"]]


def made(client: RawClient, topic: str, *, partitions: int = 1) -> None:
    create(client, topic, partitions=partitions)
    assert len(leaders(client, topic)) == partitions


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture(scope="module")
def door(log: MemoryLog) -> raftmeta.KafkaDoor:
    return log.door()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, door: raftmeta.KafkaDoor) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("own"), hosts={"a": door}) as (_, at), RawClient(at["a"]) as client:
        made(client, "plain", partitions=2)
        yield at["a"]


@pytest.fixture
def client(port: int) -> Iterator[RawClient]:
    with RawClient(port) as found:
        yield found


# --- one node ---------------------------------------------------------------------------------------------------------
def test_the_program_keeps_the_records(client: RawClient, log: MemoryLog) -> None:
    """Check: they come back as they were sent, at the offsets that the program gave; raftmeta has no log of them."""
    records = [Record(b"k", b"v"), Record(None, b"w", 2_000)]
    _, end, _ = listed(client, END)
    for version in (3, 7, 9, 12):
        assert append(client, batch(records), version=version) == (0, end)
        (found,) = fetched(client, end, version=max(version, 4))
        assert [one for _, one in found.records] == records
        assert found.base_offset == end
        end += 2
    assert listed(client, END) == (0, end, -1)
    assert listed(client, START) == (0, 0, -1)
    assert listed(client, 1_500) == (0, 1, 2_000)
    assert listed(client, 5_000) == (0, -1, -1)
    assert listed(client, END, "none")[0] == UNKNOWN_TOPIC
    assert fetch(client, end + 1)["error_code"] == OUT_OF_RANGE
    assert log.end(("plain", 0)) == end
    assert set(log.epochs) == {0}


def test_only_whole_batches_reach_the_program(client: RawClient, log: MemoryLog) -> None:
    before = len(log.epochs)
    good = batch([Record(None, b"v")])
    assert append(client, good[:-1] + b"x") == (CORRUPT, -1)
    assert append(client, good, "none") == (UNKNOWN_TOPIC, -1)
    assert len(log.epochs) == before


def test_each_partition_of_a_request_is_answered_by_itself(client: RawClient) -> None:
    one = batch([Record(None, b"1")])
    ends = [listed(client, END, index=index)[1] for index in (0, 1)]
    answers = produced(client, {("plain", 0): one, ("plain", 1): one, ("plain", 2): one})
    assert [answer["error_code"] for answer in answers.values()] == [0, 0, UNKNOWN_TOPIC]
    assert [answer["base_offset"] for answer in answers.values()] == [*ends, -1]


def test_epochs_of_an_own_log_are_not_told_by_the_door(client: RawClient) -> None:
    """OffsetForLeaderEpoch is not offered; the other requests are offered once."""
    keys = [one["api_key"] for one in client.ask("ApiVersions", 0)["api_keys"]]
    assert len(keys) == len(set(keys))
    assert {0, 1, 2} <= set(keys)
    assert 23 not in keys


def test_a_fetch_waits_until_a_client_appends(client: RawClient, port: int) -> None:
    _, end, _ = listed(client, END)
    with RawClient(port) as other:
        other.send("Fetch", 12, **(asked("plain", 0, end) | {"max_wait_ms": 30_000, "session_id": 0, "rack_id": ""}))
        assert append(client, batch([Record(None, b"awaited")])) == (0, end)
        _, answer = other.take()
    (found,) = read(answer["responses"][0]["partitions"][0]["records"])
    assert found.records[0][1].value == b"awaited"
    assert fetched(client, end + 1, max_wait_ms=20) == []


def test_a_fetch_waits_until_the_program_says_that_a_log_has_grown(
    client: RawClient, log: MemoryLog, door: raftmeta.KafkaDoor
) -> None:
    _, end, _ = listed(client, END, index=1)
    client.send("Fetch", 12, **(asked("plain", 1, end) | {"max_wait_ms": 30_000, "session_id": 0, "rack_id": ""}))
    log.produce("plain", 1, batch([Record(None, b"by itself")]), 0)
    door.grown("plain", 1)
    _, answer = client.take()
    (found,) = read(answer["responses"][0]["partitions"][0]["records"])
    assert found.records[0][1].value == b"by itself"


def test_a_fetch_takes_no_more_than_it_asks_for_but_one_batch(client: RawClient) -> None:
    _, end, _ = listed(client, END)
    for _ in range(3):
        append(client, batch([Record(None, bytes(1_000))]))
    assert len(fetched(client, end)) == 3
    assert len(fetched(client, end, max_bytes=1)) == 1


def test_a_request_without_acks_is_not_answered(client: RawClient) -> None:
    _, end, _ = listed(client, END)
    part = {"index": 0, "records": batch([Record(None, b"quiet")])}
    topics = [{"name": "plain", "partition_data": [part]}]
    sent = client.send("Produce", 9, transactional_id=None, acks=0, timeout_ms=10_000, topic_data=topics)
    del client.asked[sent]
    assert listed(client, END) == (0, end + 1, -1)


def test_a_topic_that_is_made_again_has_a_later_epoch(client: RawClient) -> None:
    made(client, "again")
    assert [epoch for _, _, epoch in leaders(client, "again")] == [0]
    client.ask("DeleteTopics", 4, topic_names=["again"], timeout_ms=10_000)
    create(client, "again")
    assert append(client, batch([Record(None, b"v")]), "again") == (NOT_LEADER, -1)
    assert [epoch for _, _, epoch in leaders(client, "again")] == [1]
    assert append(client, batch([Record(None, b"v")]), "again")[0] == 0


def test_all_partitions_of_a_large_topic_get_a_leader(client: RawClient) -> None:
    create(client, "large", partitions=600)
    assert {code for code, _, _ in leaders(client, "large")} == {0}


# --- a program that fails ---------------------------------------------------------------------------------------------
def raising(error: Exception) -> Callable[..., Any]:
    def raises(*_: Any) -> Any:
        raise error

    return raises


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (raftmeta.KafkaRefusal(POLICY), POLICY),
        (OSError(28, "full"), STORAGE),
        (TimeoutError(), TIMED_OUT),
        (ValueError("a mistake"), -1),
    ],
)
def test_an_exception_becomes_an_error_of_the_protocol(tmp_path: Path, error: Exception, code: int) -> None:
    failing = MemoryLog().door(on_produce=raising(error), on_fetch=raising(error), on_list_offsets=raising(error))
    with doors(tmp_path, hosts={"a": failing}) as (_, at), RawClient(at["a"]) as client:
        made(client, "t")
        assert append(client, batch([Record(None, b"v")]), "t") == (code, -1)
        assert fetch(client, 0, "t")["error_code"] == code
        assert listed(client, END, "t")[0] == code


def test_an_answer_that_means_nothing_is_an_error(tmp_path: Path) -> None:
    wrong = MemoryLog().door(on_produce=lambda *_: "no", on_fetch=lambda *_: None, on_list_offsets=None)
    with doors(tmp_path, hosts={"a": wrong}) as (_, at), RawClient(at["a"]) as client:
        made(client, "t")
        assert append(client, batch([Record(None, b"v")]), "t") == (-1, -1)
        assert fetch(client, 0, "t")["error_code"] == -1
        assert listed(client, END, "t")[0] == -1


def test_a_program_that_hangs_holds_up_nothing_but_its_own_requests(tmp_path: Path) -> None:
    """Init: an append that does not end. Check: it is answered 7 in time, more than the program may have waits and is
    answered 7 too, and a group is joined, kept and given its offsets meanwhile. Afterwards the program is used again.
    """
    log, goes_on, begun = MemoryLog(), threading.Event(), threading.Event()

    def hang(*words: Any) -> int:
        begun.set()
        goes_on.wait()
        return log.produce(*words)

    slow = log.door(on_produce=hang, timeout_s=1.0, bytes_max=1 << 20)
    with doors(tmp_path, hosts={"a": slow}) as (nodes, at), RawClient(at["a"]) as client:
        try:
            made(client, "t")
            with RawClient(at["a"]) as first, RawClient(at["a"]) as second:
                large = {"index": 0, "records": batch([Record(None, bytes(900_000))])}
                words = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000}
                for one in (first, second):
                    one.ask("ApiVersions", 0)
                    one.send("Produce", 9, **words, topic_data=[{"name": "t", "partition_data": [large]}])
                assert begun.wait(10)
                me = Member(client)
                assert me.join() == 0
                assert me.sync(shares={me.id: b""})["error_code"] == 0
                assert client.ask("Metadata", 9, topics=None)["topics"]
                for one in (first, second):
                    _, answer = one.take()
                    assert answer["responses"][0]["partition_responses"][0]["error_code"] == TIMED_OUT
            wait_until(lambda: nodes["a"].metrics()["kafka_requests_waiting"] == 0, timeout_s=10, what="no waiting")
        finally:
            goes_on.set()
        wait_until(lambda: len(log.epochs) == 1, timeout_s=10, what="the append that hung")
        assert append(client, batch([Record(None, b"v")]), "t") == (0, 1)


def test_a_connection_that_closes_leaves_its_request_to_the_program(tmp_path: Path) -> None:
    log, goes_on, begun = MemoryLog(), threading.Event(), threading.Event()

    def hang(*words: Any) -> int:
        begun.set()
        goes_on.wait()
        return log.produce(*words)

    with doors(tmp_path, hosts={"a": log.door(on_produce=hang)}) as (nodes, at), RawClient(at["a"]) as client:
        made(client, "t")
        with RawClient(at["a"]) as gone:
            part = {"index": 0, "records": batch([Record(None, b"v")])}
            words = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000}
            gone.send("Produce", 9, **words, topic_data=[{"name": "t", "partition_data": [part]}])
            assert begun.wait(10)
        wait_until(lambda: nodes["a"].metrics()["kafka_connections"] == 1, timeout_s=10, what="one connection")
        goes_on.set()
        assert append(client, batch([Record(None, b"w")]), "t") == (0, 1)


# --- who leads --------------------------------------------------------------------------------------------------------
def two_brokers(client: RawClient) -> None:
    wait_until(
        lambda: len(client.ask("Metadata", 9, topics=None)["brokers"]) == 2, timeout_s=30, what="both brokers are known"
    )


def test_each_partition_has_one_leader_that_may_change(tmp_path: Path) -> None:
    """Check: partitions are shared between the brokers; only the leader serves; after lead() the other one does, in the
    next epoch, and clients with another epoch are told so.
    """
    logs = {name: MemoryLog() for name in "ab"}
    hosts = {name: log.door() for name, log in logs.items()}
    with doors(tmp_path, names="ab", hosts=hosts) as (_, at), RawClient(at["a"]) as a, RawClient(at["b"]) as b:
        two_brokers(a)
        two_brokers(b)
        made(a, "t", partitions=4)
        found = leaders(b, "t")
        ids = sorted({leader for _, leader, _ in found})
        assert [sum(leader == one for _, leader, _ in found) for one in ids] == [2, 2]
        assert {(code, epoch) for code, _, epoch in found} == {(0, 0)}
        one = batch([Record(None, b"v")])
        codes = {name: append(client, one, "t", 0)[0] for name, client in (("a", a), ("b", b))}
        assert sorted(codes.values()) == [0, NOT_LEADER]
        old, new = ("a", "b") if codes["a"] == 0 else ("b", "a")
        clients = {"a": a, "b": b}
        assert hosts[old].lead("t", 0) == 0
        assert hosts[new].lead("t", 0) == 1
        assert hosts[old].leader("t", 0) == hosts[new].leader("t", 0) == (hosts[new].leader("t", 0)[0], 1)
        wait_until(lambda: leaders(clients[old], "t")[0][2] == 1, timeout_s=10, what="the new epoch")
        assert append(clients[old], one, "t", 0)[0] == NOT_LEADER
        assert fetch(clients[old], 0, "t")["error_code"] == NOT_LEADER
        assert append(clients[new], one, "t", 0)[0] == 0
        assert logs[new].epochs[-1] == 1
        for epoch, code in ((0, FENCED_EPOCH), (1, 0), (2, UNKNOWN_EPOCH)):
            partition = {"current_leader_epoch": epoch}
            words = asked("t", 0, 0, **partition) | {"session_id": 0, "rack_id": ""}
            answer = clients[new].ask("Fetch", 12, **words)
            assert answer["responses"][0]["partitions"][0]["error_code"] == code
        with pytest.raises(raftmeta.KeyMissing):
            hosts[new].lead("none", 0)


def test_an_append_during_which_the_leader_changes_is_no_success(tmp_path: Path) -> None:
    """Init: the other node takes the lead while the program appends. Check: its client is not told a success."""
    log, other = MemoryLog(), MemoryLog().door()

    def overtaken(topic: str, partition: int, records: bytes, epoch: int) -> int:
        offset = log.produce(topic, partition, records, epoch)
        other.lead(topic, partition)
        return offset

    hosts = {"a": log.door(on_produce=overtaken), "b": other}
    with doors(tmp_path, names="ab", hosts=hosts) as (_, at), RawClient(at["a"]) as a:
        two_brokers(a)
        made(a, "t", partitions=2)
        mine = [index for index in range(2) if hosts["a"].leader("t", index) != other.leader("t", 1 - index)]
        codes = [append(a, batch([Record(None, b"v")]), "t", index)[0] for index in mine]
        assert set(codes) == {NOT_LEADER}
        assert len(log.epochs) == 1


def test_a_leader_that_is_away_leads_still(tmp_path: Path) -> None:
    hosts = {name: MemoryLog().door() for name in "abc"}
    with (
        doors(tmp_path, names="abc", hosts=hosts, session_ttl_s=1.0) as (nodes, at),
        RawClient(at["a"]) as client,
    ):
        wait_until(lambda: len(client.ask("Metadata", 9, topics=None)["brokers"]) == 3, timeout_s=30, what="3 brokers")
        made(client, "t", partitions=3)
        nodes["c"].close()
        wait_until(lambda: NO_LEADER in {code for code, _, _ in leaders(client, "t")}, timeout_s=30, what="one is away")
        assert sorted(code for code, _, _ in leaders(client, "t")) == [0, 0, NO_LEADER]
        away = [code for code, _, _ in leaders(client, "t")].index(NO_LEADER)
        assert hosts["a"].lead("t", away) == 1
        wait_until(lambda: leaders(client, "t")[away][0] == 0, timeout_s=10, what="a new leader")
        assert append(client, batch([Record(None, b"v")]), "t", away) == (0, 0)


# --- coroutines -------------------------------------------------------------------------------------------------------
def test_coroutines_append_in_the_order_of_a_partition(tmp_path: Path) -> None:
    """Init: appends that take their turns on the event loop. Check: a partition's never overlap, fetches go on."""
    log = MemoryLog()
    running: set[int] = set()

    async def produce(topic: str, partition: int, records: bytes, epoch: int) -> int:
        assert partition not in running
        running.add(partition)
        await asyncio.sleep(0)
        running.discard(partition)
        return log.produce(topic, partition, records, epoch)

    async def read_log(*words: Any) -> Any:
        return log.fetch(*words)

    def clients(port: int) -> list[tuple[int, int]]:
        with RawClient(port) as one:
            made(one, "t")
            with RawClient(port) as two:
                part = {"index": 0, "records": batch([Record(None, b"v")])}
                words = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000}
                for _ in range(20):
                    for client in (one, two):
                        client.send("Produce", 9, **words, topic_data=[{"name": "t", "partition_data": [part]}])
                found = []
                for client in (one, two) * 20:
                    answer = client.take()[1]["responses"][0]["partition_responses"][0]
                    found.append((answer["error_code"], answer["base_offset"]))
                assert listed(one, END, "t") == (0, 40, -1)
                assert listed(one, START, "t") == (0, 0, -1)
                assert sum(len(each.records) for each in fetched(one, 0, "t")) == 40
                return found

    async def serve() -> list[tuple[int, int]]:
        peer, kafka = free_ports(2)
        async with raftmeta.aio.Node(
            "a",
            peers={"a": f"127.0.0.1:{peer}"},
            data_dir=tmp_path / "a",
            kafka_listen=f"127.0.0.1:{kafka}",
            kafka=raftmeta.KafkaDoor(on_produce=produce, on_fetch=read_log),
            config=raftmeta.Config(**{**QUICK, **GROUPS}),
        ) as node:
            await node.ready(30)
            return await asyncio.to_thread(clients, kafka)

    found = asyncio.run(serve())
    assert sorted(found) == [(0, offset) for offset in range(40)]


# --- settings ---------------------------------------------------------------------------------------------------------
def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    log = MemoryLog()

    async def coroutine(*_: Any) -> Any: ...

    for words in ({"on_produce": 1}, {"on_produce": coroutine}, {"timeout_s": 0}, {"bytes_max": 1}):
        with pytest.raises(raftmeta.ConfigError):
            log.door(**words)
    with pytest.raises(raftmeta.InvalidArgument):
        raftmeta.KafkaRefusal(0)
    (peer,) = free_ports(1)
    words = {"peers": {"a": f"127.0.0.1:{peer}"}, "data_dir": tmp_path}
    with pytest.raises(raftmeta.ConfigError, match="kafka_listen"):
        raftmeta.Node("a", **words, kafka=log.door())
    with pytest.raises(raftmeta.ConfigError, match="KafkaDoor"):
        raftmeta.Node("a", **words, kafka=log)
    alone = raftmeta.KafkaDoor(on_produce=coroutine, on_fetch=coroutine)
    with pytest.raises(raftmeta.ConfigError, match="aio"):
        alone.open()
    with pytest.raises(raftmeta.NotReady):
        alone.grown("t", 0)


def test_a_door_serves_one_node_after_the_other(tmp_path: Path) -> None:
    log = MemoryLog()
    door = log.door()
    for life in range(2):
        with doors(tmp_path, hosts={"a": door}) as (_, at), RawClient(at["a"]) as client:
            if life == 0:
                made(client, "t")
            assert append(client, batch([Record(None, b"v")]), "t") == (0, life)
            with pytest.raises(raftmeta.ConfigError, match="another node"):
                door.open()


def test_a_start_that_fails_leaves_the_door_to_the_next_one(tmp_path: Path) -> None:
    door = MemoryLog().door()
    peer, kafka = free_ports(2)
    words = {"peers": {"a": f"127.0.0.1:{peer}"}, "kafka_listen": f"127.0.0.1:{kafka}", "kafka": door}
    with socket.create_server(("127.0.0.1", kafka)), pytest.raises(raftmeta.AddressInUse):
        raftmeta.Node("a", data_dir=tmp_path / "a", **words).start()
    with doors(tmp_path, hosts={"a": door}) as (_, at), RawClient(at["a"]) as client:
        made(client, "t")
        assert append(client, batch([Record(None, b"v")]), "t") == (0, 0)


# --- a real client ----------------------------------------------------------------------------------------------------
def test_a_real_client_subscribes_and_reads_what_it_produced(port: int) -> None:
    """librdkafka, with a group: records are the program's, the group and its offsets are raftmeta's."""
    servers = f"127.0.0.1:{port}"
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "lz4"})
    failed: list[Any] = []
    for number in range(200):
        producer.produce("real", b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failed
    settings = {"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["real"])
    taken: list[bytes] = []

    def has_all() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            taken.append(message.value())
        return len(taken) >= 200

    wait_until(has_all, timeout_s=60, what="all records")
    consumer.commit(asynchronous=False)
    (stored,) = consumer.committed([confluent_kafka.TopicPartition("real", 0)], timeout=30)
    consumer.close()
    assert taken == [b"%d" % number for number in range(200)]
    assert stored.offset == 200
