"""A client process: asks the cluster over raft://, from outside of the brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.workers import Slot, Workers
from tests.processes.child import Parent

REPORT_S = 0.2


class Program:
    def __init__(self, parent: Parent, settings: dict[str, Any]) -> None:
        self._parent = parent
        client = raftmeta.aio.Client(settings["url"], cluster=settings["cluster"], name=settings["name"])
        self.workers = Workers(
            client,
            [Slot(**slot) for slot in settings["slots"]],
            spools=Path(settings["spools"]),
            name=settings["name"],
            node="",
            life=settings["life"],
            t0_ns=settings["t0_ns"],
            seed=settings["seed"],
        )

    async def run(self) -> None:
        self._parent.serve(self, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_on())
            group.create_task(self.workers.run())

    async def _report_on(self) -> None:
        while True:
            self._parent.report(self.workers.report())
            await asyncio.sleep(REPORT_S)


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process."""
    await Program(parent, settings).run()
