"""A feed into a Kafka topic: each change once and in order, over any kill; and what the library does with a broker.

The kills are those of a model that commits a transaction whole or not at all, as Kafka promises. The mock brokers of
librdkafka take messages and progress records; they neither fence a producer, nor take back what was aborted, nor make
or describe topics.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta.cli.app import app
from raftmeta.operations import KeyRecord
from raftmeta.spark import KafkaTopics, Lag, MissingRevisions, feed_topic
from raftmeta.spark.feed import Whole
from raftmeta.spark.topics import Message, Position
from tests.client.nodes import serving
from tests.spark.test_lake import Replayed, put


class Killed(Exception):
    """The feed's process ended there."""


class Brokers:
    """Topics as Kafka promises them. dies_at: number of the send at which a feed dies; after: having committed."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.at: Position | None = None
        self.sends = 0
        self.dies_at, self.dies_after = -1, False

    def position(self, cluster: str) -> Position | None:
        return self.at

    def send(self, messages: Iterable[Message], position: Position) -> None:
        self.sends += 1
        if self.sends == self.dies_at and not self.dies_after:
            raise Killed
        self.messages += messages
        self.at = position
        if self.sends == self.dies_at:
            raise Killed

    def rows(self) -> list[tuple[str, int, int, bytes, bytes | None]]:
        return [
            (
                message.headers["raftmeta.op"].decode(),
                int(message.headers["raftmeta.revision"]),
                int(message.headers["raftmeta.sub"]),
                message.key,
                message.value,
            )
            for message in self.messages
        ]


def delete(revision: int, key: str) -> Whole:
    record = KeyRecord(key.encode(), b"", 0, revision, 0, 0)
    return revision, float(revision), [raftmeta.WatchEvent("delete", record, None, revision)]


def store() -> Replayed:
    """A state of three keys at revision 4, then nine revisions, one of them with two changes."""
    revisions = [put(number, f"k{number % 3}") for number in range(5, 12)]
    revisions += [delete(12, "k1"), (13, 13.0, [*put(13, "x")[2], *put(13, "y")[2]])]
    records = [KeyRecord(key, b"old", 1, number, 1, 7) for number, key in enumerate((b"k0", b"k1", b"k2"), 1)]
    return Replayed(revisions, floor=4, records={4: records})


def expected() -> list[tuple[str, int, int, bytes, bytes | None]]:
    rows: list[tuple[str, int, int, bytes, bytes | None]] = [
        ("state", number, 0, b"k%d" % (number - 1), b"old") for number in (1, 2, 3)
    ]
    rows += [("put", number, 0, b"k%d" % (number % 3), b"v%d" % number) for number in range(5, 12)]
    return [*rows, ("delete", 12, 0, b"k1", None), ("put", 13, 0, b"x", b"v13"), ("put", 13, 1, b"y", b"v13")]


def test_a_new_topic_has_the_state_and_then_every_change() -> None:
    """A compacted topic ends as the keyspace: a deletion is a message without a value."""
    brokers = Brokers()
    fed = feed_topic(store(), brokers)
    assert brokers.rows() == expected()
    assert (fed.first, fed.last, fed.changes, fed.keys) == (5, 13, 10, 3)
    assert brokers.at == Position(13)
    first = brokers.messages[0].headers
    assert (first["raftmeta.lease"], first["raftmeta.version"]) == (b"7", b"1")
    assert "raftmeta.version" not in brokers.messages[-3].headers
    again = feed_topic(store(), brokers)
    assert (again.first, again.last, again.changes, again.keys) == (14, 13, 0, 0)
    assert brokers.rows() == expected()


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after it"])
def test_a_feed_that_is_killed_anywhere_sends_each_change_once(rows: int, after: bool) -> None:
    """Init: a feed that dies at its n-th transaction. Act: begin again, dying at the next one. Check: the topic."""
    total = Brokers()
    feed_topic(store(), total, transaction_rows=rows)
    for begin in range(1, total.sends + 1):
        brokers = Brokers()
        brokers.dies_after = after
        brokers.dies_at = begin
        for _ in range(2 * total.sends + 2):
            try:
                feed_topic(store(), brokers, transaction_rows=rows)
                break
            except Killed:
                brokers.dies_at = brokers.sends + (2 if not after else 1)
        assert brokers.rows() == expected()
        assert brokers.at == Position(13)


def test_transactions_hold_whole_revisions() -> None:
    seen: list[set[int]] = []

    class Watched(Brokers):
        def send(self, messages: Iterable[Message], position: Position) -> None:
            held = list(messages)
            seen.append({int(one.headers["raftmeta.revision"]) for one in held})
            super().send(held, position)

    draw = random.Random(3)
    revisions = [(n, float(n), put(n, "k")[2] * draw.randrange(1, 5)) for n in range(1, 60)]
    feed_topic(Replayed(revisions), Watched(), transaction_rows=3)
    assert len(seen) > 10
    assert all(not one & other for place, one in enumerate(seen) for other in seen[:place])


def test_a_topic_may_begin_without_the_state() -> None:
    brokers = Brokers()
    fed = feed_topic(store(), brokers, first=9)
    assert [row[1] for row in brokers.rows()] == [9, 10, 11, 12, 13, 13]
    assert (fed.first, fed.last) == (9, 13)
    with pytest.raises(raftmeta.ConfigError, match="compacted revision 3"):
        feed_topic(store(), Brokers(), first=3)
    with pytest.raises(raftmeta.ConfigError, match="goes on at revision 14"):
        feed_topic(store(), brokers, first=2)


def test_what_the_store_compacted_is_a_gap_that_must_be_allowed() -> None:
    brokers = Brokers()
    brokers.at = Position(2)
    with pytest.raises(MissingRevisions, match="allow_gap"):
        feed_topic(store(), brokers)
    assert brokers.messages == []
    feed_topic(store(), brokers, allow_gap=True)
    assert brokers.rows() == expected()


def test_a_state_that_is_compacted_while_it_is_sent_is_sent_anew() -> None:
    """Keys that were sent come again, as of the newer revision; no change was sent before."""

    class Compacting(Replayed):
        def state(self, revision: int) -> Iterator[list[KeyRecord]]:
            if revision == 4:
                yield self.records[4][:2]
                self.at = 6
                raise raftmeta.Compacted("gone", revision=6)
            yield [KeyRecord(b"k0", b"v6", 6, 6, 2, 0)]

    source = store()
    brokers = Brokers()
    feed_topic(Compacting(source.revisions, floor=4, records=source.records), brokers, transaction_rows=1)
    assert [row[:2] for row in brokers.rows()][:4] == [("state", 1), ("state", 2), ("state", 6), ("put", 7)]
    assert brokers.at == Position(13)


def test_the_topic_of_a_newer_or_another_store_is_refused() -> None:
    brokers = Brokers()
    brokers.at = Position(14)
    with pytest.raises(raftmeta.ConfigError, match="name another topic"):
        feed_topic(store(), brokers)


def test_the_lag_is_told() -> None:
    class Told(Replayed):
        def now_ms(self) -> int:
            return 20_000

    lags: list[Lag] = []
    feed_topic(Told(store().revisions), Brokers(), first=5, transaction_rows=1, on_lag=lags.append)
    assert [(lag.last, lag.revisions, lag.seconds) for lag in lags][:2] == [(5, 8, 15.0), (6, 7, 14.0)]
    assert (lags[-1].last, lags[-1].revisions) == (13, 0)


# --- the library and its mock brokers ---------------------------------------------------------------------------------
@pytest.fixture
def servers() -> Iterator[str]:
    """Mock brokers, which live as long as the client that has them; they make a topic that is asked for."""
    home = confluent_kafka.Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "127.0.0.1:9"})
    for topic in ("changes", "changes.raftmeta-progress"):
        home.list_topics(topic, timeout=20)
    yield ",".join(f"{broker.host}:{broker.port}" for broker in home.list_topics(timeout=20).brokers.values())


class MockTopics(KafkaTopics):
    """Mock brokers answer no questions about the settings of a topic."""

    def _expect_progress_topic(self, consumer: Any) -> None:
        assert self._partitions(consumer, self.progress_topic)


def read_all(servers: str, topic: str) -> list[Any]:
    """Every message, each partition in its order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING) for number in partitions]
    )
    found, ends = [], 0
    while ends < len(partitions):
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
        if error is None:
            found.append(message)
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            ends += 1
    consumer.close()
    return found


