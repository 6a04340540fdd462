"""A broker of the system under test: one raftmeta node in a process, with a port for clients and callers of its own.

    python -m jepsen.broker '<settings as JSON>'

It stands for any program that embeds raftmeta, and uses public names only. What it is told on standard input:

    members, add, remove, replace, transfer    the node's verbs of these names
    hold_gil(seconds)                          hold the GIL, as a hung C extension does
    close                                      the quiet end of the node; then the process may be ended
    stop                                       its callers ask nothing new

It ends with EXIT_NODE_STOPPED when its node had to stop (Fatal), and keeps the files.
"""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.clock import NS_PER_S, now_ns
from jepsen.telling import Telling
from jepsen.workers import Slot, Workers

REPORT_S = 0.1
START_AGAIN_S = 0.5
EXIT_NODE_STOPPED = 3


def hold_gil(seconds: float) -> None:
    """Sleep without giving the GIL away: no Python runs in this process."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


class Program:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._telling = Telling()
        self._node = raftmeta.Node(
            settings["name"],
            peers=settings["peers"],
            data_dir=settings["folder"],
            listen=settings["listen"],
            client_listen=settings["client_listen"],
            cluster=settings["cluster"],
            config=raftmeta.Config(**settings["config"]),
        )
        self._workers: Workers | None = None

    async def _start(self) -> None:
        """As under a supervisor: a start that finds no room changed nothing, and is tried again."""
        while True:
            try:
                self._node.start()
                return
            except raftmeta.NoSpace as error:
                print(f"not started: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(START_AGAIN_S)

    async def run(self) -> None:
        await self._start()
        self._node.log_events()
        self._face = self._node.aio()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._telling.hear(self._answer))
            group.create_task(self._report_on())
            self._workers = self._make_workers()
            group.create_task(self._workers.run())

    def _make_workers(self) -> Workers:
        settings = self._settings
        return Workers(
            self._face,
            [Slot(**slot) for slot in settings["slots"]],
            spools=Path(settings["spools"]),
            name=settings["name"],
            node=settings["name"],
            life=settings["life"],
            t0_ns=settings["t0_ns"],
            seed=settings["seed"],
        )

    async def _report_on(self) -> None:
        while self._node.is_running:
            status = self._node.status()
            if status.state == "stopped":
                print(f"the node stopped: {status}", file=sys.stderr, flush=True)
                os._exit(EXIT_NODE_STOPPED)
            counted = {} if self._workers is None else self._workers.report()
            self._telling.report({**dataclasses.asdict(status), **counted})
            await asyncio.sleep(REPORT_S)

    async def _answer(self, command: str, **arguments: Any) -> Any:
        node = self._face
        if command == "members":
            return [dataclasses.asdict(member) for member in await node.members(**arguments)]
        if command == "add":
            return await node.add_member(**arguments)
        if command == "remove":
            return await node.remove_member(**arguments)
        if command == "replace":
            return await node.replace_member(**arguments)
        if command == "transfer":
            return await node.transfer(**arguments)
        if command == "close":
            return await asyncio.to_thread(self._node.close)
        if command == "hold_gil":
            begin_ns = now_ns()
            hold_gil(arguments["seconds"])
            return (now_ns() - begin_ns) / NS_PER_S
        assert command == "stop", command
        if self._workers is not None:
            self._workers.stop()
        return None


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    asyncio.run(Program(json.loads(sys.argv[1])).run())


if __name__ == "__main__":
    main()
