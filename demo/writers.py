"""The clients that write, in the process of each member, whatever the member runs on.

Each writer has one write under way. It tells the ledger of an acknowledged write, and goes on when the ledger has that
on disk: so a write counts only when two parties know of it, and neither is the one under test.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from abc import ABC, abstractmethod

from demo.ledger import Acknowledgement, LedgerClient, digest_of

PREFIX = "load/"
VALUE_BYTES = 128


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a member is told at its start.

    life: counts its starts, so that no two processes write the same key. watch_from: the revision to watch from.
    clients: where it listens for clients, "": nowhere.
    """

    id: int
    peers: dict[str, str]
    folder: str
    ledger: int
    life: int
    watch_from: int
    writers: int
    clients: str = ""


class Writers(ABC):
    """Writer n of a life writes the keys load/<member>/<life>/n/0, .../n/1 and so on, each once."""

    def __init__(self, ledger: LedgerClient, settings: Settings) -> None:
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

    @abstractmethod
    async def put(self, key: str, value: bytes) -> int | None:
        """Try until it is done and return its revision; None when nobody can tell: then nothing was promised."""

    async def _write_on(self, writer: int) -> None:
        number = 0
        while not self._must_stop:
            await self._write_one(f"{self._prefix}/{writer}/{number}")
            number += 1

    async def _write_one(self, key: str) -> None:
        value = random.randbytes(VALUE_BYTES)
        begun_ns = time.monotonic_ns()
        revision = await self.put(key, value)
        if revision is None:
            self.unknown += 1
            return
        acknowledged_ns = time.monotonic_ns()
        await self._ledger.record(Acknowledgement(key, digest_of(value), revision, begun_ns, acknowledged_ns))
        self.acknowledged += 1
