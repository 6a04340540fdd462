"""One node of the demonstration: raftmeta inside an asyncio process, with clients that write and watch.

    python -m demo.node '<Settings as JSON>'

Each writer has one write under way. It tells the ledger of an acknowledged write, and goes on when the ledger has that
on disk: so a write counts only when two parties know of it, and neither is the one under test. The watcher follows
every change of all writers and counts what is not the next revision.

Every key is written once and holds what no other key holds, and nobody else writes: the revisions of a watch follow one
another without a gap. What a process is told comes by lines of JSON on its standard input; it answers and reports on
its standard output.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import raftmeta
from demo.ledger import Acknowledgement, digest_of

PREFIX = "load/"
VALUE_BYTES = 128
REPORT_S = 0.1
READY_S = 30.0
RETRY_S = 0.01
PAGE = 5000


@dataclasses.dataclass(frozen=True)
class Settings:
    """life: counts the starts of this node, so that no two processes write the same key. watch_from: a revision."""

    name: str
    peers: dict[str, str]
    folder: str
    ledger: str
    life: int
    watch_from: int
    writers: int


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


class LedgerClient:
    """A connection to the ledger."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._kept = 0

    async def record(self, acknowledgement: Acknowledgement) -> None:
        """On return it is on the ledger's disk."""
        kept = asyncio.get_running_loop().create_future()
        self._waiting.append(kept)
        self._writer.write(acknowledgement.line())
        await kept

    async def listen(self) -> None:
        while line := await self._reader.readline():
            while self._kept < int(line):
                self._waiting.popleft().set_result(None)
                self._kept += 1


class Writers:
    """The clients that write."""

    def __init__(self, node: raftmeta.aio.Node, ledger: LedgerClient, settings: Settings) -> None:
        self._node = node
        self._ledger = ledger
        self._prefix = f"{PREFIX}{settings.name}/{settings.life}"
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
    """The client that watches. watched: the last revision seen; gaps: how often it was not the one after."""

    def __init__(self, node: raftmeta.aio.Node, watch_from: int) -> None:
        self._node = node
        self.watched = watch_from - 1
        self.gaps = 0
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async with self._node.watch(prefix=PREFIX, start_revision=self.watched + 1) as watch:
            async for event in watch:
                self.gaps += event.revision != self.watched + 1
                self.watched = event.revision


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


def report(node: raftmeta.aio.Node, writers: Writers | None, watcher: Watcher | None) -> dict[str, Any]:
    status = node.status()
    return {
        "state": status.state,
        "role": status.role,
        "term": status.term,
        "leader": status.leader,
        "applied": status.applied,
        "revision": status.revision,
        "state_hash": status.state_hash,
        "acknowledged": writers.acknowledged if writers else 0,
        "unknown": writers.unknown if writers else 0,
        "watched": watcher.watched if watcher else None,
        "gaps": watcher.gaps if watcher else 0,
    }


class Program:
    """Everything that runs in the process, around one node."""

    def __init__(self, node: raftmeta.aio.Node, settings: Settings) -> None:
        self.node = node
        self.settings = settings
        self.writers: Writers | None = None
        self.watcher: Watcher | None = None

    async def run(self) -> None:
        tasks = [asyncio.create_task(self._report_on()), asyncio.create_task(self._obey())]
        await self.node.ready(READY_S)
        ledger = LedgerClient(*await asyncio.open_unix_connection(self.settings.ledger))
        self.watcher = Watcher(self.node, self.settings.watch_from)
        self.writers = Writers(self.node, ledger, self.settings)
        tasks += [asyncio.create_task(ledger.listen()), self.watcher.task, *self.writers.tasks]
        say({"ready": True})
        for done in asyncio.as_completed(tasks):
            await done  # a task that fails ends the program, and the failure is in its log

    async def _report_on(self) -> None:
        while self.node.is_running:
            say({"report": report(self.node, self.writers, self.watcher)})
            await asyncio.sleep(REPORT_S)

    async def _obey(self) -> None:
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        while line := await commands.readline():
            command = json.loads(line)
            say({"answer": await self._answer(**command)})
        os._exit(0)  # the parent is gone, or has what it wanted

    async def _answer(self, command: str, **arguments: Any) -> dict[str, Any]:
        if command == "stop_writing":
            assert self.writers is not None
            await self.writers.stop()
        elif command == "read_back":
            return await read_back(self.node, **arguments)
        elif command == "close":
            await self.node.close()
        return {}


async def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    async with raftmeta.aio.Node(settings.name, peers=settings.peers, data_dir=settings.folder) as node:
        await Program(node, settings).run()


if __name__ == "__main__":
    asyncio.run(main())
