"""A Kafka topic that a feed fills, and its progress in the same transactions.

    topics = KafkaTopics("broker-1:9092", "changes")
    topics.position("c1f0...")                          # fences every older feed of this topic
    topics.send([Message(b"k", b"v", 0, {})], Position(7))

A topic has a second one beside it, `<topic>.raftmeta-progress`, compacted and of one partition. Its newest record says
up to which revision the topic is filled. Messages and that record are one transaction of Kafka, so a reader with
`isolation.level=read_committed` sees each change once, whatever was killed. The transactional id is the topic's. A feed
that begins fences the one before, and the old feed's transaction is decided before the new feed reads the position.

It decides nothing about changes. It never makes the topic itself: its readers decide how many partitions it has.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from raftmeta.errors import ConfigError

__all__ = ["KafkaTopics", "Message", "Position", "TopicFailed", "Topics"]

EXTRA = "pip install 'raftmeta[kafka]'"
PROGRESS_SUFFIX = ".raftmeta-progress"
PROGRESS_PARTITION = 0  # of its one; progress is never spread
TIMEOUT_S = 60.0  # for each answer of the brokers; what fails may be tried again until then
MESSAGE_BYTES_MAX = 16 << 20  # more than any value: what a topic takes is decided by its brokers
PAUSE_S = 0.1

_log = logging.getLogger(__name__)


class TopicFailed(RuntimeError):
    """The brokers refused, or did not answer in time. The transaction under way counts whole or not at all."""


class Message(NamedTuple):
    """One change of one key. value: None for a deletion, which compaction takes for one."""

    key: bytes
    value: bytes | None
    time_ms: int
    headers: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a topic is filled: every change up to a revision.

    after: the state of that revision is being sent, up to this key so far; None: no state is being sent.
    """

    revision: int
    after: bytes | None = None

    def pack(self, cluster: str) -> bytes:
        """The position as a record of the progress topic."""
        after = None if self.after is None else base64.b64encode(self.after).decode()
        return json.dumps({"cluster": cluster, "revision": self.revision, "after": after}).encode()

    @staticmethod
    def unpack(record: bytes) -> tuple[str, Position]:
        """The cluster and the position in a record. Raises ConfigError."""
        try:
            told = json.loads(record)
            after = told["after"] if told["after"] is None else base64.b64decode(told["after"])
            return str(told["cluster"]), Position(int(told["revision"]), after)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"topic: its progress record is not a feed's: {record[:80]!r} ({error})") from None


class Topics(Protocol):
    """The place where a feed sends changes."""

    def position(self, cluster: str) -> Position | None:
        """Be the only feed from here on; return how far the topic is filled, None: not at all. Raises ConfigError."""

    def send(self, messages: Iterable[Message], position: Position) -> None:
        """Send messages and position, both or neither. Raises TopicFailed; ConfigError: another feed has begun."""


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise ConfigError(f"kafka: needs confluent-kafka: {EXTRA}", field="kafka") from None
    return confluent_kafka


