"""The clients of one process: made from the run's settings, started together, counted.

The same for a client process (jepsen/worker.py) and for the callers inside a broker (jepsen/broker.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from jepsen.client import Client, Doors, Fates, Store
from jepsen.generator import Pace, Rotation
from jepsen.spool import Spool
from jepsen.workloads import KINDS
from jepsen.workloads.base import Workload


@dataclass(frozen=True, slots=True)
class Slot:
    """One client of one workload. number: among all of the run. period_s, rotation_s: see jepsen/generator.py."""

    workload: str
    number: int
    group: int
    period_s: float
    rotation_s: float


class Workers:
    """store_of: what the clients of a workload ask. node: the broker they are in, "" in a process of their own.

    doors: of all brokers; None where no client asks there.
    """

    def __init__(
        self,
        store_of: Callable[[str], Store],
        slots: Sequence[Slot],
        *,
        spools: Path,
        name: str,
        node: str,
        life: int,
        t0_ns: int,
        seed: int,
        doors: Doors | None = None,
    ) -> None:
        self.fates = Fates()
        self._spool = Spool(spools / f"{name}-{life}.jsonl", node=node)
        self._clients = [
            Client(
                store_of(slot.workload),
                self._spool,
                self.fates,
                workload=slot.workload,
                slot=slot.number,
                group=slot.group,
                life=life,
                pace=Pace(slot.period_s, Random(f"{seed} pace {slot.number} {life}")),
                rotation=Rotation(t0_ns, slot.rotation_s),
                random=Random(f"{seed} client {slot.number} {life}"),
                doors=doors,
            )
            for slot in slots
        ]
        self.workloads: list[Workload] = []  # of the clients that have begun
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until stop(); an exception that is no fate of an operation ends all of them."""
        async with asyncio.TaskGroup() as group:
            for client in self._clients:
                group.create_task(self._work(client))

    async def _work(self, client: Client) -> None:
        workload = KINDS[client.workload](client)
        self.workloads.append(workload)
        following = asyncio.create_task(workload.follow())
        try:
            while not self._stopping.is_set():
                await client.turn()
                await workload.step()
                if following.done():
                    following.result()  # a watcher that failed fails its process
        finally:
            following.cancel()
            await workload.close()

    def stop(self) -> None:
        """Ask nothing new; run() returns when what is under way has ended."""
        self._stopping.set()

    def report(self) -> dict[str, Any]:
        fates = self.fates
        return {"counts": dict(fates.counts), "errors": dict(fates.errors), "answered": fates.answered}


class Program(Protocol):
    """A process that has clients: a client process, or a broker."""

    @property
    def workers(self) -> Workers: ...


async def stop_asking(program: Program) -> None:
    """Called in such a process: its clients ask nothing new."""
    program.workers.stop()
