"""Closed loops: so many operations under way at any time, each followed by the next as soon as it is answered.

It decides when operations count (between the end of the warm-up and the end) and which are timed (one in
TIMED_ONE_IN where many are under way: reading a clock twice for each would itself cost a tenth of the throughput). It
never knows what an operation does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from benchmarks.measure import Sample

TIMED_ONE_IN = 16
ANSWER_TIMEOUT_S = 15.0  # of the last operations, when the load is over
MANY = 16  # outstanding operations from which on only some are timed

Operation = Callable[[int], Awaitable[object]]  # the number of the operation, from 0 on


def event_loop_of(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """asyncio or uvloop."""
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


def run_in(kind: str, main: Any) -> Any:
    """Run a coroutine to its end on an event loop of that kind."""
    with asyncio.Runner(loop_factory=event_loop_of(kind)) as runner:
        return runner.run(main)


async def closed_loop(operation: Operation, *, outstanding: int, seconds: float, warmup_s: float) -> dict[str, Any]:
    """Run it on the event loop; a Sample as a dict."""
    loop = asyncio.get_running_loop()
    counts = [0] * outstanding
    latencies_s: list[float] = []
    is_over = False
    timed_one_in = TIMED_ONE_IN if outstanding >= MANY else 1

    async def work(worker: int) -> None:
        number = worker
        until_timed = 1 + worker % timed_one_in
        clock = time.perf_counter
        while not is_over:
            until_timed -= 1
            if until_timed:
                await operation(number)
            else:
                until_timed = timed_one_in
                began_s = clock()
                await operation(number)
                latencies_s.append(clock() - began_s)
            counts[worker] += 1
            number += outstanding

    workers = [loop.create_task(work(worker)) for worker in range(outstanding)]
    await asyncio.wait(workers, timeout=warmup_s, return_when=asyncio.FIRST_EXCEPTION)
    began_s, began_count = time.perf_counter(), sum(counts)
    latencies_s.clear()
    await asyncio.wait(workers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    elapsed_s, count = time.perf_counter() - began_s, sum(counts) - began_count
    found = Sample.of_latencies(elapsed_s, latencies_s, count=count)
    is_over = True
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        await asyncio.gather(*workers)
    return asdict(found)


def closed_threads(
    operation: Callable[[int], object], *, threads: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """The same with one thread for each operation under way; a Sample as a dict."""
    counts = [0] * threads
    latencies_s: list[list[float]] = [[] for _ in range(threads)]
    is_over = threading.Event()
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        number = worker
        mine = latencies_s[worker]
        try:
            while not is_over.is_set():
                began_s = time.perf_counter()
                operation(number)
                mine.append(time.perf_counter() - began_s)
                counts[worker] += 1
                number += threads
        except BaseException as error:
            failures.append(error)
            is_over.set()

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(threads)]
    for worker in workers:
        worker.start()
    is_over.wait(warmup_s)
    began_s, began = time.perf_counter(), list(counts)
    is_over.wait(seconds)
    elapsed_s, ended = time.perf_counter() - began_s, list(counts)
    is_over.set()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    timed = [one for mine, low, high in zip(latencies_s, began, ended, strict=True) for one in mine[low:high]]
    return asdict(Sample.of_latencies(elapsed_s, timed, count=sum(ended) - sum(began)))
