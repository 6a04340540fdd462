"""A member of a group over one of the clients in Python, which tells what it is told in lines that begin with "event".

python group_member.py CLIENT BOOTSTRAP GROUP TOPIC [ASSIGNOR [INSTANCE]]

CLIENT: confluent, aiokafka or kafka_python. ASSIGNOR: by the client's own name for it; "server" for confluent, and the
server assigns (KIP-848). INSTANCE: makes it a static
member. SIGTERM closes it. It commits after each batch of records.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable
from typing import Any

POLL_S = 0.2
SESSION_MS, STATIC_SESSION_MS = 6000, 45_000
BEAT_MS = 500


def tell(word: str, partitions: Iterable[Any] = ()) -> None:
    numbers = sorted(partition.partition for partition in partitions)
    print(" ".join(["event", word, *map(str, numbers)]), flush=True)


class Ending:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.is_asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.is_asked = True


def confluent(bootstrap: str, group: str, topic: str, assignor: str, instance: str) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    ending = Ending()
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": "librdkafka",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    if assignor == "server":
        settings["group.protocol"] = "consumer"
    else:
        session_ms = STATIC_SESSION_MS if instance else SESSION_MS
        settings |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": BEAT_MS}
        if assignor:
            settings["partition.assignment.strategy"] = assignor
    if instance:
        settings["group.instance.id"] = instance
    fatal: list[str] = []
    refusals = (KafkaError.FENCED_INSTANCE_ID, KafkaError.UNRELEASED_INSTANCE_ID, KafkaError._FATAL)

    def failed(error: Any) -> None:
        if error.fatal() or error.code() in refusals:
            fatal.append(error.name())

    consumer = Consumer({**settings, "error_cb": failed})

    def assigned(_: Any, partitions: list[Any]) -> None:
        tell("assigned", partitions)

    def revoked(_: Any, partitions: list[Any]) -> None:
        tell("revoked", partitions)

    def lost(_: Any, partitions: list[Any]) -> None:
        tell("lost", partitions)

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    read = 0
    while not (ending.is_asked or fatal):
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        if message.error():
            failed(message.error())
            continue
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException as error:
            print(error, flush=True)
        read += 1
        tell(f"read {read}")
    if fatal:
        tell(f"failed {fatal[0]}")
    consumer.close()
    tell("closed")


def kafka_python(bootstrap: str, group: str, topic: str, assignor: str, instance: str) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    ending = Ending()
    assignors = {"cooperative": CooperativeStickyAssignor, "range": RangePartitionAssignor}
    settings: dict[str, Any] = {"partition_assignment_strategy": [assignors[assignor]]} if assignor else {}
    if instance:
        settings["group_instance_id"] = instance
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id="kafka-python",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=STATIC_SESSION_MS if instance else SESSION_MS,
        heartbeat_interval_ms=BEAT_MS,
        **settings,
    )

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            tell("lost", lost)

    consumer.subscribe([topic], listener=Listener())
    read = 0
    try:
        while not ending.is_asked:
            found = consumer.poll(timeout_ms=round(POLL_S * 1000))
            if count := sum(len(records) for records in found.values()):
                consumer.commit()
                read += count
                tell(f"read {read}")
    except KafkaError as error:
        tell(f"failed {type(error).__name__}")
    consumer.close()
    tell("closed")


async def aiokafka(bootstrap: str, group: str, topic: str, assignor: str, instance: str) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    ending = Ending()
    assignors = {"sticky": StickyPartitionAssignor, "range": RangePartitionAssignor}
    settings: dict[str, Any] = {"partition_assignment_strategy": (assignors[assignor],)} if assignor else {}
    if instance:
        settings["group_instance_id"] = instance
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id="aiokafka",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=STATIC_SESSION_MS if instance else SESSION_MS,
        heartbeat_interval_ms=BEAT_MS,
        **settings,
    )

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", revoked)

    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    read = 0
    try:
        while not ending.is_asked:
            found = await consumer.getmany(timeout_ms=round(POLL_S * 1000))
            if count := sum(len(records) for records in found.values()):
                await consumer.commit()
                read += count
                tell(f"read {read}")
    except KafkaError as error:
        tell(f"failed {type(error).__name__}")
    await consumer.stop()
    tell("closed")


def main(client: str, bootstrap: str, group: str, topic: str, assignor: str = "", instance: str = "") -> None:
    if client == "aiokafka":
        asyncio.run(aiokafka(bootstrap, group, topic, assignor, instance))
    else:
        {"confluent": confluent, "kafka_python": kafka_python}[client](bootstrap, group, topic, assignor, instance)


if __name__ == "__main__":
    main(*sys.argv[1:])
