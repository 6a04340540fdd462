"""The peer to compare with: one node of PySyncObj in a process, with the same clients and the same ledger.

    python -m demo.peer '<Settings as JSON>'

It keeps a journal file, the most durable that PySyncObj can be: it is never synced, so a power cut may lose all of it.
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

from pysyncobj import SyncObj, SyncObjConf, replicated

from demo.ledger import Acknowledgement, LedgerClient, digest_of
from demo.telling import hear, hold_gil, say

PREFIX = "load/"
VALUE_BYTES = 128
REPORT_S = 0.05
RETRY_S = 0.01
ANSWER_S = 5.0
TICK_S = 0.01


@dataclasses.dataclass(frozen=True)
class Settings:
    """As demo.broker.Settings; watch_from has no meaning here: there are no watches."""

    id: int
    peers: dict[str, str]
    folder: str
    ledger: str
    life: int
    watch_from: int
    writers: int


class Store(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    def __init__(self, address: str, partners: list[str], journal: str) -> None:
        settings = SyncObjConf(
            journalFile=journal,
            fullDumpFile=f"{journal}.dump",  # its journal is cut from time to time, and begins with this then
            autoTickPeriod=TICK_S,
            appendEntriesPeriod=TICK_S,
            useFork=False,
        )
        super().__init__(address, partners, conf=settings)
        self.values: dict[str, bytes] = {}

    @replicated  # type: ignore[untyped-decorator]
    def put(self, key: str, value: bytes) -> bool:
        self.values[key] = value
        return True


class Writers:
    """The same clients as demo.broker has."""

    def __init__(self, store: Store, ledger: LedgerClient, settings: Settings) -> None:
        self._store = store
        self._ledger = ledger
        self._prefix = f"{PREFIX}{settings.id}/{settings.life}"
        self._must_stop = False
        self.acknowledged = 0
        self.tasks = [asyncio.create_task(self._write_on(number)) for number in range(settings.writers)]

    async def stop(self) -> None:
        self._must_stop = True
        await asyncio.gather(*self.tasks)

    async def _write_on(self, writer: int) -> None:
        number = 0
        while not self._must_stop:
            number += 1
            await self._write_one(f"{self._prefix}/{writer}/{number}")

    async def _write_one(self, key: str) -> None:
        value = random.randbytes(VALUE_BYTES)
        begun_ns = time.monotonic_ns()
        if not await self._put(key, value):
            await asyncio.sleep(RETRY_S)
            return
        await self._ledger.record(Acknowledgement(key, digest_of(value), 0, begun_ns, time.monotonic_ns()))
        self.acknowledged += 1

    async def _put(self, key: str, value: bytes) -> bool:
        """False: refused, or nobody knows; PySyncObj has no way to find out."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def tell(failure: int) -> None:
            if not done.done():
                done.set_result(failure)

        self._store.put(key, value, callback=lambda _, failure: loop.call_soon_threadsafe(tell, failure))
        try:
            return await asyncio.wait_for(done, ANSWER_S) == 0
        except TimeoutError:
            return False


class Program:
    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.writers: Writers | None = None

    async def run(self) -> None:
        tasks = [asyncio.create_task(hear(self._answer)), asyncio.create_task(self._report_on())]
        while not self.store.isReady():
            await asyncio.sleep(TICK_S)
        ledger = LedgerClient(*await asyncio.open_unix_connection(self.settings.ledger))
        self.writers = Writers(self.store, ledger, self.settings)
        tasks += [asyncio.create_task(ledger.listen()), *self.writers.tasks]
        say({"ready": True})
        for done in asyncio.as_completed(tasks):
            await done

    async def _report_on(self) -> None:
        while True:
            status = self.store.getStatus()
            leader, own = str(status["leader"] or ""), self.settings.peers[str(self.settings.id)]
            report = {
                "role": "leader" if leader == own else "follower",
                "term": status["raft_term"],
                "leader": leader,
                "applied": status["last_applied"],
                "acknowledged": self.writers.acknowledged if self.writers else 0,
            }
            say({"report": report})
            await asyncio.sleep(REPORT_S)

    async def _answer(self, command: str, **arguments: Any) -> dict[str, Any]:
        if command == "stop_writing":
            assert self.writers is not None
            await self.writers.stop()
        elif command == "hold_gil":
            hold_gil(arguments["seconds"])
        elif command == "read_back":
            with Path(arguments["path"]).open("w") as file:
                file.writelines(f"{key} {digest_of(value)} 0\n" for key, value in dict(self.store.values).items())
        return {}


async def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    folder = Path(settings.folder)
    folder.mkdir(exist_ok=True)
    own = settings.peers[str(settings.id)]
    others = [address for address in settings.peers.values() if address != own]
    await Program(Store(own, others, str(folder / "journal")), settings).run()


if __name__ == "__main__":
    asyncio.run(main())
