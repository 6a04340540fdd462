"""The clients that benchmarks load a Kafka door with do what they say."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.load import kafka_clients
from tests.kafka.nodes import RawClient, doors
from tests.kafka.test_records_door import create

GROUPS = [f"g{number}" for number in range(6)]


def test_the_load_joins_beats_commits_and_finds_another_node(tmp_path: Path) -> None:
    """Init: two nodes. Check: a group of ten gets stable, members of six groups beat and commit, and one of them goes
    on at the other node in its generation.
    """

    async def load(addresses: list[str]) -> None:
        await kafka_clients.first_groups(addresses)
        assert await kafka_clients.seconds_to_stable(addresses[0], "ten", 10, beat_s=0.02) > 0
        members = await kafka_clients.join_many(addresses[0], GROUPS, connections=2)
        assert sorted(member.group for mine in members for member in mine) == GROUPS
        good, bad = await kafka_clients.beat_for(members, every_s=0.05, seconds=0.3)
        assert good > len(GROUPS)
        assert bad == 0
        count, took_s = await kafka_clients.commit_for(members, "t", outstanding=4, seconds=0.2)
        assert count >= 4
        assert took_s >= 0.2
        member = members[0][0]
        _, was_rebalanced = await kafka_clients.beat_again(addresses[1:], member)
        assert not was_rebalanced
        member.generation += 1
        _, was_rebalanced = await kafka_clients.beat_again(addresses[1:], member)
        assert was_rebalanced
        for mine in members:
            mine[0].close()

    with doors(tmp_path, names="ab") as (_, at):
        with RawClient(at["a"]) as client:
            create(client, "t")
        asyncio.run(load([f"127.0.0.1:{port}" for port in at.values()]))