class KafkaTopics:
    """A topic of a Kafka cluster. As a context it is closed.

    servers: "host:port,...". settings: of librdkafka, for instance of security; they win over those of this class.
    """

    def __init__(
        self, servers: str, topic: str, *, settings: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Nothing is connected before position()."""
        self.topic = topic
        self.progress_topic = topic + PROGRESS_SUFFIX
        self._kafka = _library()
        self._timeout_s = timeout_s
        self._cluster = ""
        self._settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "client.id": "raftmeta-feed",
            **(settings or {}),
        }
        self._producer: Any = None

    def __enter__(self) -> KafkaTopics:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the brokers; a transaction under way is not committed. Safe to call twice."""
        if self._producer is not None:
            self._producer.purge()
        self._producer = None

    # --- the position -------------------------------------------------------------------------------------------------
    def position(self, cluster: str) -> Position | None:
        """See Topics.position."""
        self._cluster = cluster
        try:
            consumer = self._kafka.Consumer(
                {
                    **self._settings,
                    "group.id": f"raftmeta-feed-{self.topic}",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "allow.auto.create.topics": False,
                },
                logger=_log,
            )
            try:
                partitions = self._partitions(consumer, self.topic)
                if not partitions:
                    raise ConfigError(f"topic: there is no topic {self.topic!r}: make it first", field="topic")
                self._expect_progress_topic(consumer)
                self._begin()
                record = self._newest(consumer)
                if record is None and self._holds_any(consumer, partitions):
                    raise ConfigError(
                        f"topic: {self.topic!r} holds messages, and none of a feed's progress: name an empty topic",
                        field="topic",
                    )
            finally:
                consumer.close()
        except self._kafka.KafkaException as error:
            raise self._told(error) from error
        if record is None:
            return None
        there, position = Position.unpack(record)
        if there != cluster:
            raise ConfigError(
                f"topic: {self.topic!r} has the changes of cluster {there}, not of {cluster}: name another topic",
                field="topic",
            )
        return position

    def _partitions(self, consumer: Any, topic: str) -> list[int]:
        """The partitions of the topic; none if there is no such topic."""
        found = consumer.list_topics(topic, timeout=self._timeout_s).topics[topic]
        if found.error is None:
            return sorted(found.partitions)
        if found.error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return []
        raise self._kafka.KafkaException(found.error)

    def _expect_progress_topic(self, consumer: Any) -> None:
        """Make it if there is none. A topic that is not compacted would forget the position of a feed that rests."""
        library: Any = importlib.import_module("confluent_kafka.admin")
        admin = library.AdminClient(self._settings, logger=_log)
        name = self.progress_topic
        if not self._partitions(consumer, name):
            new = library.NewTopic(name, num_partitions=1, config={"cleanup.policy": "compact"})
            admin.create_topics([new], request_timeout=self._timeout_s)[name].result(self._timeout_s)
            return
        resource = library.ConfigResource(library.ConfigResource.Type.TOPIC, name)
        told = admin.describe_configs([resource], request_timeout=self._timeout_s)[resource].result(self._timeout_s)
        policy = told["cleanup.policy"].value
        if policy != "compact":
            raise ConfigError(
                f"topic: {name} has cleanup.policy={policy}, and would forget how far the feed is: set it to compact",
                field="topic",
            )

    def _begin(self) -> None:
        """Fence every earlier feed of this topic; on return its transaction is decided."""
        self._producer = self._kafka.Producer(
            {
                "compression.type": "lz4",
                "linger.ms": 20,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "partitioner": "murmur2_random",  # as Kafka's own clients choose it
                **self._settings,
                "transactional.id": f"raftmeta-feed-{self.topic}",
            },
            logger=_log,
        )
        self._until_done(lambda: self._producer.init_transactions(self._timeout_s))

    def _newest(self, consumer: Any) -> bytes | None:
        """The newest record of the progress topic that is committed."""
        record: bytes | None = None
        begin = self._kafka.TopicPartition(self.progress_topic, PROGRESS_PARTITION, self._kafka.OFFSET_BEGINNING)
        consumer.assign([begin])
        deadline_s = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline_s:
            message = consumer.poll(PAUSE_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                record = message.value()
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                return record
            elif not error.retriable() and error.code() not in self._news_of_topics():
                raise self._kafka.KafkaException(error)
        raise TopicFailed(f"{self.progress_topic}: not read to its end within {self._timeout_s:g} s")

    def _news_of_topics(self) -> tuple[int, ...]:
        """The errors that a new topic has while not every broker knows it."""
        kinds = self._kafka.KafkaError
        return kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_PARTITION, kinds._UNKNOWN_TOPIC

    def _holds_any(self, consumer: Any, partitions: Iterable[int]) -> bool:
        places = (self._kafka.TopicPartition(self.topic, number) for number in partitions)
        return any(consumer.get_watermark_offsets(place, timeout=self._timeout_s)[1] for place in places)

    # --- messages -----------------------------------------------------------------------------------------------------
    def send(self, messages: Iterable[Message], position: Position) -> None:
        """See Topics.send. It makes a transaction again that the brokers abort."""
        held = list(messages)
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                self._producer.begin_transaction()
                for message in held:
                    self._produce(self.topic, message, {})
                progress = Message(self.topic.encode(), position.pack(self._cluster), time.time_ns() // 1_000_000, {})
                self._produce(self.progress_topic, progress, {"partition": PROGRESS_PARTITION})
                self._until_done(lambda: self._producer.commit_transaction(self._timeout_s))
                return
            except self._kafka.KafkaException as error:
                if not error.args[0].txn_requires_abort() or time.monotonic() > deadline_s:
                    raise self._told(error) from error
                _log.warning("transaction aborted topic=%s error=%s", self.topic, error.args[0].str())
                self._abort()

    def _produce(self, topic: str, message: Message, where: dict[str, int]) -> None:
        while True:
            try:
                self._producer.produce(
                    topic,
                    key=message.key,
                    value=message.value,
                    timestamp=message.time_ms,
                    headers=list(message.headers.items()),
                    **where,
                )
                break
            except BufferError:  # the queue of the client is full
                self._producer.poll(PAUSE_S)
        self._producer.poll(0)

    def _abort(self) -> None:
        try:
            self._until_done(lambda: self._producer.abort_transaction(self._timeout_s))
        except self._kafka.KafkaException as error:
            raise self._told(error) from error

    def _until_done(self, call: Any) -> None:
        """Make a call until it is done; where the library allows to call again, that goes on with the same step."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                call()
                return
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline_s:
                    raise

    def _told(self, error: Any) -> Exception:
        reason = error.args[0]
        kinds = self._kafka.KafkaError
        if reason.code() in (kinds._FENCED, kinds.INVALID_PRODUCER_EPOCH, kinds.PRODUCER_FENCED):
            return ConfigError(f"topic: another feed has begun to fill {self.topic!r}; this one ends", field="topic")
        return TopicFailed(f"{self.topic}: {reason.str()} ({reason.name()})")
