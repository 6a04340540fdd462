"""How a process of the demonstration speaks with its parent: lines of JSON, commands in, reports and answers out."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

GIL_DELAY_S = 0.05


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def hold_gil(seconds: float) -> None:
    """Soon, so that the command that asks for it is answered first: nothing of Python runs here for so long.

    PyDLL keeps the GIL during the call.
    """
    hold = threading.Thread(target=ctypes.PyDLL(None).usleep, args=(int(seconds * 1e6),))
    asyncio.get_running_loop().call_later(GIL_DELAY_S, hold.start)


async def hear(answer: Callable[..., Awaitable[dict[str, Any]]]) -> None:
    """Answer each command. When the parent is gone, or has what it wanted, this process ends at once."""
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        say({"answer": await answer(**json.loads(line))})
    os._exit(0)
