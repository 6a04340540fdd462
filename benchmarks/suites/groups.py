"""The Kafka door beside a real Kafka 3.9: groups, heartbeats, offsets and the death of a coordinator.

The same client program (benchmarks/load/kafka_clients.py) loads both, one after the other in each round. Both servers
stand at the same time and share the machine with the client. Targets: issue "Speed" of groups.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load import kafka_clients
from benchmarks.load.kafka_servers import Brokers, Nodes
from benchmarks.measure import Row, at_least, at_most

ORDER = 96
TITLE = "Groups: clients of Kafka on raftmeta and on Kafka 3.9"
IS_LONG = True
DOOR, REAL = "raftmeta", "Kafka"
KINDS: dict[str, Callable[[Path, int], Nodes | Brokers]] = {DOOR: Nodes, REAL: Brokers}
MEMBERS = 1_000
GROUPS = 10_000
BEAT_EVERY_S = 3.0
BEATING_S = 15.0
CONNECTIONS = 64
OUTSTANDING = 1_024
COMMITTING_S = 8.0
WARMUP_S = 4.0  # Kafka's Java compiles its hot code meanwhile
KILLS = 3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def run(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    loads = {"to Stable": stable, "heartbeats": heartbeats, "OffsetCommit": commits}
    wanted = {name: load for name, load in loads.items() if bench.wants(name)}
    if wanted:
        with bench.folder() as folder:
            bench.step("starting one server of each")
            with Nodes(folder / DOOR, 1) as ours, Brokers(folder / REAL, 1) as theirs:
                servers: dict[str, Nodes | Brokers] = {DOOR: ours, REAL: theirs}
                for kind, server in servers.items():
                    bench.step(f"first groups on {kind}")
                    asyncio.run(kafka_clients.first_groups(server.addresses))
                for load in wanted.values():
                    rows += load(bench, servers)
    if bench.wants("failover"):
        rows += failover(bench)
    return rows


def processor_s(pids: list[int]) -> float:
    """Processor time that processes have used."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


def in_turns(
    bench: Bench, servers: dict[str, Any], what: str, measure: Callable[[str, int], Any]
) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {kind: [] for kind in servers}
    for number in range(bench.rounds):
        for kind in servers:
            bench.step(f"{what} on {kind}, {number + 1}")
            found[kind].append(measure(kind, number))
    return found


def stable(bench: Bench, servers: dict[str, Nodes | Brokers]) -> list[Row]:
    """Seconds until all members of one group, which beat ten times a second, have their share in one generation."""
    count = bench.size(MEMBERS)

    def measure(kind: str, number: int) -> tuple[float, float]:
        before_s = processor_s(servers[kind].pids())
        load = kafka_clients.seconds_to_stable(servers[kind].addresses[0], f"stable-{number}", count)
        return asyncio.run(load), processor_s(servers[kind].pids()) - before_s

    found = in_turns(bench, servers, f"{count} members", measure)
    rows = {}
    for kind, values in found.items():
        used_s = sum(used_s for _, used_s in values) / len(values)
        times = [took_s for took_s, _ in values]
        details = {"s of processor for the server": used_s}
        rows[kind] = Row(f"{kind}, {count:,} members to Stable", "s", times, details=details)
    ratio = rows[DOOR].value / rows[REAL].value
    rows[DOOR].details[f"x {REAL}"] = ratio
    rows[DOOR].targets = [at_most(f"x {REAL}", ratio, 0.33)]
    return [*rows.values()]


def heartbeats(bench: Bench, servers: dict[str, Nodes | Brokers]) -> list[Row]:
    """Share of one core that the server needs for a member in each of many groups, which beat every 3 s."""
    count = bench.size(GROUPS)
    seconds = 2.0 if bench.is_trial else BEATING_S
    rate = count / BEAT_EVERY_S

    async def load(kind: str) -> tuple[float, float, int]:
        server = servers[kind]
        groups = [f"beating-{number}" for number in range(count)]
        members = await kafka_clients.join_many(server.addresses[0], groups, connections=CONNECTIONS)
        before_s, begun_s = processor_s(server.pids()), time.monotonic()
        good, bad = await kafka_clients.beat_for(members, every_s=BEAT_EVERY_S, seconds=seconds)
        used_s = processor_s(server.pids()) - before_s
        took_s = time.monotonic() - begun_s
        for mine in members:
            if mine:
                mine[0].close()
        if bad:
            raise RuntimeError(f"{bad} heartbeats on {kind} were refused")
        return used_s / good, good / took_s, good

    rows = {}
    for kind in servers:
        bench.step(f"{count} groups on {kind}")
        each_s, per_second, _ = asyncio.run(load(kind))
        rows[kind] = Row(
            f"{kind}, a core's share for {count:,} groups",
            "%",
            [100 * each_s * rate],
            details={"heartbeats, /s": per_second, "us of processor for each": 1e6 * each_s},
        )
    rows[DOOR].targets = [at_most("share", rows[DOOR].value, 10, " %")]
    return [*rows.values()]


