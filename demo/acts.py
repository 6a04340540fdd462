"""The story: a cluster under load loses its leader again and again, then everybody, and every promise is kept.

It decides when which process is killed, by the pid of a process that it started. It never touches a node's folder, and
it believes only the ledger's file about what was promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from demo.display import Display, NodeView
from demo.ledger import Acknowledgement
from demo.processes import DemoFailed, LedgerProcess, NodeProcess
from demo.report import Report, failover_ns, lost_writes, read_records, same_applied

NODE_NAMES = "abcde"
PICTURE_S = 0.125
FAILOVER_MAX_S = 30.0
NS_PER_MS = 1e6


@dataclasses.dataclass(frozen=True)
class Options:
    """seconds: of load before all are killed, or more when the kills take longer. writers: in each node's process."""

    seconds: float = 20.0
    nodes: int = 3
    kills: int = 5
    writers: int = 16


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


def free_addresses(names: str) -> dict[str, str]:
    """Loopback addresses that nobody uses just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        return {name: f"127.0.0.1:{one.getsockname()[1]}" for name, one in zip(names, sockets, strict=True)}


class Story:
    def __init__(self, options: Options, folder: Path, display: Display) -> None:
        self._options = options
        self._folder = folder
        self._display = display
        self._ledger = LedgerProcess(folder)
        peers = free_addresses(NODE_NAMES[: options.nodes])
        self._nodes = [NodeProcess(name, peers, folder, self._ledger.address, options.writers) for name in peers]
        self._began = 0.0

    async def run(self) -> Report:
        """Tell it; whatever happens, no process is left."""
        try:
            async with self._started() as tail, self._drawn(tail):
                failovers_ms = await self._kill_leaders(tail)
                full_restart_ms = await self._kill_all(tail)
                return await self._judge(tail, failovers_ms, full_restart_ms)
        finally:
            for process in (*self._nodes, self._ledger):
                process.kill()
                await process.gone()

    # --- the acts ---------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _started(self) -> AsyncIterator[LedgerTail]:
        await self._ledger.start()
        self._tell(f"ledger: pid {self._ledger.pid}, does not know raftmeta, syncs every promise")
        await self._start_all()
        self._tell(f"{len(self._nodes)} nodes found a cluster; clients write and watch", "green")
        self._began = time.monotonic()
        tail = LedgerTail(self._ledger.file)
        try:
            yield tail
        finally:
            tail.close()

    async def _kill_leaders(self, tail: LedgerTail) -> list[float]:
        """The leader dies under load, each time another one or the same one again; the times until writes go on."""
        failovers_ms = []
        pause_s = self._options.seconds / (self._options.kills + 1)
        for number in range(1, self._options.kills + 1):
            await asyncio.sleep(self._began + number * pause_s - time.monotonic())
            leader = await self._leader()
            killed_ns = time.monotonic_ns()
            leader.kill()
            self._tell(
                f"kill -9 {leader.pid}: node {leader.name}, the leader (kill {number} of {self._options.kills})", "red"
            )
            failovers_ms.append(await self._failover_ms(tail, killed_ns))
            self._tell(f"writes go on after {failovers_ms[-1]:,.0f} ms, led by {(await self._leader()).name}", "green")
            await leader.gone()
            await leader.start()
            await leader.ready()
            self._tell(f"node {leader.name} is back and has caught up: pid {leader.pid}")
        await asyncio.sleep(self._began + self._options.seconds - time.monotonic())
        return failovers_ms

    async def _kill_all(self, tail: LedgerTail) -> float:
        """All of them at once, as in a power cut that spares the disks."""
        killed_ns = time.monotonic_ns()
        for node in self._nodes:
            node.kill()
        self._tell(f"kill -9 {' '.join(str(node.pid) for node in self._nodes)}: all at once", "bold red")
        for node in self._nodes:
            await node.gone()
        await self._start_all()
        passed_ms = await self._failover_ms(tail, killed_ns)
        self._tell(f"all are back, and writes go on, after {passed_ms:,.0f} ms", "green")
        return passed_ms

    async def _judge(self, tail: LedgerTail, failovers_ms: list[float], full_restart_ms: float) -> Report:
        """Let the clients come to rest, read back everything everywhere, and compare."""
        for node in self._nodes:
            await node.command("stop_writing")
        seconds = time.monotonic() - self._began
        tail.read()
        self._tell(f"the clients rest; each node is asked for all of {len(tail.promised):,} promised writes")
        records = {}
        for node in self._nodes:
            path = self._folder / f"read-{node.name}"
            await node.command("read_back", path=str(path))
            with path.open() as file:
                records[node.name] = read_records(file)
        lost = lost_writes(tail.promised, records)
        revision = max(revision for found in records.values() for _, revision in found.values())
        await self._rested(revision)
        reports = {node.name: node.report for node in self._nodes}
        for node in self._nodes:
            await node.close()
        return Report(
            seconds=seconds,
            acknowledged=len(tail.promised),
            unknown=sum(node.total("unknown") for node in self._nodes),
            lost=lost,
            revision=revision,
            watched={node.name: node.watched for node in self._nodes},
            watch_gaps=sum(node.total("gaps") for node in self._nodes),
            failovers_ms=failovers_ms,
            kills=self._options.kills,
            full_restart_ms=full_restart_ms,
            applied=max(report["applied"] for report in reports.values()),
            state_hashes={name: report["state_hash"] for name, report in reports.items()},
        )

    # --- the parts of an act ----------------------------------------------------------------------------------------

    def _tell(self, text: str, style: str = "") -> None:
        self._display.event(text, style=style)

    async def _start_all(self) -> None:
        for node in self._nodes:
            await node.start()
        for node in self._nodes:
            await node.ready()

    async def _leader(self) -> NodeProcess:
        """Who leads by its own word and that of a majority."""
        found: list[NodeProcess] = []

        def is_agreed() -> bool:
            told = [(node, node.report) for node in self._nodes if node.is_alive and node.report]
            found[:] = [
                node
                for node, one in told
                if one["role"] == "leader"
                and 2 * sum((o["term"], o["leader"]) == (one["term"], node.name) for _, o in told) > len(self._nodes)
            ]
            return len(found) == 1

        await wait_for(is_agreed, "a leader that a majority follows")
        return found[0]

    async def _failover_ms(self, tail: LedgerTail, killed_ns: int) -> float:
        """From the kill to the first promise that was asked for after it."""
        known = len(tail.promised)
        passed: list[int] = []

        def is_over() -> bool:
            tail.read()
            passed_ns = failover_ns(tail.promised[known:], killed_ns)
            passed[:] = [] if passed_ns is None else [passed_ns]
            return bool(passed)

        await wait_for(is_over, "a write that was begun after the kill")
        return passed[0] / NS_PER_MS

    async def _rested(self, revision: int) -> None:
        """Until every watcher saw the end and all nodes speak of one log index; the table tells if they never do."""

        def is_at_rest() -> bool:
            reports = [node.report for node in self._nodes]
            return all(one["watched"] == revision for one in reports) and same_applied(reports)

        with contextlib.suppress(DemoFailed):
            await wait_for(is_at_rest, "rest", timeout_s=10)

    # --- the picture ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _drawn(self, tail: LedgerTail) -> AsyncIterator[None]:
        drawing = asyncio.create_task(self._draw(tail))
        try:
            yield
        finally:
            drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drawing

    async def _draw(self, tail: LedgerTail) -> None:
        before, before_s = 0, time.monotonic()
        while True:
            tail.read()
            now, now_s = len(tail.promised), time.monotonic()
            rate = (now - before) / max(now_s - before_s, PICTURE_S)
            before, before_s = now, now_s
            self._display.picture([view_of(node) for node in self._nodes], now, rate)
            await asyncio.sleep(PICTURE_S)


def view_of(node: NodeProcess) -> NodeView:
    report = node.report
    return NodeView(
        name=node.name,
        pid=node.pid,
        life=node.life,
        is_alive=node.is_alive,
        is_ready=node.is_ready,
        role=report.get("role", ""),
        term=report.get("term", 0),
        applied=report.get("applied", 0),
        watched=node.watched,
    )


async def wait_for(condition: Callable[[], bool], what: str, *, timeout_s: float = FAILOVER_MAX_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(0.005)
