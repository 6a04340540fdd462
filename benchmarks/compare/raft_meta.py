"""raftmeta itself as one of the peers, in both of its forms: inside the leader's process, and over raft://."""

from __future__ import annotations

import raftmeta
from benchmarks.compare import MEMBERS, ReadablePeer
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.inside import gets_awaited, puts_awaited
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Sample
from tests.processes.cluster import ready
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports

FOUNDING_S = 30.0
NAMES = "abcdefg"[:MEMBERS]


def open_serving(name: str, peers: dict[str, str], clients: str, folder: str) -> raftmeta.Node:
    return raftmeta.Node(name, peers=peers, data_dir=folder, client_listen=clients).start()


def leads(node: raftmeta.Node) -> bool:
    return node.status().role == "leader"


class RaftMeta(ReadablePeer):
    """Three members that serve clients; the load is made by the subclasses."""

    def found(self) -> None:
        ports = free_ports(2 * MEMBERS)
        peers = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports[:MEMBERS], strict=True)}
        self.addresses = [f"127.0.0.1:{port}" for port in ports[MEMBERS:]]
        self.members = [
            RemoteProcess(open_serving, name, peers, address, str(self.folder / name), log=self.folder / f"{name}.log")
            for name, address in zip(NAMES, self.addresses, strict=True)
        ]
        for member in self.members:
            member.start()
        for member in self.members:
            member.call(ready, FOUNDING_S, timeout_s=FOUNDING_S + 5)
        self.leader = self.wait_for_leader(leads)


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
            async with raftmeta.aio.Client(f"raft://{','.join(self.addresses)}") as client:
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
            async with raftmeta.aio.Client(f"raft://{','.join(self.addresses)}") as client:
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
