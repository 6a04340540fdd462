"""ZooKeeper, with a pipelined client of its protocol: sessions of setData whose answers come in order."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.compare import MEMBERS, Peer
from benchmarks.compare.pipelined import Pipelined
from benchmarks.compare.provision import java, zookeeper_class_path
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Sample
from tests.processes.waiting import free_ports, wait_until

SESSIONS = 6
SESSION_MS = 30_000  # no load is silent, or runs, for so long: no ping is needed
FOUNDING_S = 60.0
ASK_S = 2.0
CREATE, SET_DATA = 1, 5
OK, NODE_EXISTS = 0, -110
OPEN_TO_ALL = struct.pack(">ii", 1, 31) + b"".join(
    struct.pack(">i", len(word)) + word for word in (b"world", b"anyone")
)


def text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


class ZooKeeperError(Exception):
    """The server answered with this code, or closed the session."""


class Session(Pipelined):
    """One session; request() from the event loop of `connect`. Answers come in the order of requests."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._xid = 0
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, address: str) -> Session:
        host, _, port = address.partition(":")
        _, session = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        await session._opened
        return session

    def greeting(self) -> bytes:
        return text(struct.pack(">iqiq", 0, 0, SESSION_MS, 0) + text(bytes(16)) + b"\0")

    def request(self, kind: int, body: bytes) -> asyncio.Future[int]:
        """The code of the answer."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._xid += 1
        self.send(struct.pack(">iii", 8 + len(body), self._xid, kind) + body)
        return future

    def take(self, received: bytes) -> int:
        at, end = 0, len(received)
        while end - at >= 4:
            (length,) = struct.unpack_from(">i", received, at)
            if at + 4 + length > end:
                break
            if self._opened.done():
                self._answer(*struct.unpack_from(">iqi", received, at + 4))
            else:
                self._opened.set_result(None)
            at += 4 + length
        return at

    def _answer(self, xid: int, zxid: int, code: int) -> None:
        future = self._waiting.popleft()
        if not future.done():
            future.set_result(code)

    def connection_lost(self, error: Exception | None) -> None:
        waiting: list[asyncio.Future[Any]] = [self._opened, *self._waiting]
        for future in waiting:
            if not future.done():
                future.set_exception(ZooKeeperError(f"the session was lost: {error}"))
        self._waiting.clear()


class ZooKeeper(Peer):
    name = "ZooKeeper 3.9.5"  # of the pyspark that constraints.txt and provision.py name
    settings = (
        f"tickTime 2000, forceSync on, -Xmx1g; uvloop client of its own process, {SESSIONS} sessions to all members"
    )

    def found(self) -> None:
        program, class_path = java(), zookeeper_class_path()
        ports = free_ports(3 * MEMBERS)
        self._clients = [f"127.0.0.1:{port}" for port in ports[:MEMBERS]]
        servers = [
            f"server.{number + 1}=127.0.0.1:{ports[MEMBERS + number]}:{ports[2 * MEMBERS + number]}"
            for number in range(MEMBERS)
        ]
        for number in range(MEMBERS):
            data = self.folder / f"m{number}"
            data.mkdir()
            (data / "myid").write_text(str(number + 1))
            lines = ["tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={data}", f"clientPort={ports[number]}"]
            lines += [
                "clientPortAddress=127.0.0.1",
                "admin.enableServer=false",
                "4lw.commands.whitelist=srvr",
                *servers,
            ]
            (data / "zoo.cfg").write_text("\n".join(lines) + "\n")
            command: list[str | Path] = [
                program,
                "-Xmx1g",
                "-cp",
                class_path,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            ]
            self.spawn([*command, data / "zoo.cfg"], log=f"m{number}.log")
        wait_until(self._all_serve, timeout_s=FOUNDING_S, what=lambda: f"all members to serve\n{self.logs()}")
        run_in("asyncio", self._create_keys())

    def _all_serve(self) -> bool:
        modes = [self._mode_of(client) for client in self._clients]
        return sorted(modes) == ["follower", "follower", "leader"]

    def _mode_of(self, client: str) -> str:
        host, _, port = client.partition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=ASK_S) as connection:
                connection.sendall(b"srvr")
                told = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        return next((line.split()[1] for line in told.splitlines() if line.startswith("Mode:")), "")

    async def _create_keys(self) -> None:
        session = await Session.connect(self._clients[0])
        bodies = [text(b"/" + key) + text(b"") + OPEN_TO_ALL + struct.pack(">i", 0) for key in keys_of()]
        codes = await asyncio.gather(*(session.request(CREATE, body) for body in bodies))
        session.close()
        if set(codes) - {OK, NODE_EXISTS}:
            raise ZooKeeperError(f"keys could not be created: {sorted(set(codes))}")

    def puts(self, *, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> Sample:
        any_version = struct.pack(">i", -1)
        paths = [text(b"/" + key) for key in keys_of()]
        values = [text(value) + any_version for value in values_of(value_bytes)]
        return self._load(
            lambda number: paths[number % KEYS] + values[number % len(values)],
            outstanding=outstanding,
            seconds=seconds,
            warmup_s=warmup_s,
        )

    def _load(self, body: Callable[[int], bytes], *, outstanding: int, **times: float) -> Sample:
        async def main() -> Sample:
            count = min(SESSIONS, outstanding)
            sessions = [await Session.connect(self._clients[number % MEMBERS]) for number in range(count)]

            async def put(number: int) -> None:
                if code := await sessions[number % count].request(SET_DATA, body(number)):
                    raise ZooKeeperError(f"setData was answered with {code}")

            told = await closed_loop(put, outstanding=outstanding, **times)
            for session in sessions:
                session.close()
            return Sample.of(told)

        found: Sample = run_in("uvloop", main())
        return found
