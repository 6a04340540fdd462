"""A broker of the system under test: one raftmeta node in a process, with a port for clients and callers of its own.

It stands for any program that embeds raftmeta, and uses public names only. `live` is the life of the process; the run
calls `ask` and `close` in it, `stop_asking` of jepsen/workers.py, and `hold_gil`, as a hung C extension does.

It ends with EXIT_NODE_STOPPED when its node had to stop (Fatal), and keeps the files.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import sys
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.workers import Slot, Workers
from tests.processes.child import Parent

REPORT_S = 0.1
START_AGAIN_S = 0.5
EXIT_NODE_STOPPED = 3


class Program:
    """node: of this process; face: to ask it. workers: its callers, which ask it too."""

    def __init__(self, parent: Parent, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._parent = parent
        self.node = raftmeta.Node(
            settings["name"],
            peers=settings["peers"],
            data_dir=settings["folder"],
            listen=settings["listen"],
            client_listen=settings["client_listen"],
            cluster=settings["cluster"],
            config=raftmeta.Config(**settings["config"]),
        )

    async def _start(self) -> None:
        """As under a supervisor: a start that finds no room changed nothing, and is tried again."""
        while True:
            try:
                self.node.start()
                return
            except raftmeta.NoSpace as error:
                print(f"not started: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(START_AGAIN_S)

    async def run(self) -> None:
        await self._start()
        self.node.log_events()
        self.face = self.node.aio()
        self.workers = self._make_workers()
        self._parent.serve(self, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_on())
            group.create_task(self.workers.run())

    def _make_workers(self) -> Workers:
        settings = self._settings
        return Workers(
            self.face,
            [Slot(**slot) for slot in settings["slots"]],
            spools=Path(settings["spools"]),
            name=settings["name"],
            node=settings["name"],
            life=settings["life"],
            t0_ns=settings["t0_ns"],
            seed=settings["seed"],
        )

    async def _report_on(self) -> None:
        while self.node.is_running:
            status = self.node.status()
            if status.state == "stopped":
                print(f"the node stopped: {status}", file=sys.stderr, flush=True)
                os._exit(EXIT_NODE_STOPPED)
            self._parent.report({**dataclasses.asdict(status), **self.workers.report()})
            await asyncio.sleep(REPORT_S)


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    await Program(parent, settings).run()


# --- called by the run ------------------------------------------------------------------------------------------------


async def ask(program: Program, verb: str, arguments: dict[str, Any]) -> Any:
    """A verb of the node about its members: members, add_member, remove_member, replace_member, transfer."""
    found = await getattr(program.face, verb)(**arguments)
    return [dataclasses.asdict(member) for member in found] if verb == "members" else found


async def close(program: Program) -> None:
    """The quiet end of the node; then the process may be ended."""
    await asyncio.to_thread(program.node.close)
