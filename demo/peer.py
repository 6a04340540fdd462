"""The peer to compare with: one node of PySyncObj in a process, with the same clients and the same ledger.

It keeps a journal file, the most durable that PySyncObj can be: it is never synced, so a power cut may lose all of it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated

from demo.ledger import LedgerClient, digest_of
from demo.writers import Settings, Writers
from tests.processes.child import Parent

REPORT_S = 0.05
RETRY_S = 0.01
ANSWER_S = 5.0
TICK_S = 0.01


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


class PeerWriters(Writers):
    """Clients of one node of PySyncObj; there are no revisions."""

    def __init__(self, store: Store, ledger: LedgerClient, settings: Settings) -> None:
        self._store = store
        super().__init__(ledger, settings)

    async def put(self, key: str, value: bytes) -> int | None:
        """None also when it was refused: PySyncObj has no way to go on with the same operation."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def tell(failure: int) -> None:
            if not done.done():
                done.set_result(failure)

        self._store.put(key, value, callback=lambda _, failure: loop.call_soon_threadsafe(tell, failure))
        try:
            if await asyncio.wait_for(done, ANSWER_S) == 0:
                return 0
        except TimeoutError:
            return None
        await asyncio.sleep(RETRY_S)
        return None


class Program:
    def __init__(self, parent: Parent, store: Store, settings: Settings) -> None:
        self.parent = parent
        self.store = store
        self.settings = settings
        self.writers: Writers | None = None

    async def run(self) -> None:
        tasks = [asyncio.create_task(self._report_on())]
        while not self.store.isReady():
            await asyncio.sleep(TICK_S)
        ledger = await LedgerClient.connect(self.settings.ledger)
        self.writers = PeerWriters(self.store, ledger, self.settings)
        tasks += [asyncio.create_task(ledger.listen()), *self.writers.tasks]
        self.parent.serve(self, asyncio.get_running_loop())
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
            self.parent.report(report)
            await asyncio.sleep(REPORT_S)


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process. settings: of a Settings."""
    told = Settings(**settings)
    folder = Path(told.folder)
    folder.mkdir(exist_ok=True)
    own = told.peers[str(told.id)]
    others = [address for address in told.peers.values() if address != own]
    await Program(parent, Store(own, others, str(folder / "journal")), told).run()


# --- called by the storyteller ----------------------------------------------------------------------------------------


async def stop_writing(program: Program) -> None:
    assert program.writers is not None
    await program.writers.stop()


def read_back(program: Program, path: str) -> None:
    """A line with key and digest for each value of this node; there are no revisions."""
    with Path(path).open("w") as file:
        file.writelines(f"{key} {digest_of(value)} 0\n" for key, value in dict(program.store.values).items())
