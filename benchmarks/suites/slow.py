"""Puts of a client beside 2,000 other clients that say a byte a second each, without TLS and with it.

Target: issue 19 item 6: they change no figure by 10 %. In each round the load runs first alone and then beside them.
The slow ones are connected anew for that, and have a process of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.load.slow import close_slow, crowd_process, open_slow, puts_of_client
from benchmarks.measure import Row, Sample, at_least, compare_with, interleaved, row_of
from tests.processes.remote import RemoteProcess
from tests.security.processes import SecureCluster

ORDER = 96
TITLE = "Puts of a client beside 2,000 slow connections, 256 bytes, three processes"
SLOW = 2000
OUTSTANDING = (1, 256)
LEAST_SHARE = 0.9  # of the same load alone
ANSWER_S = 180.0
KINDS = ("plain", "tls")


def run(bench: Bench) -> list[Row]:
    rows = []
    for kind in KINDS:
        wanted = [one for one in OUTSTANDING if bench.wants(f"{kind}, {one}, alone")]
        if not wanted:
            continue
        with ExitStack() as stack:
            folder = stack.enter_context(bench.folder())
            cluster = stack.enter_context(SecureCluster(folder, is_plain=kind == "plain"))
            slow, busy = (crowd_process(folder / f"{name}.log") for name in ("slow", "busy"))
            for process in (slow, busy):
                stack.callback(process.kill)
                process.start()
            for outstanding in wanted:
                rows += with_outstanding(bench, cluster, kind, outstanding, slow, busy)
    return rows


def with_outstanding(
    bench: Bench, cluster: SecureCluster, kind: str, outstanding: int, slow: RemoteProcess, busy: RemoteProcess
) -> list[Row]:
    address = cluster.clients[cluster.leader().name]
    papers = {} if kind == "plain" else cluster.papers(cluster.authority.client("busy"))
    count = bench.size(SLOW)

    def alone() -> Sample:
        arguments = (f"raft://{address}", papers, outstanding, bench.seconds, bench.warmup_s)
        return Sample.of(busy.call(puts_of_client, *arguments, timeout_s=ANSWER_S))

    def beside() -> Sample:
        slow.call(open_slow, address, count, papers, timeout_s=ANSWER_S)
        try:
            return alone()
        finally:
            slow.call(close_slow, timeout_s=ANSWER_S)

    names: dict[str, Callable[[], Sample]] = {
        f"{kind}, {outstanding}, alone": alone,
        f"{kind}, {outstanding}, beside {SLOW:,}": beside,
    }
    samples = interleaved(names, rounds=bench.rounds, advance=bench.step)
    rows = [
        row_of(name, found, parameters={"kind": kind, "outstanding": outstanding}) for name, found in samples.items()
    ]
    quiet, busier = samples.values()
    share = compare_with(rows[1], "alone", busier, quiet)
    rows[1].targets = [at_least("share of alone", share, LEAST_SHARE)]
    return rows
