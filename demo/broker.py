"""One broker of the demonstration: examples/broker.py in a process, with clients that write and watch.

The writers are those of demo/writers.py. The watcher follows every change of all writers and counts what comes out of
turn.

`live` is the life of the process; the storyteller calls the functions at the end of this file in it.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import raftmeta
from demo.ledger import LedgerClient, digest_of
from demo.writers import PREFIX, Settings, Writers
from examples.broker import Broker
from raftmeta.interfaces import LeaderChange
from tests.processes.child import Parent

LATE_KEY = "late"
REPORT_S = 0.05
READY_S = 40.0
RETRY_S = 0.01
PAGE = 5000


class BrokerWriters(Writers):
    """Clients of one node of raftmeta."""

    def __init__(self, node: raftmeta.aio.Node, ledger: LedgerClient, settings: Settings) -> None:
        self._node = node
        super().__init__(ledger, settings)

    async def put(self, key: str, value: bytes) -> int | None:
        while True:
            try:
                return int(await self._node.put(key, value))
            except raftmeta.NotExecuted:
                await asyncio.sleep(RETRY_S)
            except raftmeta.OutcomeUnknown as error:
                return await self._learn(error.ticket)

    async def _learn(self, ticket: Any) -> int | None:
        """The same operation once more, which is applied at most once."""
        while ticket is not None:
            try:
                return int(await ticket.result())
            except raftmeta.OutcomeUnknown as error:
                ticket = error.ticket
            except raftmeta.NotExecuted:
                return None
        return None


class Watcher:
    """The client that watches. watched: the last revision seen; seen: how many changes; gaps: those out of turn.

    Each key is written once, and a writer's numbers rise: what a watch shows must rise by revision and, writer by
    writer, by number. Whether anything is missing the parent tells, from all that there is at the end.
    """

    def __init__(self, node: raftmeta.aio.Node, watch_from: int) -> None:
        self._node = node
        self._next: dict[str, int] = {}
        self.watched = watch_from - 1
        self.seen = 0
        self.gaps = 0
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async with self._node.watch(prefix=PREFIX, start_revision=self.watched + 1) as watch:
            async for event in watch:
                writer, _, number = event.key.decode().rpartition("/")
                is_turn = event.revision > self.watched and int(number) >= self._next.get(writer, int(number))
                self.gaps += not is_turn
                self._next[writer] = int(number) + 1
                self.watched = event.revision
                self.seen += 1


class Program:
    """Everything that runs in the process, around one broker. controller: who this broker knows as such, and when."""

    node: raftmeta.aio.Node
    writers: Writers
    watcher: Watcher

    def __init__(self, parent: Parent, broker: Broker, settings: Settings) -> None:
        self.parent = parent
        self.broker = broker
        self.settings = settings
        self.controller: tuple[str, int, int] = ("", 0, 0)

    async def run(self) -> None:
        await asyncio.to_thread(self.broker.start, timeout_s=READY_S)
        self.broker.controllers.add_listener(self._on_controller)
        leader = await asyncio.to_thread(self.broker.controllers.leader)
        if leader is not None and self.controller[1] < leader.epoch:
            self.controller = (leader.id, leader.epoch, time.monotonic_ns())
        self.node = self.broker.node.aio()
        ledger = await LedgerClient.connect(self.settings.ledger)
        self.watcher = Watcher(self.node, self.settings.watch_from)
        self.writers = BrokerWriters(self.node, ledger, self.settings)
        tasks = [asyncio.create_task(ledger.listen()), self.watcher.task, *self.writers.tasks]
        tasks += [asyncio.create_task(self._report_on())]
        self.parent.serve(self, asyncio.get_running_loop())
        for done in asyncio.as_completed(tasks):
            await done  # a task that fails ends the program, and the failure is in its log

    def _on_controller(self, change: LeaderChange) -> None:
        if change.leader is not None:
            self.controller = (change.leader.id, change.leader.epoch, time.monotonic_ns())

    async def _report_on(self) -> None:
        while self.broker.node.is_running:
            self.parent.report(self._report())
            await asyncio.sleep(REPORT_S)

    def _report(self) -> dict[str, Any]:
        status = self.broker.node.status()
        controller, epoch, since_ns = self.controller
        return {
            "role": status.role,
            "term": status.term,
            "leader": status.leader,
            "applied": status.applied,
            "revision": status.revision,
            "state_hash": status.state_hash,
            "controller": controller,
            "epoch": epoch,
            "controller_since_ns": since_ns,
            "partitions": len(self.broker.states),
            "acknowledged": self.writers.acknowledged,
            "unknown": self.writers.unknown,
            "watched": self.watcher.watched,
            "seen": self.watcher.seen,
            "gaps": self.watcher.gaps,
        }


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process. settings: of a Settings."""
    told = Settings(**settings)
    peers = {int(id): address for id, address in told.peers.items()}
    broker = Broker(told.id, peers, Path(told.folder), client_listen=told.clients or None)
    await Program(parent, broker, told).run()


# --- called by the storyteller ----------------------------------------------------------------------------------------


async def stop_writing(program: Program) -> None:
    await program.writers.stop()


async def read_back(program: Program, path: str) -> int:
    """Everything that this node itself has, into a file: a line with key, digest and revision for each record.

    The linearizable read before it is the barrier: this node has applied whatever was acknowledged before.
    """
    node = program.node
    await node.get(PREFIX)
    start, end = PREFIX.encode(), raftmeta.operations.prefix_end(PREFIX)
    count = 0
    with Path(path).open("w") as file:
        while page := (await node.range(start, end, limit=PAGE, local=True)).records:
            file.writelines(f"{one.key.decode()} {digest_of(one.value)} {one.mod_revision}\n" for one in page)
            count += len(page)
            start = page[-1].key + b"\0"
    return count


def create_topics(program: Program, count: int) -> None:
    program.broker.create_topics([f"topic-{number:04}" for number in range(count)])


async def hand_over(program: Program, to: str) -> None:
    await program.node.transfer(to)


async def late_write(program: Program) -> str:
    """What a controller does that does not know of its end: it writes. The error's name; "" if that was accepted."""
    lead = program.broker.lead
    assert lead is not None
    try:
        await program.node.put(LATE_KEY, str(lead.epoch), fence=lead.fence)
    except raftmeta.RaftmetaError as error:
        return type(error).__name__
    return ""


def close(program: Program) -> None:
    program.broker.close()
