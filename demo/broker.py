"""One broker of the demonstration: examples/broker.py in a process, with clients that write and watch.

    python -m demo.broker '<Settings as JSON>'

The writers are those of demo/writers.py. The watcher follows every change of all writers and counts what comes out of
turn.

What a process is told comes by lines of JSON on its standard input; it answers and reports on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import raftmeta
from demo.ledger import LedgerClient, digest_of
from demo.telling import hear, hold_gil, say
from demo.writers import PREFIX, Settings, Writers
from examples.broker import Broker
from raftmeta.interfaces import LeaderChange

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


async def read_back(node: raftmeta.aio.Node, path: str) -> dict[str, Any]:
    """Everything that this node itself has, into a file: a line with key, digest and revision for each record.

    The linearizable read before it is the barrier: this node has applied whatever was acknowledged before.
    """
    await node.get(PREFIX)
    start, end = PREFIX.encode(), raftmeta.operations.prefix_end(PREFIX)
    count = 0
    with Path(path).open("w") as file:
        while page := (await node.range(start, end, limit=PAGE, local=True)).records:
            file.writelines(f"{one.key.decode()} {digest_of(one.value)} {one.mod_revision}\n" for one in page)
            count += len(page)
            start = page[-1].key + b"\0"
    return {"count": count}


class Program:
    """Everything that runs in the process, around one broker. controller: who this broker knows as such, and when."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self.broker = broker
        self.settings = settings
        self.node: raftmeta.aio.Node | None = None
        self.writers: Writers | None = None
        self.watcher: Watcher | None = None
        self.controller: tuple[str, int, int] = ("", 0, 0)

    async def run(self) -> None:
        tasks = [asyncio.create_task(hear(self._answer))]
        await asyncio.to_thread(self.broker.start, timeout_s=READY_S)
        self.broker.controllers.add_listener(self._on_controller)
        leader = await asyncio.to_thread(self.broker.controllers.leader)
        if leader is not None and self.controller[1] < leader.epoch:
            self.controller = (leader.id, leader.epoch, time.monotonic_ns())
        self.node = self.broker.node.aio()
        ledger = await LedgerClient.connect(self.settings.ledger)
        self.watcher = Watcher(self.node, self.settings.watch_from)
        self.writers = BrokerWriters(self.node, ledger, self.settings)
        tasks += [asyncio.create_task(ledger.listen()), self.watcher.task, *self.writers.tasks]
        tasks += [asyncio.create_task(self._report_on())]
        say({"ready": True})
        for done in asyncio.as_completed(tasks):
            await done  # a task that fails ends the program, and the failure is in its log

    def _on_controller(self, change: LeaderChange) -> None:
        if change.leader is not None:
            self.controller = (change.leader.id, change.leader.epoch, time.monotonic_ns())

    async def _report_on(self) -> None:
        while self.broker.node.is_running:
            say({"report": self._report()})
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
            "acknowledged": self.writers.acknowledged if self.writers else 0,
            "unknown": self.writers.unknown if self.writers else 0,
            "watched": self.watcher.watched if self.watcher else None,
            "seen": self.watcher.seen if self.watcher else 0,
            "gaps": self.watcher.gaps if self.watcher else 0,
        }

    async def _answer(self, command: str, **arguments: Any) -> dict[str, Any]:
        assert self.node is not None and self.writers is not None
        if command == "stop_writing":
            await self.writers.stop()
        elif command == "read_back":
            return await read_back(self.node, **arguments)
        elif command == "create_topics":
            await asyncio.to_thread(self.broker.create_topics, [f"topic-{n:04}" for n in range(arguments["count"])])
        elif command == "hand_over":
            await self.node.transfer(arguments["to"])
        elif command == "hold_gil":
            hold_gil(arguments["seconds"])
        elif command == "late_write":
            return {"refused_as": await self._late_write()}
        elif command == "close":
            await asyncio.to_thread(self.broker.close)
        return {}

    async def _late_write(self) -> str:
        """What a controller does that does not know of its end: it writes. "" if that was accepted."""
        assert self.node is not None and self.broker.lead is not None
        try:
            await self.node.put(LATE_KEY, str(self.broker.lead.epoch), fence=self.broker.lead.fence)
        except raftmeta.RaftmetaError as error:
            return type(error).__name__
        return ""


async def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    peers = {int(id): address for id, address in settings.peers.items()}
    broker = Broker(settings.id, peers, Path(settings.folder))
    await Program(broker, settings).run()


if __name__ == "__main__":
    asyncio.run(main())
