"""Members of a worker group that are consumers of Kafka: the client aiokafka, through the Kafka doors of the nodes.

The resources are the partitions of one topic. Kafka's protocol tells a member its id and generation, and no fence: the
member asks the store for the fence of its assignment, and writes under it by raftmeta's own verbs.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from typing import Any

import raftmeta
from jepsen.client import TIMEOUT_S, UNSURE
from jepsen.workloads.workers import RETRY_S, Churn

POLL_MS = 1000
REQUEST_MS = 25_000  # longer than a join waits


class KafkaChurn(Churn):
    """Consumers of one topic write for each of their partitions, under the fence of the assignment."""

    name = "kafka-churn"
    protocol = "kafka"
    # A consumer in Python whose coordinator is killed needs seconds on a busy machine, until it asks another node.
    settings = replace(Churn.settings, session_timeout_s=12.0)
    _consumer: Any = None
    _fencing: asyncio.Task[None] | None = None

    @staticmethod
    def owned(assignment: bytes) -> tuple[str, ...]:
        """The same of ConsumerProtocolAssignment, whose fields stand in each version at the same place."""
        if not assignment:
            return ()
        topics, at = int.from_bytes(assignment[2:6]), 6
        partitions: list[int] = []
        for _ in range(topics):
            at += 2 + int.from_bytes(assignment[at : at + 2])
            count = int.from_bytes(assignment[at : at + 4])
            partitions += struct.unpack_from(f">{count}i", assignment, at + 4)
            at += 4 + 4 * count
        return tuple(KafkaChurn.resources[number] for number in sorted(partitions))

    def rejoin(self) -> None:
        """Only the leader's join begins a new generation."""
        if self._consumer is not None:
            self._consumer._coordinator.request_rejoin()

    async def follow(self) -> None:
        from aiokafka.errors import KafkaError

        while True:
            try:
                await self._be_member()
            except (*UNSURE, KafkaError):
                await asyncio.sleep(RETRY_S)

    async def _be_member(self) -> None:
        from aiokafka import AIOKafkaConsumer

        assert self.client.doors is not None, "a workload through the door needs doors"
        await self._make_topic()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=list(self.client.doors.kafka),
            client_id=self.client.name,
            group_id=self._group,
            enable_auto_commit=False,
            session_timeout_ms=round(1000 * self.settings.session_timeout_s),
            rebalance_timeout_ms=round(1000 * self.settings.rebalance_timeout_s),
            heartbeat_interval_ms=round(1000 * self.settings.heartbeat_interval_s),
            request_timeout_ms=REQUEST_MS,
            fetch_max_wait_ms=POLL_MS,  # a question for the coordinator waits behind a fetch of its connection
        )
        consumer.subscribe([self.name], listener=_listener(self))
        try:
            self._consumer = consumer
            await consumer.start()
            while True:
                await consumer.getmany(timeout_ms=POLL_MS)
                if self._fencing is not None and self._fencing.done():
                    self._fencing.result()
        finally:
            self._consumer = None
            self.revoked()
            await asyncio.shield(consumer.stop())

    async def _make_topic(self) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        assert self.client.doors is not None
        admin = AIOKafkaAdminClient(bootstrap_servers=list(self.client.doors.kafka))
        try:
            await admin.start()
            await admin.create_topics([NewTopic(self.name, len(self.resources), 1)])  # or it is there
        finally:
            await admin.close()

    # --- told by the client -------------------------------------------------------------------------------------------
    def revoked(self) -> None:
        """Nothing is owned any more."""
        self._owned, self._fence = (), None
        if self._fencing is not None:
            self._fencing.cancel()
            self._fencing = None

    def assigned(self, partitions: list[int]) -> None:
        """Own these as soon as the store tells the fence. The client waits for nothing here."""
        self.revoked()
        coordinator = self._consumer._coordinator
        self._fencing = asyncio.create_task(
            self._take(coordinator.generation, coordinator.member_id, [self.resources[one] for one in partitions])
        )

    async def _take(self, generation: int, member_id: str, resources: list[str]) -> None:
        synced = None
        while synced is None:
            try:
                synced = await self.client.store.groups.sync(self._group, generation, member_id, timeout_s=TIMEOUT_S)
            except raftmeta.GroupRefused:
                return  # the generation is over, and the client will hear of it
            except (*UNSURE, raftmeta.GroupTimeout):
                await asyncio.sleep(RETRY_S)
        assert sorted(resources) == sorted(self.owned(synced.assignment)), "another assignment than the store's"
        token = synced.fence.create_revision
        for resource in resources:
            self._say("lease_granted", resource, token=token, revision=token, value=member_id)
        self._owned, self._fence = tuple(resources), synced.fence


def _listener(member: KafkaChurn) -> Any:
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            member.assigned(sorted(one.partition for one in assigned))

        async def on_partitions_revoked(self, _revoked: Any) -> None:
            member.revoked()

    return Listener()
