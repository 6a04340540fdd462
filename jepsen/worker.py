"""A client process: asks the cluster over raft://, from outside of the brokers.

In a secure run it has a certificate of its own, and each workload is a user with the rights that it needs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.client import Doors
from jepsen.workers import Slot, Workers
from tests.processes.child import Parent

REPORT_S = 0.2


class Program:
    def __init__(self, parent: Parent, settings: dict[str, Any]) -> None:
        self._parent = parent
        self._settings = settings
        self._clients: dict[str, raftmeta.aio.Client] = {}
        self.workers = Workers(
            self._client_of,
            [Slot(**slot) for slot in settings["slots"]],
            spools=Path(settings["spools"]),
            name=settings["name"],
            node="",
            life=settings["life"],
            t0_ns=settings["t0_ns"],
            seed=settings["seed"],
            doors=Doors(**settings["doors"]) if settings["doors"] else None,
        )

    def _client_of(self, workload: str) -> raftmeta.aio.Client:
        """One for all; in a secure run one for each workload, as the user of its name."""
        user = workload if self._settings["tls"] else ""
        if user not in self._clients:
            self._clients[user] = client_of(self._settings, user)
        return self._clients[user]

    async def run(self) -> None:
        self._parent.serve(self, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_on())
            group.create_task(self.workers.run())

    async def _report_on(self) -> None:
        while True:
            self._parent.report(self.workers.report())
            await asyncio.sleep(REPORT_S)


def client_of(settings: dict[str, Any], user: str) -> raftmeta.aio.Client:
    """As the settings of a client process say. user: "" without rights."""
    if not user:
        return raftmeta.aio.Client(settings["url"], cluster=settings["cluster"], name=settings["name"])
    return raftmeta.aio.Client(
        settings["url"],
        cluster=settings["cluster"],
        name=settings["name"],
        user=user,
        password=json.loads(Path(settings["password_file"]).read_text())[user],
        tls=raftmeta.Tls(**settings["tls"]),
    )


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    await Program(parent, settings).run()
