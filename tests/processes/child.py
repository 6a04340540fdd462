"""The inside of a RemoteProcess: makes its subject, then answers calls until its standard input ends.

    python -m tests.processes.child module:function '[arguments as JSON]'

A call is one line of JSON, {"id", "function", "arguments"}; each runs on a thread of its own, as function(subject,
*arguments). An answer is {"id", "value"} or {"id", "error", "message"}. The process ends when its parent does.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

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


class Answers:
    """One line per answer on what was the standard output; anything printed goes to the log instead."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        self._lock = threading.Lock()
        os.dup2(2, 1)

    def send(self, answer: dict[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(answer) + "\n")
            self._out.flush()


def serve(subject: Any, answers: Answers) -> None:
    def run(call: dict[str, Any]) -> None:
        try:
            value = find(call["function"])(subject, *from_json(call["arguments"]))
            answers.send({"id": call["id"], "value": to_json(value)})
        except Exception as error:
            answers.send({"id": call["id"], "error": type(error).__name__, "message": str(error)})

    for line in sys.stdin:
        threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = Answers()
    subject = find(sys.argv[1])(*from_json(json.loads(sys.argv[2])))
    answers.send({"id": 0, "value": os.getpid()})
    serve(subject, answers)
    # Calls that still run belong to a parent that is gone or has closed us: they are not waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
