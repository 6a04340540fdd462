"""Filling a Kafka topic from a store: `raftmeta pipeline feed --kafka`.

    with KafkaTopics("broker-1:9092", "changes") as topics:
        feed_topic(ClientSource(client), topics, follow=True)

A message is one change of one key: its key and its new value. A deletion has no value, so a compacted topic becomes a
copy of the keyspace. Headers tell the rest. A new topic begins with the state at the oldest revision that the store
has, as messages of `raftmeta.op` "state". Then every change follows, in order of revisions; the changes of one key are
in one partition. A transaction holds whole revisions and how far they go (raftmeta/spark/topics.py).

It decides where to begin and when a transaction is full. It never reads the topic.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raftmeta.errors import Compacted, ConfigError, InvalidArgument
from raftmeta.spark.feed import UNANSWERED_MAX, Lag, OnLag, OnProgress, Source, Whole
from raftmeta.spark.lake import MissingRevisions
from raftmeta.spark.topics import Message, Position, Topics

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FedTopic", "feed_topic"]

TRANSACTION_ROWS = 10_000  # changes of one transaction, or
TRANSACTION_BYTES = 16 << 20  # bytes of keys and values; a revision is never parted
FLUSH_S = 1.0  # a topic that follows is about so far behind


@dataclass(frozen=True, slots=True)
class FedTopic:
    """The result of a feed. first, last: revisions whose changes it sent, [first, last]; keys: messages of a state."""

    first: int
    last: int
    changes: int
    keys: int


def feed_topic(
    source: Source,
    topics: Topics,
    *,
    first: int | None = None,
    follow: bool = False,
    allow_gap: bool = False,
    transaction_rows: int = TRANSACTION_ROWS,
    transaction_bytes: int = TRANSACTION_BYTES,
    flush_s: float = FLUSH_S,
    on_progress: OnProgress | None = None,
    on_lag: OnLag | None = None,
) -> FedTopic:
    """Bring the topic up to the newest revision of the source; each change is committed there once.

    first: revision of the first change in a new topic, which then has no state before it; None: begin with the state
    of the oldest revision that the store has. follow: go on until the source fails or KeyboardInterrupt. allow_gap: if
    the store has compacted revisions that the topic needs next, send the state behind them; keys that were deleted in
    between stay in the topic. Without it that is MissingRevisions. on_progress, on_lag: as of feed().
    Raises ConfigError: the topic has the changes of another store, or another feed has begun; TopicFailed; NotExecuted
    when nobody answers. After an error the topic is as after the last transaction.
    """
    cluster = source.cluster_id()
    at = topics.position(cluster)
    asked_ms, tip = source.now_ms(), source.tip()
    begun = _begun(source, first, tip) if at is None else _resumed(source, at, first, tip, allow_gap)
    if begun != at:
        topics.send([], begun)  # before any message: a topic with messages has a position
    feeding = _Feeding(source, topics, begun, asked_ms, tip, transaction_rows, transaction_bytes, on_progress, on_lag)
    with contextlib.suppress(KeyboardInterrupt):
        feeding.send_state()
        feeding.begun_at = feeding.at.revision
        feeding.run(follow, flush_s)
    return FedTopic(feeding.begun_at + 1, feeding.at.revision, feeding.changes, feeding.keys)


def _begun(source: Source, first: int | None, tip: int) -> Position:
    if first is None:
        return Position(source.floor(), b"")
    if not 1 <= first <= tip + 1:
        raise InvalidArgument(
            f"first: the store is at revision {tip}, so the first change is in 1 to {tip + 1}, not {first}"
        )
    if first <= source.floor():
        raise ConfigError(
            f"first: the store has compacted revision {first}; its oldest is {source.floor() + 1}", field="first"
        )
    return Position(first - 1)


def _resumed(source: Source, at: Position, first: int | None, tip: int, allow_gap: bool) -> Position:
    if at.revision > tip:
        raise ConfigError(
            f"topic: is filled up to revision {at.revision}, and the store has only {tip}: it is older, as after a "
            "restore; name another topic",
            field="topic",
        )
    if first is not None and first != at.revision + 1:
        raise ConfigError(f"topic: goes on at revision {at.revision + 1}; `first` is for a new topic", field="first")
    floor = source.floor()
    if floor <= at.revision:
        return at
    if at.after is not None:  # no change was sent yet, and the state can be sent again
        return Position(floor, b"")
    if not allow_gap:
        raise MissingRevisions(
            f"the topic ends at revision {at.revision}, and the store has compacted up to {floor}; go on behind the "
            "gap with allow_gap (--allow-gap), or name another topic"
        )
    return Position(floor, b"")


class _Feeding:
    """One feed under way. at: the position as it was sent last. tip: the newest revision known, as of known_ms."""

    def __init__(
        self,
        source: Source,
        topics: Topics,
        at: Position,
        asked_ms: int,
        tip: int,
        rows_max: int,
        bytes_max: int,
        on_progress: OnProgress | None,
        on_lag: OnLag | None,
    ) -> None:
        self.at = at
        self.begun_at = at.revision
        self.changes = self.keys = 0
        self._source, self._topics = source, topics
        self._asked_ms, self._tip = asked_ms, tip
        self._known_ms = 0  # up to then the topic has everything
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._on_progress, self._on_lag = on_progress, on_lag
        self._unanswered = 0
        self._held: list[Message] = []
        self._held_bytes = 0
        self._held_to = at

    # --- the state ----------------------------------------------------------------------------------------------------
    def send_state(self) -> None:
        """Send the rest of the state, if any; from its first key on if the store has compacted it meanwhile."""
        while self.at.after is not None:
            try:
                for message in self._state_after(self.at.revision, self.at.after):
                    self._hold([message], Position(self.at.revision, message.key))
                self._send(Position(self.at.revision))
            except Compacted:
                self._held, self._held_bytes = [], 0
                self._send(Position(self._source.floor(), b""))

    def _state_after(self, revision: int, after: bytes) -> Iterator[Message]:
        from raftmeta.spark.lake_rows import records_of

        if revision == 0:
            return
        for page in self._source.state(revision):
            table = records_of(page) if isinstance(page, list) else page
            for row in table.to_pylist():
                if row["key"] > after:
                    yield Message(
                        row["key"], row["value"], self._asked_ms, _headers("state", row["mod_revision"], 0, row)
                    )

    # --- changes ------------------------------------------------------------------------------------------------------
    def run(self, follow: bool, flush_s: float) -> None:
        """Feed until the tip, or for good; the topic ends with a whole revision, however the feed ends."""
        source = self._source.changes(self.at.revision + 1)
        since_s = time.monotonic()
        try:
            while follow or self._held_to.revision < self._tip:
                one = next(source)
                if one is None:
                    self._flush()
                    self._ask()
                else:
                    self._add(one)
                if not self._held:
                    since_s = time.monotonic()
                elif follow and time.monotonic() - since_s >= flush_s:
                    self._flush()
        finally:
            source.close()
        self._flush()

    def _add(self, changes: Whole | pa.Table) -> None:
        from raftmeta.spark.lake_rows import table_of

        revision: list[Message] = []
        number = 0
        for row in table_of([changes]).to_pylist():
            if row["revision"] != number and revision:
                self._hold(revision, Position(number))
                revision = []
            number = row["revision"]
            time_ms = round(row["ts"].timestamp() * 1000)
            revision.append(Message(row["key"], row["value"], time_ms, _headers(row["op"], number, row["sub"], row)))
            self._known_ms = time_ms
        if revision:
            self._hold(revision, Position(number))

    def _hold(self, messages: list[Message], to: Position) -> None:
        self._held += messages
        self._held_bytes += sum(len(one.key) + len(one.value or b"") for one in messages)
        self._held_to = to
        if len(self._held) >= self._rows_max or self._held_bytes >= self._bytes_max:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._send(self._held_to)
        self._tell()

    def _send(self, to: Position) -> None:
        self._topics.send(self._held, to)
        if self.at.after is None:
            self.changes += len(self._held)
        else:
            self.keys += len(self._held)
        self.at = self._held_to = to
        self._held, self._held_bytes, self._unanswered = [], 0, 0

    def _ask(self) -> None:
        """Nothing came for a while: ask whether anybody is there, and whether there is really nothing."""
        self._asked_ms, self._tip = self._source.now_ms(), self._source.tip()
        if self.at.revision >= self._tip:
            self._known_ms = self._asked_ms
        self._tell()
        self._unanswered += self.at.revision < self._tip
        if self._unanswered == UNANSWERED_MAX:
            raise MissingRevisions(f"the store has revision {self._tip}, but gives nothing after {self.at.revision}")

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.at.revision, max(self._tip, self.at.revision))
        if self._on_lag is not None:
            age_s = max(0, self._source.now_ms() - self._known_ms) / 1000
            self._on_lag(Lag(self.at.revision, max(0, self._tip - self.at.revision), age_s))


def _headers(op: str, revision: int, sub: int, row: dict[str, Any]) -> dict[str, bytes]:
    """Numbers as text of their decimal digits. A deletion has no record, so no headers of one."""
    told: dict[str, Any] = {"op": op, "revision": revision, "sub": sub}
    told |= {name: row[name] for name in ("create_revision", "version", "lease") if row[name] is not None}
    return {f"raftmeta.{name}": str(value).encode() for name, value in told.items()}
