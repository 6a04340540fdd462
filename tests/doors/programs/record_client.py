"""Produce records by one of the clients in Python, or read them back and check them.

python record_client.py CLIENT produce|consume BOOTSTRAP TOPIC COUNT GROUP

CLIENT: confluent, aiokafka or kafka_python. Record number N has the key "N" modulo 10 and the value "value N". A reader
ends when it has COUNT records, and prints how many it read and whether the values are those that were produced.
"""

from __future__ import annotations

import asyncio
import sys
import time

READ_S = 40.0


def pair(number: int) -> tuple[bytes, bytes]:
    return b"%d" % (number % 10), b"value %d" % number


def confluent(verb: str, bootstrap: str, topic: str, count: int, group: str) -> list[bytes]:
    """librdkafka, as an idempotent producer with compressed batches."""
    from confluent_kafka import Consumer, Producer

    if verb == "produce":
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "gzip", "linger.ms": 5}
        )
        for number in range(count):
            key, value = pair(number)
            producer.produce(topic, key=key, value=value)
        left = producer.flush(READ_S)
        assert left == 0, f"{left} records were not acknowledged"
        return []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    ends_s = time.monotonic() + READ_S
    while len(found) < count and time.monotonic() < ends_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


async def _aiokafka(verb: str, bootstrap: str, topic: str, count: int, group: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    if verb == "produce":
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        waiting = []
        for number in range(count):
            key, value = pair(number)
            waiting.append(await producer.send(topic, key=key, value=value))
        await asyncio.gather(*waiting)
        await producer.stop()
        return []
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )  # fmt: skip
    await consumer.start()
    found: list[bytes] = []
    ends_s = time.monotonic() + READ_S
    while len(found) < count and time.monotonic() < ends_s:
        for messages in (await consumer.getmany(timeout_ms=500)).values():
            found += [message.value for message in messages]
    await consumer.stop()
    return found


def aiokafka(verb: str, bootstrap: str, topic: str, count: int, group: str) -> list[bytes]:
    return asyncio.run(_aiokafka(verb, bootstrap, topic, count, group))


def kafka_python(verb: str, bootstrap: str, topic: str, count: int, group: str) -> list[bytes]:
    """With compressed batches."""
    from kafka import KafkaConsumer, KafkaProducer

    servers = bootstrap.split(",")
    if verb == "produce":
        producer = KafkaProducer(bootstrap_servers=servers, compression_type="gzip", acks="all")
        waiting = [producer.send(topic, key=key, value=value) for key, value in map(pair, range(count))]
        producer.flush(READ_S)
        assert all(one.succeeded() for one in waiting)
        producer.close()
        return []
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(READ_S * 1000),
    )
    found: list[bytes] = []
    for message in consumer:
        found.append(message.value)
        if len(found) >= count:
            break
    consumer.close()
    return found


CLIENTS = {"confluent": confluent, "aiokafka": aiokafka, "kafka_python": kafka_python}


def main() -> None:
    client, verb, bootstrap, topic, count, group = sys.argv[1:]
    found = CLIENTS[client](verb, bootstrap, topic, int(count), group)
    if verb == "consume":
        is_right = sorted(found) == sorted(pair(number)[1] for number in range(int(count)))
        print(f"read {len(found)} {'right' if is_right else 'wrong'}", flush=True)


if __name__ == "__main__":
    main()
