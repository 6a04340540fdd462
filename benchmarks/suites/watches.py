"""Watches in the process: a thousand of one key, and a hundred thousand of other keys.

An event counts when its consumer has taken it. Targets: issue "Speed" 4.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time
from dataclasses import asdict
from typing import Any

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Row, Sample, Target, at_least, at_most, compare_with, interleaved, row_of
from benchmarks.suites.puts import load
from tests.processes.cluster import Cluster

ORDER = 50
TITLE = "Watches in the process of a follower"
WATCHERS = (1, 10, 100, 1000)
MANY_KEYS = 100_000
WRITES = 1000
WRITES_ONE_BY_ONE = 100
FLAT_OUT = 64  # puts of the one writer under way
ELSEWHERE_OUTSTANDING = 1024
STAMP = struct.Struct("d")
DELIVERY_S = 60.0
TIMED_ONE_IN = 16  # events of each watcher whose delay is looked at
WATCH_AT_ONCE = 1000


# --- in the process of the node --------------------------------------------------------------------------------------


def watched_by_iterators(
    node: raftmeta.Node, watchers: int, writes: int, under_way: int, event_loop: str
) -> dict[str, Any]:
    """Async iterators on one event loop, which also writes: time until the last has taken the last event."""
    delays_s: list[float] = []

    async def consume(watch: raftmeta.aio.Watch) -> None:
        taken = 0
        async with watch:
            async for event in watch:
                taken += 1
                if taken % TIMED_ONE_IN == 1:
                    assert isinstance(event, raftmeta.WatchEvent)
                    delays_s.append(time.perf_counter() - STAMP.unpack_from(event.value)[0])
                if taken == writes:
                    return

    async def main() -> dict[str, Any]:
        face = node.aio()
        consumers = [asyncio.ensure_future(consume(face.watch("watched"))) for _ in range(watchers)]
        while node.metrics()["watches"] < watchers:
            await asyncio.sleep(0.01)
        began_s = time.perf_counter()
        await write_stamped(face, writes, under_way)
        async with asyncio.timeout(DELIVERY_S):
            await asyncio.gather(*consumers)
        found = Sample.of_latencies(time.perf_counter() - began_s, delays_s, count=watchers * writes)
        while node.metrics()["watches"]:
            await asyncio.sleep(0.01)
        return asdict(found)

    return dict(run_in(event_loop, main()))


def watched_by_callbacks(node: raftmeta.Node, watchers: int, writes: int, under_way: int) -> dict[str, Any]:
    """Callbacks, each with batches on a thread of its own."""
    delays_s: list[float] = []
    left = threading.Semaphore(0)

    def callback_of() -> Any:
        taken = 0

        def take(batch: Any) -> None:
            nonlocal taken
            taken += len(batch.events)
            delays_s.append(time.perf_counter() - STAMP.unpack_from(batch.events[-1].value)[0])
            if taken >= writes:
                left.release()

        return take

    with contextlib.ExitStack() as watches:
        for _ in range(watchers):
            watches.enter_context(node.watch("watched", callback=callback_of()))
        while node.metrics()["watches"] < watchers:
            threading.Event().wait(0.01)

        async def main() -> float:
            began_s = time.perf_counter()
            await write_stamped(node.aio(), writes, under_way)
            return began_s

        began_s = run_in("asyncio", main())
        for _ in range(watchers):
            if not left.acquire(timeout=DELIVERY_S):
                raise TimeoutError(f"not every watcher had {writes} events within {DELIVERY_S} s")
        return asdict(Sample.of_latencies(time.perf_counter() - began_s, delays_s, count=watchers * writes))


async def write_stamped(face: raftmeta.aio.Node, writes: int, under_way: int) -> None:
    """Values begin with the time at which they were put."""
    random_parts = values_of(56)

    async def write(first: int) -> None:
        for number in range(first, writes, under_way):
            await face.put("watched", STAMP.pack(time.perf_counter()) + random_parts[number % len(random_parts)])

    await asyncio.gather(*(write(first) for first in range(under_way)))


def puts_beside_watches(node: raftmeta.Node, watchers: int, seconds: float, warmup_s: float) -> dict[str, Any]:
    """Puts of this node while so many watches of other keys, one key each, are open here.

    Each has a consumer that waits already when the puts begin: what it costs to begin a hundred thousand tasks (a
    quarter of a second, and twice that for the garbage collector to look at all of them) is not the commit path's.
    """
    names, values = keys_of(), values_of(256)

    async def main() -> dict[str, Any]:
        face = node.aio()
        async with contextlib.AsyncExitStack() as watches:
            opened = [face.watch(f"elsewhere-{number:06}") for number in range(watchers)]
            for first in range(0, watchers, WATCH_AT_ONCE):
                await asyncio.gather(
                    *(watches.enter_async_context(watch) for watch in opened[first : first + WATCH_AT_ONCE])
                )
            waiting = [asyncio.ensure_future(anext(watch.batches())) for watch in opened]
            while node.metrics()["watches"] < watchers:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0)  # until all of them wait: each is resumed once, in order
            found = await closed_loop(
                lambda number: face.put(names[number % KEYS], values[number % len(values)]),
                outstanding=ELSEWHERE_OUTSTANDING,
                seconds=seconds,
                warmup_s=warmup_s,
            )
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return found

    return dict(run_in("asyncio", main()))


# --- here ------------------------------------------------------------------------------------------------------------


def run(bench: Bench) -> list[Row]:
    with bench.folder() as folder, Cluster(folder) as cluster:
        node = cluster.followers()[0]
        chosen = {}
        count = bench.size(WRITES)
        for watchers in WATCHERS:
            for event_loop in ("asyncio", "uvloop"):
                arguments = (watchers, count, FLAT_OUT, event_loop)
                chosen[f"iterators, {event_loop}, flat out, {watchers}"] = load(node, watched_by_iterators, *arguments)
            chosen[f"callbacks, flat out, {watchers}"] = load(node, watched_by_callbacks, watchers, count, FLAT_OUT)
        many, few = WATCHERS[-1], bench.size(WRITES_ONE_BY_ONE)
        chosen[f"iterators, asyncio, one by one, {many}"] = load(node, watched_by_iterators, many, few, 1, "asyncio")
        chosen[f"callbacks, one by one, {many}"] = load(node, watched_by_callbacks, many, few, 1)
        samples = interleaved(
            {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
        )
        rows = [
            row_of(name, found, parameters={"watchers": int(name.rsplit(", ", 1)[1])})
            for name, found in samples.items()
        ]
        for row in rows:
            row.unit = " events/s"
            row.targets = targets_of(row)
        return rows + elsewhere(bench, cluster)


def targets_of(row: Row) -> list[Target]:
    """The rate is asked for where the writer does not wait, the delay where it does."""
    if row.parameters["watchers"] != WATCHERS[-1] or "uvloop" in row.name:
        return []
    if "one by one" in row.name:
        return [at_most("p99", row.details["p99_ms"], 5.0, " ms")]
    return [at_least("rate", row.value, 1.5e6 if row.name.startswith("callbacks") else 4e5, " events/s")]


def elsewhere(bench: Bench, cluster: Cluster) -> list[Row]:
    """On the leader, whose thread applies what all commit."""
    leader = cluster.leader()
    watchers = bench.size(MANY_KEYS)
    without, beside = "puts, no watches", f"puts, {MANY_KEYS} watches of other keys"
    if not bench.wants(beside):
        return []
    times = (bench.seconds, bench.warmup_s)
    chosen = {
        without: load(leader, inside.puts_awaited, "asyncio", ELSEWHERE_OUTSTANDING, 256, KEYS, *times),
        beside: load(leader, puts_beside_watches, watchers, *times),
    }
    samples = interleaved(chosen, rounds=bench.rounds, advance=bench.step)
    row = row_of(beside, samples[beside], parameters={"watchers_elsewhere": watchers})
    row.targets = [at_least("x without", compare_with(row, "without", samples[beside], samples[without]), 0.9)]
    return [row_of(without, samples[without], parameters={"watchers_elsewhere": 0}), row]
