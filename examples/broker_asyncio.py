"""A broker in asyncio: metadata for its clients on a socket, decided by an elected controller, followed by watch.

    python examples/broker_asyncio.py 1 /var/lib/1 127.0.0.1:8001 1=127.0.0.1:7001 2=127.0.0.1:7002 3=127.0.0.1:7003

Clients send lines: `CREATE topic`, `TOPICS`, `CONTROLLER`. Any broker answers. It answers reads from its own memory.
Unless it is the controller, the store refuses its writes; the broker does not guess. examples/broker.py is the same in
blocking code, with partitions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import raftmeta
from raftmeta.interfaces import AioHeld, LeaderChange

TOPICS = "/brokers/topics/"

log = logging.getLogger("broker")


class Broker:
    """topics: what this broker has followed so far. controller: its id, "" while there is none."""

    def __init__(self, id: str, node: raftmeta.aio.Node) -> None:
        self.id = id
        self.node = node
        self.topics: dict[str, dict[str, object]] = {}
        self.controller = ""
        self._lead: AioHeld | None = None

    async def run(self, host: str, port: int) -> None:
        """Serve until the task is cancelled."""
        await self.node.group("brokers").join(self.id, json.dumps({"host": host, "port": port}))
        election = self.node.election("controller")
        await election.add_listener(self._on_controller)
        self.controller = self.controller or await election.get_leader() or ""
        server = await asyncio.start_server(self._serve, host, port)
        async with server, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_topics())
            tasks.create_task(self._be_controller())
            log.info("broker %s serves %s:%d", self.id, host, port)

    async def _follow_topics(self) -> None:
        async with self.node.watch(prefix=TOPICS, start_revision=1, reset=True) as changes:
            async for change in changes:
                if isinstance(change, raftmeta.WatchReset):  # the history does not reach back so far
                    records = {record.key: record.value for record in change.records}
                    self.topics = {
                        key.decode().removeprefix(TOPICS): json.loads(value) for key, value in records.items()
                    }
                elif change.type == "put":
                    self.topics[change.key.decode().removeprefix(TOPICS)] = json.loads(change.value)
                else:
                    self.topics.pop(change.key.decode().removeprefix(TOPICS), None)

    async def _be_controller(self) -> None:
        async for lead in self.node.election("controller").terms(self.id):
            log.info("controller, epoch %d", lead.epoch)
            self._lead = lead
            await lead.wait_lost()
            log.info("not the controller any more, epoch %d", lead.epoch)

    async def _on_controller(self, change: LeaderChange) -> None:
        self.controller = change.id or ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                words = line.decode().split()
                writer.write((await self._answer(*words) + "\n").encode())
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, word: str = "", topic: str = "") -> str:
        if word == "TOPICS":
            return " ".join(sorted(self.topics))
        if word == "CONTROLLER":
            return self.controller
        if word == "CREATE" and topic:
            return await self._create(topic)
        return "ERROR say CREATE topic, TOPICS or CONTROLLER"

    async def _create(self, topic: str) -> str:
        if self._lead is None:
            return f"ERROR ask the controller, broker {self.controller}"
        try:
            revision = await self.node.create(f"{TOPICS}{topic}", json.dumps({"version": 1}), fence=self._lead.fence)
        except raftmeta.KeyExists:
            return "ERROR exists"
        except raftmeta.Fenced:
            return f"ERROR ask the controller, broker {self.controller}"
        except raftmeta.OutcomeUnknown:
            return "ERROR perhaps: ask for TOPICS"
        except raftmeta.NotExecuted as error:
            return f"ERROR try again: {error}"
        return f"OK {int(revision)}"


async def main(id: str, folder: str, address: str, peers: Mapping[str, str]) -> None:
    host, _, port = address.rpartition(":")
    async with raftmeta.aio.Node(id, peers=peers, data_dir=Path(folder)) as node:
        await node.ready(30)
        await Broker(id, node).run(host, int(port))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    _, own_id, data_dir, serve_at, *pairs = sys.argv
    asyncio.run(main(own_id, data_dir, serve_at, dict(pair.split("=", 1) for pair in pairs)))
