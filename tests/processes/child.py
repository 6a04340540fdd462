"""The inside of a RemoteProcess: makes its subject, then answers calls until its standard input ends.

    python -m tests.processes module:function '[arguments as JSON]'

The function makes the subject from the arguments. An `async def` is instead the whole life of the process: it gets the
Parent before the arguments, calls `parent.serve` when it may be asked, and an exception of it ends the process.

A call is one line of JSON, {"id", "function", "arguments"}; each runs on a thread of its own, as function(subject,
*arguments). The event loop that was given to `serve` runs what an `async def` returns. An answer is {"id", "value"} or
{"id", "error", "message"}; a report, which nobody asked for, is {"report"}.

asyncio is imported where it is used: a process without it is smaller and starts sooner, which benchmarks measure.

The process ends when its parent does, whichever way that ends: standard input is its lifeline, and the kernel kills it
too where it is stopped or busy.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def to_json(value: Any) -> Any:
    """bytes become {"bytes": hex}; tuples and records become lists."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    return value


def from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"bytes"}:
            return bytes.fromhex(value["bytes"])
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value


def find(name: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, function = name.partition(":")
    found = getattr(importlib.import_module(module), function)
    assert callable(found), name
    return found  # type: ignore[no-any-return]


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends. Also between fork and exec."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Parent:
    """Whoever started this process: one line per message on what was the standard output.

    Anything printed goes to the log instead.
    """

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        self._lock = threading.Lock()
        os.dup2(2, 1)

    def report(self, report: dict[str, Any]) -> None:
        """Tell how things stand; the parent keeps the last report."""
        self._say({"report": report})

    def serve(self, subject: Any, loop: asyncio.AbstractEventLoop | None = None) -> threading.Thread:
        """Answer calls from now on; the thread ends with the process. loop: for functions that are `async def`."""
        self._say({"id": 0, "value": os.getpid()})
        hearing = threading.Thread(target=self._hear, args=(subject, loop), daemon=True)
        hearing.start()
        return hearing

    def _hear(self, subject: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        for line in sys.stdin:
            threading.Thread(target=self._answer, args=(json.loads(line), subject, loop), daemon=True).start()
        # Calls that still run belong to a parent that is gone or has closed us: they are not waited for.
        os._exit(0)

    def _answer(self, call: dict[str, Any], subject: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        try:
            value = find(call["function"])(subject, *from_json(call["arguments"]))
            if inspect.iscoroutine(value):
                assert loop is not None, f"{call['function']} needs an event loop"
                import asyncio

                value = asyncio.run_coroutine_threadsafe(value, loop).result()
            answer = {"id": call["id"], "value": to_json(value)}
        except Exception as error:  # whatever it is, whoever asked is told
            answer = {"id": call["id"], "error": type(error).__name__, "message": str(error)}
        self._say(answer)

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()


def hold_gil(subject: object, seconds: float) -> float:
    """Sleep without giving the GIL away: no Python runs in this process; for how many seconds that was."""
    begun_s = time.monotonic()
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return time.monotonic() - begun_s


def main() -> None:
    end_with_parent()
    parent = Parent()
    make, arguments = find(sys.argv[1]), from_json(json.loads(sys.argv[2]))
    if inspect.iscoroutinefunction(make):
        import asyncio

        asyncio.run(make(parent, *arguments))
    else:
        parent.serve(make(*arguments)).join()
