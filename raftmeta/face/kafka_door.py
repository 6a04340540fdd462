"""raftmeta.KafkaDoor: the program that holds a node keeps the records of topics, and clients of Kafka use them.

    door = raftmeta.KafkaDoor(on_produce=append, on_fetch=read)
    node = raftmeta.Node("a", ..., kafka_listen="127.0.0.1:9092", kafka=door)

It carries requests of the door to the program's callables, on a thread or on an event loop, and answers back. It must
never hold up the door: that goes on with groups, offsets and metadata, whatever the program does
(docs/kafka-own-log.md).
"""

from __future__ import annotations

import inspect
import select
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raftmeta.common.apart import start_apart
from raftmeta.errors import ConfigError, KeyMissing, NotReady
from raftmeta.face.kafka_answers import Hooks, code_of, place_of
from raftmeta.face.own_logs import FETCH, PRODUCE, OwnLogsHandle, OwnRequest

if TYPE_CHECKING:
    import asyncio

    from raftmeta.verbs.blocking import Verbs

__all__ = ["KafkaDoor"]

BYTES_MAX = 64 << 20
PREFIX = "kafka-leaders/"


class KafkaDoor:
    """The log of a Python program behind the Kafka door of its node, for all topics (docs/kafka-own-log.md).

    on_produce(topic, partition, records, epoch): append one batch, and return the offset of its first record. The batch
    is of version 2 and its checksum holds; the offset and the epoch in its head are the program's to write.
    on_fetch(topic, partition, offset, bytes_max): return (records, start, end): whole batches from the one with this
    offset on, and the log's first and next offset. At least one batch, if there is one, else about bytes_max.
    on_list_offsets(topic, partition, timestamp): return (offset, timestamp) of the first record that is not older, or
    None. Without it only the start and the end of a log are found.
    All of them block, and are called on one thread of the door, one after the other. Or all of them are coroutine
    functions, and run on the event loop of a raftmeta.aio.Node: appends of one partition one after the other.
    bytes_max: of requests that the program has and has not answered; more wait.
    timeout_s: a request that the program has had for so long is answered 7, REQUEST_TIMED_OUT.
    """

    def __init__(
        self,
        *,
        on_produce: Callable[[str, int, bytes, int], Any],
        on_fetch: Callable[[str, int, int, int], Any],
        on_list_offsets: Callable[[str, int, int], Any] | None = None,
        bytes_max: int = BYTES_MAX,
        timeout_s: float = 30.0,
    ) -> None:
        given = [hook for hook in (on_produce, on_fetch, on_list_offsets) if hook is not None]
        if not all(callable(hook) for hook in given):
            raise ConfigError("kafka: on_produce, on_fetch and on_list_offsets must be callable", field="kafka")
        kinds = {inspect.iscoroutinefunction(hook) for hook in given}
        if len(kinds) != 1:
            raise ConfigError("kafka: all callables must block, or all be coroutine functions", field="kafka")
        if not 1 << 20 <= bytes_max <= 1 << 40 or not 0.01 <= timeout_s <= 3600:
            raise ConfigError("kafka: bytes_max from 1 MiB on, timeout_s from 0.01 to 3600", field="kafka")
        self._hooks = Hooks(on_produce, on_fetch, on_list_offsets)
        self.is_async = kinds == {True}
        self.bytes_max, self.timeout_s = bytes_max, timeout_s
        self._handle: OwnLogsHandle | None = None
        self._node: weakref.ref[Verbs] | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None

    # --- a node -------------------------------------------------------------------------------------------------------
    def bind(self, event_loop: asyncio.AbstractEventLoop) -> None:
        """The node is one of this event loop: coroutines run there. It calls this before it starts."""
        self._event_loop = event_loop

    def open(self) -> OwnLogsHandle:
        """The node makes its door: the way between the door and this program. Raises ConfigError."""
        if self._handle is not None and not self._handle.is_closing:
            raise ConfigError("kafka: this KafkaDoor belongs to another node that runs", field="kafka")
        if self.is_async and self._event_loop is None:
            raise ConfigError("kafka: coroutines need a raftmeta.aio.Node", field="kafka")
        self._handle = OwnLogsHandle(self.bytes_max, round(self.timeout_s * 1e9))
        return self._handle

    def start(self, node: Verbs) -> None:
        """The node runs: serve what its door asks until it has ended."""
        self._node = weakref.ref(node)
        handle = self._running()
        if not self.is_async:
            start_apart(lambda: self._serve(handle), "raftmeta-kafka-host")
        elif self._event_loop is not None:
            from raftmeta.face.kafka_door_aio import Host

            self._event_loop.call_soon_threadsafe(Host(self._hooks, handle, self._event_loop).begin)

    def _running(self) -> OwnLogsHandle:
        if self._handle is None or self._handle.is_closing:
            raise NotReady("the node of this KafkaDoor does not run")
        return self._handle

    # --- blocking callables -------------------------------------------------------------------------------------------
    def _serve(self, handle: OwnLogsHandle) -> None:
        poll = select.poll()
        poll.register(handle.fileno(), select.POLLIN)
        while not handle.is_closing:
            poll.poll()
            for request in handle.take():
                self._carry_out(request)

    def _carry_out(self, request: OwnRequest) -> None:
        hooks, topic, partition, number = self._hooks, request.topic, request.partition, request.number
        try:
            if request.kind == PRODUCE:
                request.appended(hooks.on_produce(topic, partition, request.records, request.epoch))
            elif request.kind == FETCH:
                request.fetched(*hooks.on_fetch(topic, partition, number, request.bytes_max))
            elif hooks.on_list_offsets is not None:
                request.found(*(hooks.on_list_offsets(topic, partition, number) or (-1, -1)))
            else:
                request.found(*place_of(number, *hooks.on_fetch(topic, partition, 0, 0)))
        except Exception as error:
            request.refused(code_of(error))

    # --- for the program ----------------------------------------------------------------------------------------------
    def grown(self, topic: str, partition: int) -> None:
        """The program has appended by itself: fetches that wait for this log ask again. Any thread may call it."""
        self._running().grown(topic.encode(), partition)

    def leader(self, topic: str, partition: int, *, timeout_s: float = 5.0) -> tuple[int, int]:
        """The number of the broker that leads the partition, and its epoch. Raises KeyMissing: nobody does yet."""
        broker, epoch, _ = self._leader(topic, partition, timeout_s)
        return broker, epoch

    def lead(self, topic: str, partition: int, *, timeout_s: float = 5.0) -> int:
        """Make this node the leader of the partition, in the next epoch; return the epoch. It blocks.

        From now on no append of the leader before is told as a success. One that leads already keeps its epoch. Raises
        KeyMissing: nobody leads it yet, so no client has asked for it. Raises CompareFailed: another node was faster.
        """
        me = self._running().broker
        if me < 0:
            raise NotReady("the broker of this node is not known yet")
        broker, epoch, rest = self._leader(topic, partition, timeout_s)
        if broker == me:
            return epoch
        topic_id, revision = rest
        value = f"{me} {epoch + 1} {topic_id}"
        self._live().update(_key(topic, partition), value, expected_revision=revision, timeout_s=timeout_s)
        return epoch + 1

    def _live(self) -> Verbs:
        node = self._node() if self._node is not None else None
        if node is None:
            raise NotReady("the node of this KafkaDoor does not run")
        return node

    def _leader(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int, tuple[str, int]]:
        record = self._live().get(_key(topic, partition), timeout_s=timeout_s)
        if record is None:
            raise KeyMissing(f"nobody leads partition {partition} of {topic} yet")
        broker, epoch, topic_id = record.value.decode().split(" ")
        return int(broker), int(epoch), (topic_id, int(record.mod_revision))


def _key(topic: str, partition: int) -> str:
    return f"{PREFIX}{topic}/{partition}"
