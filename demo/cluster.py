"""A cluster of member processes with its ledger, for raftmeta and for the peer alike: start, kill, wait, measure."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Self

from demo.display import Display, MemberView
from demo.ledger import Acknowledgement
from demo.processes import START_S, DemoFailed, LedgerProcess, MemberProcess
from demo.report import Records, failover_ns, longest_gap_ns, read_records

PICTURE_S = 0.125
WAIT_MAX_S = 30.0
NS_PER_MS = 1e6


class LedgerTail:
    """The ledger's file as it grows."""

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._rest = ""
        self.promised: list[Acknowledgement] = []

    def read(self) -> list[Acknowledgement]:
        """What came since the last call."""
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        new = [Acknowledgement.parse(line) for line in lines]
        self.promised += new
        return new

    def close(self) -> None:
        self._file.close()


@dataclasses.dataclass(frozen=True)
class Flow:
    """Acknowledgements during some seconds: how many per second, and the longest time without one, in milliseconds."""

    rate: float
    gap_ms: float


def free_addresses(count: int) -> list[str]:
    """Loopback addresses that nobody uses just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


class Cluster:
    """Members of one module, in processes. As a context it is started; whatever happens, no process is left."""

    def __init__(self, title: str, module: str, folder: Path, display: Display, *, members: int, writers: int) -> None:
        self.title = title
        folder.mkdir()
        self._folder = folder
        self._display = display
        self._ledger = LedgerProcess(folder)
        self._drawing: asyncio.Task[None] | None = None
        peers = {str(id): address for id, address in enumerate(free_addresses(members), 1)}
        self.members = [MemberProcess(module, int(id), peers, folder, self._ledger, writers) for id in peers]

    async def __aenter__(self) -> Self:
        try:
            await self._ledger.start()
            await self.start(self.members)
        except BaseException:
            await self._end()
            raise
        self.tail = LedgerTail(self._ledger.file)
        self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._drawing
        self.tail.close()
        await self._end()

    async def _end(self) -> None:
        for process in (*self.members, self._ledger):
            process.kill()
            await process.gone()

    # --- doing --------------------------------------------------------------------------------------------------------
    async def start(self, members: Iterable[MemberProcess], *, timeout_s: float = START_S) -> None:
        members = list(members)
        for member in members:
            await member.start()
        for member in members:
            await member.ready(timeout_s=timeout_s)

    async def kill_all(self) -> int:
        """As a power cut that spares the disks; the time of it."""
        killed_ns = time.monotonic_ns()
        for member in self.members:
            member.kill()
        for member in self.members:
            await member.gone()
        return killed_ns

    async def read_back(self) -> dict[str, Records]:
        """Let the clients come to rest, and ask each member for all that it has."""
        for member in self.members:
            await member.command("stop_writing")
        self.tail.read()
        records = {}
        for member in self.members:
            path = self._folder / f"read-{member.name}"
            await member.command("read_back", path=str(path))
            with path.open() as file:
                records[member.name] = read_records(file)
        return records

    # --- asking -------------------------------------------------------------------------------------------------------
    async def leader(self) -> MemberProcess:
        """Who leads by its own word and that of a majority."""
        found: list[MemberProcess] = []

        def is_agreed() -> bool:
            told = [(member, member.report) for member in self.members if member.is_answering and member.report]
            found[:] = [
                member
                for member, one in told
                if one["role"] == "leader"
                and 2 * sum((o["term"], o["leader"]) == (one["term"], one["leader"]) for _, o in told)
                > len(self.members)
            ]
            return len(found) == 1

        await wait_for(is_agreed, "a leader that a majority follows")
        return found[0]

    async def failover_ms(self, since_ns: int) -> float:
        """Until the first promise that was asked for after since_ns."""
        passed: list[int] = []

        def is_over() -> bool:
            self.tail.read()
            passed_ns = failover_ns(self.tail.promised, since_ns)
            passed[:] = [] if passed_ns is None else [passed_ns]
            return bool(passed)

        await wait_for(is_over, "a write that was begun after the kill")
        return passed[0] / NS_PER_MS

    def flow(self, members: Iterable[MemberProcess], first_ns: int, last_ns: int) -> Flow:
        """What the clients at these members were promised in that time."""
        self.tail.read()
        names = {member.name for member in members}
        times = [
            one.acknowledged_ns
            for one in self.tail.promised
            if one.owner in names and first_ns <= one.acknowledged_ns < last_ns
        ]
        gap_ns = longest_gap_ns(times, first_ns, last_ns)
        return Flow(len(times) * 1e9 / (last_ns - first_ns), gap_ns / NS_PER_MS)

    # --- the picture --------------------------------------------------------------------------------------------------
    async def _draw(self) -> None:
        before, before_s = 0, time.monotonic()
        while True:
            self.tail.read()
            now, now_s = len(self.tail.promised), time.monotonic()
            rate = (now - before) / max(now_s - before_s, PICTURE_S)
            before, before_s = now, now_s
            self._display.picture(self.title, [view_of(member) for member in self.members], now, rate)
            await asyncio.sleep(PICTURE_S)


@contextlib.asynccontextmanager
async def frozen(member: MemberProcess) -> AsyncIterator[None]:
    """SIGSTOP, and SIGCONT at the end whatever happens."""
    member.freeze()
    try:
        yield
    finally:
        member.wake()


def view_of(member: MemberProcess) -> MemberView:
    report = member.report
    return MemberView(
        name=member.name,
        pid=member.pid,
        life=member.life,
        state="killed"
        if not member.is_alive
        else "frozen"
        if member.is_frozen
        else ""
        if member.is_ready
        else "starting",
        role=report.get("role", ""),
        is_controller=report.get("controller", "") == member.name,
        epoch=report.get("epoch", 0),
        term=report.get("term", 0),
        applied=report.get("applied", 0),
        partitions=report.get("partitions", 0),
    )


async def wait_for(condition: Callable[[], bool], what: str, *, timeout_s: float = WAIT_MAX_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(0.005)