def commits(bench: Bench, servers: dict[str, Nodes | Brokers]) -> list[Row]:
    """OffsetCommit of one partition, 1,024 under way over 64 connections, a member of a group on each."""
    seconds = 0.5 if bench.is_trial else COMMITTING_S
    topic = "committed"

    async def load(kind: str, group: str, lasts_s: float) -> tuple[float, float]:
        server = servers[kind]
        address = server.addresses[0]
        opened = await kafka_clients.Connection.open(address)
        names = [{"name": topic}]
        code = 1
        while code:  # the topic is made by the first question, and has a leader later
            answer = await opened.ask("Metadata", 5, topics=names, allow_auto_topic_creation=True)
            code = answer["topics"][0]["error_code"]
            await asyncio.sleep(kafka_clients.PAUSE_S)
        opened.close()
        groups = [f"{group}-{number}" for number in range(CONNECTIONS)]
        members = await kafka_clients.join_many(address, groups, connections=CONNECTIONS)
        before_s = processor_s(server.pids())
        count, took_s = await kafka_clients.commit_for(members, topic, outstanding=OUTSTANDING, seconds=lasts_s)
        used_s = processor_s(server.pids()) - before_s
        for mine in members:
            mine[0].close()
        return count / took_s, used_s / count

    for kind in servers:
        bench.step(f"OffsetCommit on {kind}, warm-up")
        asyncio.run(load(kind, "warm", 0.2 if bench.is_trial else WARMUP_S))
    found = in_turns(
        bench, servers, "OffsetCommit", lambda kind, number: asyncio.run(load(kind, f"commits-{number}", seconds))
    )
    rows = {}
    for kind, values in found.items():
        each_us = 1e6 * sum(used_s for _, used_s in values) / len(values)
        name = f"{kind}, OffsetCommit, {OUTSTANDING:,} outstanding"
        rows[kind] = Row(name, "/s", [rate for rate, _ in values], details={"us of processor for each": each_us})
    ratio = rows[DOOR].value / rows[REAL].value
    rows[DOOR].details[f"x {REAL}"] = ratio
    rows[DOOR].targets = [at_least(f"x {REAL}", ratio, 5)]
    return [*rows.values()]


def failover(bench: Bench) -> list[Row]:
    """kill -9 of a group's coordinator, of three servers: seconds until a member's next heartbeat is accepted.

    With raftmeta the member is connected to the leader of the cluster, which is killed.
    """
    rows = []
    kills = 1 if bench.is_trial else KILLS
    for kind, make in KINDS.items():
        times, rebalances = [], 0
        for number in range(kills):
            bench.step(f"failover on {kind}, {number + 1}")
            with bench.folder() as folder, make(folder / kind, 3) as servers:
                took_s, was_rebalanced = asyncio.run(_killed(servers))
            times.append(took_s)
            rebalances += was_rebalanced
        row = Row(f"{kind}, failover of a coordinator", "s", times, details={"groups rebalanced": rebalances})
        if kind == DOOR:
            row.targets = [at_most("failover", row.value, 0.3, " s"), at_most("groups rebalanced", rebalances, 0)]
        rows.append(row)
    return rows


async def _killed(servers: Nodes | Brokers) -> tuple[float, bool]:
    await kafka_clients.first_groups(servers.addresses)
    address = await kafka_clients.coordinator_of(servers.addresses, "g")
    if isinstance(servers, Nodes):
        address = servers.address_of_leader()
    member = kafka_clients.Member(address, "g")
    await member.open()
    await member.join()
    for _ in range(10):
        if code := await member.beat():
            raise RuntimeError(f"a heartbeat was answered with {code}")
    begun_s = time.monotonic()
    servers.kill_at(address)
    await member.connection.lost  # type: ignore[union-attr]
    left = [one for one in servers.addresses if one != address]
    again_s, was_rebalanced = await kafka_clients.beat_again(left, member)
    member.close()
    return again_s - begun_s, was_rebalanced
