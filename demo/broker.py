"""One broker of the demonstration: examples/broker.py in a process, with clients that write and watch.

    python -m demo.broker '<Settings as JSON>'

Each writer has one write under way. It tells the ledger of an acknowledged write, and goes on when the ledger has that
on disk: so a write counts only when two parties know of it, and neither is the one under test. The watcher follows
every change of all writers and counts what is not the next number of its writer.

What a process is told comes by lines of JSON on its standard input; it answers and reports on its standard output.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import raftmeta
from demo.ledger import Acknowledgement, LedgerClient, digest_of
from demo.telling import hear, hold_gil, say
from examples.broker import Broker
from raftmeta.interfaces import LeaderChange

PREFIX = "load/"
LATE_KEY = "late"
VALUE_BYTES = 128
REPORT_S = 0.05
READY_S = 40.0
RETRY_S = 0.01
PAGE = 5000


@dataclasses.dataclass(frozen=True)
class Settings:
    """life: counts the starts of this broker, so that no two processes write the same key. watch_from: a revision."""

    id: int
    peers: dict[str, str]
    folder: str
    ledger: str
    life: int
    watch_from: int
    writers: int


class Writers:
    """The clients that write. Writer n of a life writes the keys .../n/0, .../n/1 and so on."""

    def __init__(self, node: raftmeta.aio.Node, ledger: LedgerClient, settings: Settings) -> None:
        self._node = node
        self._ledger = ledger
        self._prefix = f"{PREFIX}{settings.id}/{settings.life}"
        self._must_stop = False
        self.acknowledged = 0
        self.unknown = 0
        self.tasks = [asyncio.create_task(self._write_on(number)) for number in range(settings.writers)]

    async def stop(self) -> None:
        """On return nothing is under way."""
        self._must_stop = True
        await asyncio.gather(*self.tasks)

    async def _write_on(self, writer: int) -> None:
        number = 0
        while not self._must_stop:
            await self._write_one(f"{self._prefix}/{writer}/{number}")
            number += 1

    async def _write_one(self, key: str) -> None:
        value = random.randbytes(VALUE_BYTES)
        begun_ns = time.monotonic_ns()
        revision = await self._put(key, value)
        if revision is None:
            self.unknown += 1
            return
        acknowledged_ns = time.monotonic_ns()
        await self._ledger.record(Acknowledgement(key, digest_of(value), int(revision), begun_ns, acknowledged_ns))
        self.acknowledged += 1

    async def _put(self, key: str, value: bytes) -> raftmeta.Revision | None:
        """Try until it is done; None when nobody can tell whether it is: then nothing was promised."""
        while True:
            try:
                return await self._node.put(key, value)
            except raftmeta.NotExecuted:
                await asyncio.sleep(RETRY_S)
            except raftmeta.OutcomeUnknown as error:
                return await self._learn(error.ticket)

    async def _learn(self, ticket: Any) -> raftmeta.Revision | None:
        """The same operation once more, which is applied at most once."""
        while ticket is not None:
            try:
                return await ticket.result()  # type: ignore[no-any-return]
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
        ledger = LedgerClient(*await asyncio.open_unix_connection(self.settings.ledger))
        self.watcher = Watcher(self.node, self.settings.watch_from)
        self.writers = Writers(self.node, ledger, self.settings)
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
