"""Puts beside a scan of the same cluster by Spark, and beside processes that use the processors as much.

Target: a scan takes at most 10 % of the puts, beside the processor time that it uses. By turns, puts of a cluster of
three run beside scans, beside burners that get as much processor time as those scans and the threads that served them
had, and do nothing with it (at the same moments, and spread evenly), and alone. Bursts take more of the puts than the
same time spread out does, whoever has them; so the first is the comparison.

With 1024 puts under way the processors are the bound: that is what the cluster can write. With 64 each put waits until
four processes have woken one after the other, which tells how late they are, more than what the scan costs them.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from typing import Any

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.partitions import fill_partitions
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, Sample, at_most, compare_with, row_of
from benchmarks.processors import Steps, burning, evenly, process_s, processor_s, recording, thread_s
from tests.client.nodes import ServingCluster

ORDER = 95
TITLE = "Puts on asyncio, leader, beside a scan by Spark on local[2]"
UNDER_WAY = (1024, 64)
SCANNED = 300_000
KEYS_PER_WRITE = 1000
VALUE_BYTES = 256
ROUNDS_TIMES = 4  # one scan's moments are not the next one's: three rounds would say nothing
WARMING_SCANS = 5  # the JVM compiles for some five of them
CLIENTS_THREAD = "raftmeta-client"
PATIENCE_S = 120.0
SETTINGS: dict[str, Any] = {"history_bytes_max": 1 << 28, "wal_bytes_max": 4 << 30}

SCAN, BURNER, EVEN_BURNER, ALONE = "beside a scan", "beside a burner", "beside an even burner", "alone"


def run(bench: Bench) -> list[Row]:
    wanted = [count for count in UNDER_WAY if any(bench.wants(name_of(kind, count)) for kind in (SCAN, BURNER))]
    if not wanted:
        return []
    from raftmeta.spark import read, spark_session  # a machine without Spark lacks this suite alone

    with bench.folder() as folder, ServingCluster(folder, **SETTINGS) as cluster:
        cluster.wait_ready()
        with raftmeta.Client(cluster.url) as client:
            client.ready(PATIENCE_S)
            fill_partitions(client, bench.size(SCANNED), KEYS_PER_WRITE)
        bench.step("Spark starts")
        with spark_session("local[2]") as spark:

            def scan() -> None:
                read(spark, url=cluster.url).write.format("noop").mode("overwrite").save()

            for _ in range(1 if bench.is_trial else WARMING_SCANS):
                scan()
            turns = {count: Turns(bench, cluster, scan, count) for count in wanted}
            for _ in range(bench.rounds * (1 if bench.is_trial else ROUNDS_TIMES)):
                for one in turns.values():
                    one.take()
    return [row for count in wanted for row in turns[count].rows()]


def name_of(kind: str, under_way: int) -> str:
    return f"{kind}, {under_way} under way"


class Turns:
    """Rounds of puts with so many under way: beside scans, beside burners that use as much, and alone."""

    def __init__(self, bench: Bench, cluster: ServingCluster, scan: Callable[[], None], under_way: int) -> None:
        self._bench = bench
        self._scan = scan
        self._under_way = under_way
        self._leader = cluster.leader()
        self._pids = {one.pid for one in cluster.nodes.values()}
        self._samples: dict[str, list[Sample]] = {kind: [] for kind in (SCAN, BURNER, EVEN_BURNER, ALONE)}
        self._used: dict[str, list[float]] = {kind: [] for kind in self._samples}  # processors, by others
        self._us_per_put: dict[str, list[float]] = {kind: [] for kind in self._samples}  # of the nodes' own threads

    def take(self) -> None:
        """One round."""
        steps = self._beside_scans()
        for kind, profile in ((BURNER, steps), (EVEN_BURNER, evenly(steps))):
            with burning(profile) as burnt:
                self._puts(kind)
            self._used[kind].append(burnt.processor_s / steps[-1][0])
        self._puts(ALONE)

    def _beside_scans(self) -> Steps:
        """Puts beside one scan after the other, and when those used how much of the processors."""
        is_over = threading.Event()

        def scan_on() -> None:
            while not is_over.is_set():
                self._scan()

        scanner = threading.Thread(target=scan_on)
        try:
            with recording(lambda: processor_s(without=self._pids) + self._serving_s()) as steps:
                scanner.start()
                self._puts(SCAN)
        finally:
            is_over.set()
            scanner.join()
        self._used[SCAN].append(steps[-1][1] / steps[-1][0])
        return steps

    def _serving_s(self) -> float:
        """Processor time of the threads that serve clients: they work for the scan only."""
        return sum(thread_s(pid, CLIENTS_THREAD) for pid in self._pids)

    def _nodes_s(self) -> float:
        return sum(map(process_s, self._pids)) - self._serving_s()

    def _puts(self, kind: str) -> None:
        """One run of the load, whose rate and cost are kept."""
        self._bench.step(name_of(kind, self._under_way))
        seconds, warmup_s = self._bench.seconds, self._bench.warmup_s
        begun_s = self._nodes_s()
        arguments = ("asyncio", self._under_way, VALUE_BYTES, KEYS, seconds, warmup_s)
        found = Sample.of(self._leader.call(inside.puts_awaited, *arguments, timeout_s=PATIENCE_S))
        spent_s = self._nodes_s() - begun_s
        self._samples[kind].append(found)
        self._us_per_put[kind].append(1e6 * spent_s / (found.per_second * (seconds + warmup_s)))

    def rows(self) -> list[Row]:
        found = {}
        for kind, samples in self._samples.items():
            row = found[kind] = row_of(
                name_of(kind, self._under_way), samples, parameters={"outstanding": self._under_way}
            )
            row.details["nodes' us a put"] = statistics.median(self._us_per_put[kind])
            if self._used[kind]:
                row.details["processors"] = statistics.median(self._used[kind])
        row = found[SCAN]
        for kind in (BURNER, EVEN_BURNER):
            compare_with(row, kind, self._samples[SCAN], self._samples[kind])
        row.targets = [at_most(f"less than {BURNER}", 1.0 - row.details[f"x {BURNER}"], 0.1)]
        return list(found.values())
