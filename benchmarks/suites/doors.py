"""The door for ZooKeeper's clients beside a real ZooKeeper 3.9.5: three servers each, the same clients on one machine.

Both stand at the same time, and rounds take turns. Throughput is that of ZooKeeper's own Java client in a closed loop
(tests/doors/programs/ZooKeeperLoad.java), which shares the machine with the servers. Targets: issue "Speed" of doors.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load.zookeeper_sessions import open_sessions
from benchmarks.measure import Row, Sample, Target, at_least, at_most, compare_with, interleaved, row_of
from tests.doors.acceptance.kafka import BROKERS, Brokers
from tests.doors.raw import RawSession, look
from tests.doors.servers import NodeServers, Servers, ZooKeeperServers
from tests.doors.software import ZOOKEEPER, compiled, java
from tests.processes.program import run_program
from tests.processes.waiting import wait_until

ORDER = 95
TITLE = "Doors: ZooKeeper's clients on raftmeta and on ZooKeeper 3.9.5, three servers each"
IS_LONG = True
DOOR, LINEARIZABLE, REAL = "raftmeta", "raftmeta, linearizable reads", "ZooKeeper"
CHECKPOINTED = "raftmeta, snapshot_log_bytes 64 MiB"
SESSIONS = 6
KEYS = 1000
VALUE_BYTES = 256
WARMUP_S = 5.0  # the client's Java compiles its hot code meanwhile
LOAD_S = 5.0
LOADED_S = 300.0
OUTSTANDING = (1, 64, 1024)
MANY_SESSIONS = 10_000
WATCHING_SESSIONS, WATCHED_NODES = 20, 5_000
WATCH_ROUNDS = 6  # the last one counts: before it the client's Java compiles its hot code
MANY_NODES = 1_000_000
NODE_BYTES = 100
KAFKA_TOPICS, KAFKA_PARTITIONS = 50, 100
START_S = 300.0


def run(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for part in (loads, watches, sessions, starts, kafka):
        rows += part(bench)
    return rows


def wants(bench: Bench, part: str, row: str) -> bool:
    """-k names a part, as "doors: loads", or rows of it, as "loads: getData, 1024"."""
    return bench.wants(f"{part}: {row}")


def servers_of(kind: str, folder: Path) -> Servers:
    """As a user would run them: ZooKeeper with a heap of 1 GB and a compiler that optimizes."""
    if kind == REAL:
        return ZooKeeperServers(folder / "zookeeper", settings={"tickTime": 2000}, heap="1g", java_options=())
    settings: dict[str, Any] = {"zookeeper_tick_s": 2.0, "zookeeper_connections_max": 2 * MANY_SESSIONS}
    if kind == LINEARIZABLE:
        settings["zookeeper_linearizable_reads"] = True
    if kind == CHECKPOINTED:
        settings["snapshot_log_bytes"] = 64 << 20
    return NodeServers(folder / kind.replace(", ", "-").replace(" ", "-"), settings=settings)


def load(folder: Path, *arguments: object) -> Sample:
    """One run of the Java client."""
    log = folder / "load.log"
    log.unlink(missing_ok=True)
    command = [java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]
    command += [compiled("ZooKeeperLoad", ZOOKEEPER), "ZooKeeperLoad", *map(str, arguments)]
    run_program(command, log=log, timeout_s=LOADED_S)
    return Sample.of(json.loads(log.read_text().splitlines()[-1]))


def together(
    bench: Bench,
    kinds: tuple[str, ...],
    measure: Callable[[Servers, Path], Mapping[str, Callable[[], Sample]]],
    rounds: int,
) -> dict[str, list[Sample]]:
    """Samples of all kinds of servers, which run side by side."""
    with bench.folder() as folder:
        running = [servers_of(kind, folder) for kind in kinds]
        cases: dict[str, Callable[[], Sample]] = {}
        try:
            for kind, servers in zip(kinds, running, strict=True):
                bench.step(f"starting {kind}")
                servers.__enter__()
                cases |= {f"{kind}, {name}": case for name, case in measure(servers, folder).items()}
            return interleaved(cases, rounds=rounds, advance=bench.step)
        finally:
            for servers in running:
                servers.kill_all()


def compared(samples: Mapping[str, list[Sample]], targets: Mapping[str, float], **more: Any) -> list[Row]:
    """A row for each; ours with their ratio to ZooKeeper's. targets: the least ratio, by the end of a row's name."""
    rows = []
    for name, found in samples.items():
        kind = next(kind for kind in (LINEARIZABLE, DOOR, REAL) if name.startswith(kind))
        case = name.removeprefix(f"{kind}, ")
        row = row_of(name, found, parameters={"servers": kind, "case": case}, **more)
        if kind != REAL:
            ratio = compare_with(row, REAL, found, samples[f"{REAL}, {case}"])
            if case in targets:
                row.targets = [at_least(f"x {REAL}", ratio, targets[case])]
        rows.append(row)
    return rows


def loads(bench: Bench) -> list[Row]:
    """setData and getData of 256 bytes, and both by turns in each chain of requests."""
    times = (0.5, 0.5) if bench.is_trial else (WARMUP_S, LOAD_S)

    def measure(servers: Servers, folder: Path) -> dict[str, Callable[[], Sample]]:
        def case(verb: str, outstanding: int) -> Callable[[], Sample]:
            return lambda: load(folder, verb, servers.connect, SESSIONS, outstanding, VALUE_BYTES, KEYS, *times)

        return {name: case(*wanted) for name, wanted in cases.items()}

    verbs = {"setData": "set", "getData": "get", "setData and getData by turns": "mixed"}
    cases = {f"{name}, {n}": (verb, n) for name, verb in verbs.items() for n in OUTSTANDING}
    cases = {name: wanted for name, wanted in cases.items() if wants(bench, "loads", name)}
    if not cases:
        return []
    samples = together(bench, (DOOR, LINEARIZABLE, REAL), measure, bench.rounds)
    rows = compared(samples, {"setData, 1024": 4, "getData, 1024": 3})
    by_name = {row.name: row for row in rows}
    if ours := by_name.get(f"{DOOR}, setData, 1"):
        theirs = by_name[f"{REAL}, setData, 1"]
        ours.targets = [at_most("p50", ours.details["p50_ms"], theirs.details["p50_ms"], " ms")]
    return rows


def watches(bench: Bench) -> list[Row]:
    """Events of one-shot watches that many sessions have on many nodes."""
    if not wants(bench, "watches", "events"):
        return []
    nodes = bench.size(WATCHED_NODES)
    rounds = 1 if bench.is_trial else WATCH_ROUNDS

    def measure(servers: Servers, folder: Path) -> dict[str, Callable[[], Sample]]:
        return {"watches": lambda: load(folder, "watches", servers.connect, WATCHING_SESSIONS, nodes, rounds)}

    samples = together(bench, (DOOR, REAL), measure, bench.rounds)
    return compared(samples, {"watches": 3}, note=f"{WATCHING_SESSIONS} sessions, {nodes} nodes")


def resident_mib(pids: list[int]) -> float:
    """Memory of processes in MiB."""
    total = 0.0
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        total += sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
    return total


def sessions(bench: Bench) -> list[Row]:
    """Memory of the three servers with many sessions, each of which has an ephemeral node."""
    if not wants(bench, "sessions", "memory"):
        return []
    count = bench.size(MANY_SESSIONS)
    rows = {}
    for kind in (REAL, DOOR):
        bench.step(f"{count} sessions of {kind}")
        with bench.folder() as folder, servers_of(kind, folder) as servers:
            before = resident_mib(servers.pids())
            after, seconds = asyncio.run(_memory_with(servers, count))
            name = f"{kind}, memory of {count:,} sessions"
            rows[kind] = Row(name, "MiB", [after], details={"before, MiB": before, "opened in, s": seconds})
    ours, theirs = rows[DOOR], rows[REAL]
    ours.details[f"x {REAL}"] = ours.value / theirs.value
    ours.targets = [at_most(f"x {REAL}", ours.value / theirs.value, 1 / 3)]
    return list(rows.values())


async def _memory_with(servers: Servers, count: int) -> tuple[float, float]:
    begun_s = time.monotonic()
    opened = await open_sessions(servers.addresses, count)
    seconds = time.monotonic() - begun_s
    found = resident_mib(servers.pids())
    for session in opened:
        session.close()
    return found, seconds


def starts(bench: Bench) -> list[Row]:
    """Seconds from the start of a server that was killed to its first answer, with many znodes.

    The nodes were just made, so a node of raftmeta has all of them in its log, and none in a checkpoint. With
    CHECKPOINTED it has taken checkpoints.
    """
    count = bench.size(MANY_NODES)
    rows = {}
    for kind in (REAL, DOOR, CHECKPOINTED):
        if not wants(bench, "starts", kind):
            continue
        bench.step(f"{count} znodes of {kind}")
        with bench.folder() as folder, servers_of(kind, folder) as servers:
            filled = load(folder, "fill", servers.connect, count, NODE_BYTES)
            leader = servers.leader()
            victim = next(number for number in range(len(servers.addresses)) if number != leader)
            times = []
            for _ in range(bench.rounds):
                servers.kill(victim)
                begun_s = time.monotonic()
                servers.begin_restart(victim)
                _first_answer(servers.addresses[victim])
                times.append(time.monotonic() - begun_s)
            details = {"filled, znodes/s": filled.per_second}
            rows[kind] = Row(f"{kind}, start with {count:,} znodes", "s", times, details=details)
            if kind != REAL:
                rows[kind].targets = [at_most("start", rows[kind].value, 1.0, " s")]
    return list(rows.values())


def _first_answer(address: str) -> None:
    def answers() -> bool:
        try:
            with RawSession(address) as session:
                return session.ask("exists", look("/filled"))[0] == 0
        except (OSError, EOFError):
            return False

    wait_until(answers, timeout_s=START_S, what=f"an answer of {address}")


def kafka(bench: Bench) -> list[Row]:
    """Kafka's own times on both: many partitions, and a new controller that must read them all."""
    if not wants(bench, "kafka", "partitions"):
        return []
    topics = bench.size(KAFKA_TOPICS)
    partitions = topics * KAFKA_PARTITIONS
    found: dict[str, dict[str, float]] = {}
    for kind in (REAL, DOOR):
        with bench.folder() as folder, servers_of(kind, folder) as servers:
            brokers = Brokers(folder, servers.connect, heap="1g")
            try:
                found[kind] = _kafka_times(bench, brokers, topics)
            finally:
                brokers.close()
    rows = []
    for kind, times in found.items():
        for what, seconds in times.items():
            targets: list[Target] = []
            if kind == DOOR:
                targets = [at_most(f"x {REAL}", seconds / found[REAL][what], 1.0)]
            rows.append(Row(f"Kafka on {kind}, {what} with {partitions:,} partitions", "s", [seconds], targets=targets))
    return rows


def _kafka_times(bench: Bench, brokers: Brokers, topics: int) -> dict[str, float]:
    for program in brokers.programs:
        program.start()
    brokers.client.start()
    brokers.ask(f"brokers {BROKERS}")
    bench.step(f"{topics} topics in Kafka")
    begun_s = time.monotonic()
    # One request each: one for all of them takes longer than Kafka's client waits for an answer.
    for number in range(topics):
        brokers.ask(f"topic many-{number} {KAFKA_PARTITIONS} 2")
    created_s = time.monotonic() - begun_s
    controller = brokers.controller()
    bench.step("failover of Kafka's controller")
    begun_s = time.monotonic()
    brokers.programs[controller].kill()
    brokers.ask(f"brokers {BROKERS - 1}")
    brokers.ask("led 1")
    return {"creation": created_s, "failover of the controller": time.monotonic() - begun_s}
