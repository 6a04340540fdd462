"""What loads do inside the process of a node, as functions that tests.processes calls there by name.

Each takes the node first and returns a Sample as a dict. All use the public interface but `puts_native`, which needs
the doors that the faces of a node use themselves.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import raftmeta
from benchmarks.load.closed import closed_loop, closed_threads, run_in
from benchmarks.load.values import keys_of, values_of
from benchmarks.measure import Sample
from benchmarks.native import extension
from raftmeta.faults import LinkFault, set_link_faults
from raftmeta.operations import Put
from tests.processes.child import hold_gil

KEYS_PER_WRITE = 2500
CATCH_UP_S = 120.0
PAUSE = threading.Event()  # nobody sets it
OFFERED_MAX = 8192
ITEMS_PER_LIST = 2000  # of one put_many
NATIVE_KEYS_MAX = 100_000  # more would be made in Python for longer than the load runs

# --- writes -----------------------------------------------------------------------------------------------------------


def puts_awaited(
    node: raftmeta.Node, event_loop: str, outstanding: int, value_bytes: int, keys: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """`await put` on one event loop."""
    names, values = keys_of(keys), values_of(value_bytes)

    async def main() -> dict[str, Any]:
        put = node.aio().put
        return await closed_loop(
            lambda number: put(names[number % keys], values[number % len(values)]),
            outstanding=outstanding,
            seconds=seconds,
            warmup_s=warmup_s,
        )

    return dict(run_in(event_loop, main()))


def puts_by_threads(
    node: raftmeta.Node, threads: int, value_bytes: int, keys: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """Blocking `put` on so many threads."""
    names, values = keys_of(keys), values_of(value_bytes)
    return closed_threads(
        lambda number: node.put(names[number % keys], values[number % len(values)]),
        threads=threads,
        seconds=seconds,
        warmup_s=warmup_s,
    )


def puts_many(
    node: raftmeta.Node, lists: int, value_bytes: int, keys: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """`await put_many` of ITEMS_PER_LIST pairs, so many lists under way; count is that of pairs, times are of lists."""
    names, values = keys_of(keys), values_of(value_bytes)
    pairs = [(names[n], values[n % len(values)]) for n in range(keys)]
    parts = [pairs[at : at + ITEMS_PER_LIST] for at in range(0, keys, ITEMS_PER_LIST)]

    async def main() -> dict[str, Any]:
        put_many = node.aio().put_many
        return await closed_loop(
            lambda number: put_many(parts[number % len(parts)]), outstanding=lists, seconds=seconds, warmup_s=warmup_s
        )

    found = dict(run_in("asyncio", main()))
    return found | {"count": found["count"] * ITEMS_PER_LIST}


def puts_native(
    node: raftmeta.Node, outstanding: int, value_bytes: int, keys: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """The engine without Python: load/native_load.pyx."""
    names, values = keys_of(min(keys, NATIVE_KEYS_MAX)), values_of(value_bytes)
    return dict(extension("load/native_load.pyx").run(node, names, values, outstanding, seconds, warmup_s))


def fill(node: raftmeta.Node, first: int, end: int, value_bytes: int) -> None:
    """The keys of [first, end), in transactions."""
    values = values_of(value_bytes)
    for at in range(first, end, KEYS_PER_WRITE):
        puts = [
            Put(f"key-{number:08}", values[number % len(values)]) for number in range(at, min(at + KEYS_PER_WRITE, end))
        ]
        node.txn(then=puts, timeout_s=60)


def fill_one_by_one(node: raftmeta.Node, count: int, value_bytes: int) -> None:
    """So many entries of one put each, to few keys."""
    values = values_of(value_bytes)

    async def main() -> None:
        put = node.aio().put
        for at in range(0, count, 1000):
            await asyncio.gather(*(put(f"key-{n % 1000:08}", values[n % len(values)]) for n in range(at, at + 1000)))

    run_in("asyncio", main())


def overwrite(node: raftmeta.Node, keys: int, step: int, value_bytes: int) -> int:
    """One key in `step`, scattered over all, each by a put of its own; how many."""
    values = values_of(value_bytes)

    async def main() -> int:
        put = node.aio().put
        places = list(range(0, keys, step))
        for at in range(0, len(places), 1000):
            await asyncio.gather(
                *(put(f"key-{place:08}", values[(place + 1) % len(values)]) for place in places[at : at + 1000])
            )
        return len(places)

    return int(run_in("asyncio", main()))


def offer_puts(node: raftmeta.Node, per_second: int, value_bytes: int, most_s: float) -> dict[str, Any]:
    """Puts at a given rate, whether or not those before are answered, until end_offer(), by the native generator.

    A Sample and `late`: how many at most were due while OFFERED_MAX were under way; 0 when all were served.
    """
    native_load = extension("load/native_load.pyx")
    return dict(native_load.run(node, keys_of(), values_of(value_bytes), OFFERED_MAX, most_s, 0.0, per_second))


def end_offer(_node: raftmeta.Node) -> None:
    extension("load/native_load.pyx").stop()


# --- reads ------------------------------------------------------------------------------------------------------------


def gets_awaited(
    node: raftmeta.Node, event_loop: str, outstanding: int, keys: int, seconds: float, warmup_s: float
) -> dict[str, Any]:
    """Linearizable `await get` on one event loop."""
    names = keys_of(keys)

    async def main() -> dict[str, Any]:
        get = node.aio().get
        return await closed_loop(
            lambda number: get(names[number % keys]), outstanding=outstanding, seconds=seconds, warmup_s=warmup_s
        )

    return dict(run_in(event_loop, main()))


def gets_local(node: raftmeta.Node, keys: int, count: int) -> dict[str, Any]:
    """`get(local=True)` one by one on one thread."""
    names = [f"key-{number * 7919 % keys:08}" for number in range(count)]
    get = node.get
    began_s = time.perf_counter()
    for name in names:
        get(name, local=True)
    return asdict(Sample(count, time.perf_counter() - began_s))


def ranges_local(node: raftmeta.Node, keys: int, batch: int, count: int) -> dict[str, Any]:
    """Keys read by `range(local=True)`, so many in each call."""
    starts = [f"key-{number * 7919 % (keys - batch):08}" for number in range(count // batch)]
    began_s = time.perf_counter()
    found = sum(len(node.range(start, limit=batch, local=True).records) for start in starts)
    return asdict(Sample(found, time.perf_counter() - began_s))


# --- the process ------------------------------------------------------------------------------------------------------


def compile_native(_node: object) -> None:
    extension("load/native_load.pyx")


def memory_mb(_node: object) -> dict[str, float]:
    """Anonymous and whole resident memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "VmRSS:"))}
    return {"anonymous": kib["RssAnon"] / 1024, "resident": kib["VmRSS"] / 1024}


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def applied(node: raftmeta.Node) -> int:
    """The index up to which this member has applied."""
    return node.status().applied