def test_messages_and_progress_reach_brokers_and_a_second_feed_goes_on(servers: str) -> None:
    source = store()
    late = source.revisions[5:]
    source.revisions = source.revisions[:5]
    with MockTopics(servers, "changes") as topics:
        assert feed_topic(source, topics, transaction_rows=2).last == 9
    with MockTopics(servers, "changes") as topics:
        source.revisions += late
        assert feed_topic(source, topics).first == 10
    found = read_all(servers, "changes")
    told = [(dict(one.headers()), one) for one in found]
    rows = [
        (
            head["raftmeta.op"].decode(),
            int(head["raftmeta.revision"]),
            int(head["raftmeta.sub"]),
            one.key(),
            one.value(),
        )
        for head, one in told
    ]
    assert sorted(rows, key=lambda row: row[1:3]) == expected()
    assert {one.timestamp()[1] for head, one in told if head["raftmeta.revision"] == b"13"} == {13_000}
    by_key: dict[bytes, list[int]] = {}
    for row in rows:
        by_key.setdefault(row[3], []).append(row[1])
    assert all(revisions == sorted(revisions) for revisions in by_key.values())
    progress = [json.loads(one.value()) for one in read_all(servers, "changes.raftmeta-progress")]
    assert progress[-1] == {"cluster": "replayed", "revision": 13, "after": None}


