"""raftmeta itself as one of the peers, in both of its forms: inside the leader's process, and over raft://."""

from __future__ import annotations

import raftmeta
from benchmarks.compare import MEMBERS, ReadablePeer
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.inside import gets_awaited, puts_awaited
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Sample
from tests.processes.cluster import Cluster

FOUNDING_S = 30.0
NAMES = "abcdefg"[:MEMBERS]


class RaftMeta(ReadablePeer):
    """Three members that serve clients; the load is made by the subclasses."""

    def found(self) -> None:
        self._cluster = Cluster(self.folder, names=NAMES, serves_clients=True)
        self.members = list(self._cluster.nodes.values())
        self._cluster.start()
        self._cluster.wait_ready(timeout_s=FOUNDING_S)
        self.leader = self._cluster.leader()


class Embedded(RaftMeta):
    name = "raftmeta, embedded"
    settings = "default settings, fsync on; asyncio in the leader's process"
    is_embedded = True
    event_loop = "asyncio"

    def puts(self, *, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> Sample:
        told = self.leader.call(
            puts_awaited,
            self.event_loop,
            outstanding,
            value_bytes,
            KEYS,
            seconds,
            warmup_s,
            timeout_s=seconds + warmup_s + FOUNDING_S,
        )
        return Sample.of(told)

    def gets(self, *, outstanding: int, seconds: float, warmup_s: float) -> Sample:
        told = self.leader.call(
            gets_awaited,
            self.event_loop,
            outstanding,
            KEYS,
            seconds,
            warmup_s,
            timeout_s=seconds + warmup_s + FOUNDING_S,
        )
        return Sample.of(told)


class OverRaft(RaftMeta):
    name = "raftmeta, raft://"
    settings = "default settings, fsync on; uvloop client of its own process, one connection"

    def puts(self, *, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> Sample:
        keys, values = keys_of(), values_of(value_bytes)

        async def main() -> Sample:
            async with raftmeta.aio.Client(self._cluster.url) as client:
                put = client.put
                return Sample.of(
                    await closed_loop(
                        lambda number: put(keys[number % KEYS], values[number % len(values)]),
                        outstanding=outstanding,
                        seconds=seconds,
                        warmup_s=warmup_s,
                    )
                )

        found: Sample = run_in("uvloop", main())
        return found

    def gets(self, *, outstanding: int, seconds: float, warmup_s: float) -> Sample:
        keys = keys_of()

        async def main() -> Sample:
            async with raftmeta.aio.Client(self._cluster.url) as client:
                get = client.get
                return Sample.of(
                    await closed_loop(
                        lambda number: get(keys[number % KEYS]),
                        outstanding=outstanding,
                        seconds=seconds,
                        warmup_s=warmup_s,
                    )
                )

        found: Sample = run_in("uvloop", main())
        return found