def cut_off(node: raftmeta.Node, peers: list[str]) -> None:
    """A silent partition from these peers, and from no others: no frame passes, and no connection breaks."""
    set_link_faults(node, {name: LinkFault(cut_to=True, cut_from=True) for name in peers})


def catch_up(node: raftmeta.Node, wanted: int) -> float:
    """End a partition; entries a second from the first that arrives until that of index `wanted` is applied."""
    before = had = node.status().applied
    set_link_faults(node, {})
    began_s = time.perf_counter()
    until_s = began_s + CATCH_UP_S
    while (now := node.status().applied) < wanted:
        if time.perf_counter() > until_s:
            raise TimeoutError(f"applied {now} of {wanted} within {CATCH_UP_S} s")
        if had == before and now > before:
            had, began_s = now, time.perf_counter()
        PAUSE.wait(0.001)
    return (wanted - had) / (time.perf_counter() - began_s)


def hold_gil_often(node: raftmeta.Node, held_s: float, free_s: float, seconds: float) -> None:
    """Hold the GIL for held_s out of every held_s + free_s, without using the processor."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        hold_gil(node, held_s)
        PAUSE.wait(free_s)


def processor_s(_node: object) -> float:
    """Processor time of this process, all threads."""
    return time.process_time()


# --- the lead of a service --------------------------------------------------------------------------------------------


class Standing:
    """This process's part in an election: its handle, which stays open, and when it was elected last."""

    def __init__(self, election: Any) -> None:
        self.election = election
        self.elected_s = 0.0

    def elected(self, _held: Any) -> None:
        self.elected_s = time.monotonic()


STANDING: dict[str, Standing] = {}


def stand(node: raftmeta.Node, service: str) -> None:
    """Become a candidate, until the process ends."""
    standing = STANDING[service] = Standing(node.election(service))
    standing.election.nominate(node.name, on_elected=standing.elected, timeout_s=CATCH_UP_S)


def elected_s(_node: raftmeta.Node, service: str) -> float:
    """time.monotonic(), which all processes share, at which this process was told that it leads; 0: never."""
    return STANDING[service].elected_s


def leads(node: raftmeta.Node, service: str) -> bool:
    """Whether this process leads."""
    return STANDING[service].election.lead(node.name) is not None