def test_the_topic_of_another_cluster_is_refused(servers: str) -> None:
    with MockTopics(servers, "changes") as topics:
        topics.position("one")
        topics.send([], Position(3))
    with MockTopics(servers, "changes") as topics, pytest.raises(raftmeta.ConfigError, match="cluster one, not of two"):
        topics.position("two")


def test_a_topic_that_others_filled_is_refused(servers: str) -> None:
    other = confluent_kafka.Producer({"bootstrap.servers": servers})
    other.produce("changes", b"v", b"k")
    other.flush(20)
    with MockTopics(servers, "changes") as topics, pytest.raises(raftmeta.ConfigError, match="name an empty topic"):
        topics.position("one")


def test_a_topic_that_is_not_there_is_named(servers: str) -> None:
    with MockTopics(servers, "nothing") as topics, pytest.raises(raftmeta.ConfigError, match="'nothing'"):
        topics.position("one")


def test_brokers_that_are_not_there_are_told_within_the_time_out() -> None:
    with (
        KafkaTopics("127.0.0.1:9", "changes", timeout_s=0.5) as topics,
        pytest.raises(raftmeta.spark.topics.TopicFailed, match="changes"),
    ):
        topics.position("one")


def test_the_command_feeds_a_topic(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftmeta.cli.pipeline_lake.KafkaTopics", MockTopics)
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        client.put("k", "1")
        client.delete("k")
        words = ["--url", url, "pipeline", "feed", "--kafka", servers, "--topic", "changes"]
        words += ["--kafka-setting", "linger.ms=1", "--metrics", str(tmp_path / "lag.prom")]
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 0, told.output
        assert "2 changes more" in told.output
    assert [(one.key(), one.value()) for one in read_all(servers, "changes")] == [(b"k", b"1"), (b"k", None)]
    assert "raftmeta_feed_lag_revisions 0" in (tmp_path / "lag.prom").read_text()
    refused = CliRunner().invoke(app, ["pipeline", "feed", "--kafka", servers])
    assert refused.exit_code == 2 and "--topic" in refused.output
