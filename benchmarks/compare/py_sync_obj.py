"""PySyncObj: the peer that Python programs embed. It has a journal, and never syncs it.

It is shown at its best, which takes one change of its code: it compresses each message by zlib, which costs random
values most of the time and gains them nothing. There is no setting for that, so the members replace the two functions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated, tcp_connection

from benchmarks.compare import MEMBERS, Peer
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Sample
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports

FOUNDING_S = 30.0
TICK_S = 0.001
MANY = 1 << 20


class Store(SyncObj):  # type: ignore[misc]
    """A dictionary of its own, ticked by one thread, which also makes the load: the fastest that it can be used."""

    def __init__(self, address: str, partners: list[str], journal: str) -> None:
        self.data: dict[bytes, bytes] = {}
        super().__init__(
            address,
            partners,
            SyncObjConf(
                autoTick=False,
                appendEntriesPeriod=TICK_S,
                appendEntriesBatchSizeBytes=MANY,
                sendBufferSize=MANY,
                recvBufferSize=MANY,
                commandsQueueSize=MANY,
                logCompactionMinEntries=1 << 40,
                logCompactionMinTime=1 << 40,
                journalFile=journal,
            ),
        )
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        threading.Thread(target=self._run, daemon=True).start()

    @replicated  # type: ignore[untyped-decorator]
    def put(self, key: bytes, value: bytes) -> None:
        self.data[key] = value

    def _run(self) -> None:
        while True:
            self.doTick(TICK_S)
            if self._jobs:
                job, future = self._jobs.popleft()
                try:
                    future.set_result(job())
                except Exception as error:
                    future.set_exception(error)

    def on_its_thread(self, job: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._jobs.append((job, future))
        return future.result()


class PlainBytes:
    """What PySyncObj's transport uses of zlib, without compressing; all members alike."""

    @staticmethod
    def compress(data: bytes, _level: int) -> bytes:
        return data

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return data


def make(address: str, partners: list[str], journal: str) -> Store:
    tcp_connection.zlib = PlainBytes
    return Store(address, partners, journal)


def leads(store: Store) -> bool:
    return bool(store.isReady() and store._isLeader())


def load(store: Store, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> dict[str, Any]:
    return dict(store.on_its_thread(lambda: _closed_loop(store, outstanding, value_bytes, seconds, warmup_s)))


def _closed_loop(store: Store, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> dict[str, Any]:
    """benchmarks.load.closed for callbacks."""
    keys, values = keys_of(), values_of(value_bytes)
    answers: list[tuple[float, float]] = []  # (when, how long)
    number = under_way = refused = 0
    is_over = False

    def send() -> None:
        nonlocal number, under_way
        number += 1
        under_way += 1
        store.put(keys[number % KEYS], values[number % len(values)], callback=partial(answered, time.perf_counter()))

    def answered(began_s: float, _result: object, failure: object) -> None:
        nonlocal under_way, refused
        under_way -= 1
        if failure == FAIL_REASON.DISCARDED and refused < outstanding:
            refused += 1  # seen in one run of many; it does not count, and another put takes its place
        elif failure:
            raise RuntimeError(f"PySyncObj refused {refused + 1} puts, the last with failure code {failure}")
        else:
            now_s = time.perf_counter()
            answers.append((now_s, now_s - began_s))
        if not is_over:
            send()

    from_s = time.perf_counter() + warmup_s
    until_s = from_s + seconds
    for _ in range(outstanding):
        send()
    while time.perf_counter() < until_s:
        store.doTick(TICK_S)
    is_over = True
    counted = [took_s for when_s, took_s in answers if from_s <= when_s < until_s]
    while under_way:
        store.doTick(TICK_S)
    return asdict(Sample.of_latencies(seconds, counted))


class PySyncObj(Peer):
    name = "PySyncObj " + version("pysyncobj")
    settings = (
        "with journal, which it never syncs: not durable; ticked by the loading thread, entries every 1 ms; "
        "compression of messages, for which it has no setting, taken out"
    )
    is_embedded = True

    def found(self) -> None:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(MEMBERS)]
        self.members = [
            RemoteProcess(
                make,
                address,
                [other for other in addresses if other != address],
                str(self.folder / f"m{number}.journal"),
                log=self.folder / f"m{number}.log",
            )
            for number, address in enumerate(addresses)
        ]
        for member in self.members:
            member.start()
        self._leader = self.wait_for_leader(leads)

    def puts(self, *, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> Sample:
        told = self._leader.call(
            load, outstanding, value_bytes, seconds, warmup_s, timeout_s=seconds + warmup_s + FOUNDING_S
        )
        return Sample.of(told)
