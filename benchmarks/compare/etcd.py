"""etcd, as its documentation starts three members, with a pipelined gRPC client on connections to the leader."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

from benchmarks.compare import MEMBERS, ReadablePeer
from benchmarks.compare.grpc_pipe import GrpcPipe
from benchmarks.compare.provision import ETCD, etcd
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Sample
from tests.processes.waiting import free_ports, wait_until

CONNECTIONS = 4
FOUNDING_S = 30.0
ASK_S = 2.0


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(found) + bytes([number])


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field of Protocol Buffers."""
    return bytes([number << 3 | 2]) + varint(len(value)) + value


class Etcd(ReadablePeer):
    name = "etcd " + ETCD.partition("==")[2]
    settings = f"default settings, fsync on; uvloop client of its own process, {CONNECTIONS} connections to the leader"

    def found(self) -> None:
        program = etcd()
        ports = free_ports(2 * MEMBERS)
        self._clients = [f"127.0.0.1:{port}" for port in ports[:MEMBERS]]
        peers = [f"http://127.0.0.1:{port}" for port in ports[MEMBERS:]]
        cluster = ",".join(f"m{number}={peer}" for number, peer in enumerate(peers))
        for number, (client, peer) in enumerate(zip(self._clients, peers, strict=True)):
            options = {
                "name": f"m{number}",
                "data-dir": self.folder / f"m{number}",
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "listen-client-urls": f"http://{client}",
                "advertise-client-urls": f"http://{client}",
                "initial-cluster": cluster,
                "log-level": "error",
            }
            self.spawn([program, *(f"--{name}={value}" for name, value in options.items())], log=f"m{number}.log")
        self._leader = wait_until(self._find_leader, timeout_s=FOUNDING_S, what=lambda: f"a leader\n{self.logs()}")

    def _find_leader(self) -> str:
        """The address of the member that leads; empty when none says so."""
        for client in self._clients:
            try:
                told = self._ask(client, "maintenance/status")
            except OSError:
                continue
            if told.get("leader") == told["header"]["member_id"]:
                return client
        return ""

    def _ask(self, client: str, method: str) -> dict[str, Any]:
        request = urllib.request.Request(f"http://{client}/v3/{method}", data=b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=ASK_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def puts(self, *, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> Sample:
        keys, values = [field(1, key) for key in keys_of()], [field(2, value) for value in values_of(value_bytes)]
        return self._load(
            "/etcdserverpb.KV/Put",
            lambda number: keys[number % KEYS] + values[number % len(values)],
            outstanding=outstanding,
            seconds=seconds,
            warmup_s=warmup_s,
        )

    def gets(self, *, outstanding: int, seconds: float, warmup_s: float) -> Sample:
        keys = [field(1, key) for key in keys_of()]
        return self._load(
            "/etcdserverpb.KV/Range",
            lambda number: keys[number % KEYS],
            outstanding=outstanding,
            seconds=seconds,
            warmup_s=warmup_s,
        )

    def _load(self, path: str, message: Callable[[int], bytes], *, outstanding: int, **times: float) -> Sample:
        async def main() -> Sample:
            pipes = [await GrpcPipe.connect(self._leader, path) for _ in range(min(CONNECTIONS, outstanding))]
            told = await closed_loop(
                lambda number: pipes[number % len(pipes)].call(message(number)), outstanding=outstanding, **times
            )
            for pipe in pipes:
                pipe.close()
            return Sample.of(told)

        found: Sample = run_in("uvloop", main())
        return found
