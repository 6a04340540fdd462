"""A client process: asks the cluster over raft://, from outside of the brokers.

python -m jepsen.worker '<settings as JSON>'
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.telling import Telling
from jepsen.workers import Slot, Workers

REPORT_S = 0.2


class Program:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._telling = Telling()
        client = raftmeta.aio.Client(settings["url"], cluster=settings["cluster"], name=settings["name"])
        self._workers = Workers(
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
        async with asyncio.TaskGroup() as group:
            group.create_task(self._telling.hear(self._answer))
            group.create_task(self._report_on())
            working = group.create_task(self._workers.run())
            await working

    async def _report_on(self) -> None:
        while True:
            self._telling.report(self._workers.report())
            await asyncio.sleep(REPORT_S)

    async def _answer(self, command: str) -> Any:
        """`stop`: ask nothing new."""
        assert command == "stop", command
        self._workers.stop()


if __name__ == "__main__":
    asyncio.run(Program(json.loads(sys.argv[1])).run())
