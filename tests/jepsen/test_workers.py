"""The workload of worker groups, on nodes of its own: right as it is, and red when the store ignores fences."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import raftmeta
from jepsen.churn import PHASES, catch, group_of, incomplete
from jepsen.client import Client, Fates
from jepsen.generator import Pace, Rotation
from jepsen.observed import broken_rules
from jepsen.spool import Spool, read_spool
from jepsen.workloads import CHURNS
from jepsen.workloads.kafka_workers import KafkaChurn
from jepsen.workloads.workers import LIES, Churn, Workers
from tests.client.nodes import serving
from tests.processes.waiting import wait_until

WAIT_S = 30.0
COLUMNS = ("time_ns", "kind", "subject", "process", "node", "revision", "token", "value")


class Unfenced(raftmeta.aio.Client):
    """A client whose writes go without the fence that they were given."""

    async def put(self, key: Any, value: Any, *, fence: Any = None, **options: Any) -> raftmeta.Revision:
        return await super().put(key, value, **options)


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition, timeout_s=WAIT_S, what="the assignments")


async def a_member_is_removed(store: Any, spool: Spool) -> None:
    """Two workers share; one is removed, its resources go to the other, and it writes before it is told."""
    pace, rotation = Pace(0.01, Random(1)), Rotation(0, 60.0)
    first, second = (
        Workers(
            Client(
                store,
                spool,
                Fates(),
                workload="workers",
                slot=slot,
                group=0,
                life=0,
                pace=pace,
                rotation=rotation,
                random=Random(slot),
            )
        )
        for slot in range(2)
    )
    following = [asyncio.create_task(one.follow()) for one in (first, second)]
    try:
        await until(lambda: len(first._owned) == len(second._owned) == len(Workers.resources) / 2)
        for one in (first, second):
            await one._look()
            await one._write(one._owned[0])
        fence, resource = first._fence, first._owned[0]
        following[0].cancel()
        await asyncio.gather(following[0], return_exceptions=True)  # it leaves
        await until(lambda: len(second._owned) == len(Workers.resources))
        await second._look()
        await second._write(resource)
        first._fence = fence
        await first._write(resource)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


@pytest.mark.parametrize("made", [raftmeta.aio.Client, Unfenced])
def test_a_store_that_ignores_fences_is_red(tmp_path: Path, made: type[raftmeta.aio.Client]) -> None:
    path = tmp_path / "spool.jsonl"
    spool = Spool(path)

    async def run(url: str) -> None:
        async with made(url) as client:
            await client.ready(WAIT_S)
            await a_member_is_removed(client, spool)

    with serving(tmp_path) as (nodes, url):
        node = next(iter(nodes.values()))
        wait_until(lambda: node.status().feature_level >= 5, timeout_s=WAIT_S, what="the level of groups")
        asyncio.run(run(url))
    spool.close()
    rows = [dict(zip(COLUMNS, line[1:], strict=True)) for line in read_spool(path) if line[0] == "observe"]
    kinds = [row["kind"] for row in rows]
    assert {"elected", "lease_granted", "fence_accepted"} <= set(kinds)
    reasons = broken_rules(rows, {})
    assert ("fence_refused" in kinds, bool(reasons)) == (made is not Unfenced, made is Unfenced)
    assert all("old fence accepted" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([("elected", "leader", 7, "a"), ("elected", "leader", 7, "b")], "one token of two"),
        ([("lease_granted", "r1", 7, "a"), ("lease_granted", "r1", 7, "b")], "one token of two"),
    ],
)
def test_two_leaders_of_a_generation_and_two_owners_of_a_resource_are_red(
    rows: list[tuple[str, str, int, str]], name: str
) -> None:
    told = [
        dict(zip(COLUMNS, (number, kind, f"workers/0/{subject}", number, "", token, token, value), strict=True))
        for number, (kind, subject, token, value) in enumerate(rows)
    ]
    assert [name in reason for reason in broken_rules(told, {})] == [True]
    assert broken_rules(told[:1], {}) == []


def test_a_churned_group_is_complete_when_every_resource_has_one_owner() -> None:
    half = len(Churn.resources) // 2
    owners = {"a": list(Churn.resources[:half]), "b": list(Churn.resources[half:])}
    seen = {"state": "Stable", "generation": 3, "owners": owners}
    assert incomplete(seen, 2) is None
    assert "2 members instead of 3" in str(incomplete(seen, 3))
    assert incomplete({**seen, "state": "Completing"}, 2) == "Completing, generation 3"
    twice = {**owners, "b": [*owners["b"], owners["a"][0]]}
    assert "201 resources are owned, 200 of 200" in str(incomplete({**seen, "owners": twice}, 2))
    assert "199 resources" in str(incomplete({**seen, "owners": {**owners, "b": owners["b"][1:]}}, 2))


def test_the_partitions_of_a_consumer_are_resources_of_its_topic() -> None:
    def assigned(*topics: tuple[str, list[int]]) -> bytes:
        parts = [struct.pack(">hi", 1, len(topics))]
        for name, numbers in topics:
            parts.append(
                struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name.encode(), len(numbers), *numbers)
            )
        return b"".join(parts) + struct.pack(">i", -1)

    assert KafkaChurn.owned(b"") == ()
    assert KafkaChurn.owned(assigned(("kafka-churn", [7, 2]))) == ("r002", "r007")
    assert KafkaChurn.owned(assigned(("kafka-churn", []), ("kafka-churn", [199]))) == ("r199",)


def test_each_mistake_has_members_of_each_kind() -> None:
    assert set(CHURNS) == {
        f"{kind}{lie}" for kind in ("churn", "kafka-churn") for lie in ("", *(f"-{lie}" for lie in LIES))
    }
    assert [CHURNS[name].is_fenced for name in ("churn", "kafka-churn-unfenced")] == [True, False]
    assert [CHURNS[name].rejoin_share > 0 for name in ("kafka-churn", "churn-restless")] == [False, True]


def test_a_group_is_caught_in_a_phase(tmp_path: Path) -> None:
    """Act: a member joins, and does not sync. Check: it is seen to sync, and never to be stable."""

    class Program:
        def __init__(self, face: Any) -> None:
            self.face = face

    async def run(url: str) -> None:
        async with raftmeta.aio.Client(url) as client:
            await client.ready(WAIT_S)
            lease = await client.lease(60)
            await client.groups.join(group_of("churn"), {"range": b""}, lease=lease, initial_delay_s=0.0)
            assert await catch(Program(client), "churn", PHASES["sync"])
            assert not await catch(Program(client), "churn", "Stable", 0.05)

    with serving(tmp_path) as (nodes, url):
        node = next(iter(nodes.values()))
        wait_until(lambda: node.status().feature_level >= 5, timeout_s=WAIT_S, what="the level of groups")
        asyncio.run(run(url))
