"""The child's side of jepsen/process.py: commands by lines of JSON on standard input, reports and answers on output.

Anything else that is printed goes to the log. The process ends when its standard input does: that is its lifeline.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class Telling:
    """What this process says. One line is one write: a reader never sees half of one from a process that lives."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)

    def report(self, report: dict[str, Any]) -> None:
        self._say({"report": report})

    async def hear(self, answer: Callable[..., Awaitable[Any]]) -> None:
        """Answer commands, each in a task of its own, until standard input ends."""
        lines: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            # The run is gone or has let go of this process. What is under way belongs to nobody any more.
            os._exit(0)

        threading.Thread(target=read, daemon=True).start()
        tasks: set[asyncio.Task[None]] = set()
        while True:
            task = asyncio.create_task(self._answer(answer, json.loads(await lines.get())))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _answer(self, answer: Callable[..., Awaitable[Any]], message: dict[str, Any]) -> None:
        try:
            value = await answer(message["command"], **message["arguments"])
            self._say({"id": message["id"], "answer": value})
        except Exception as error:  # whatever it is, whoever asked is told
            self._say({"id": message["id"], "error": type(error).__name__, "message": str(error)})

    def _say(self, message: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(message).encode() + b"\n")
