"""What one process saw, written down before it goes on: the raw material of a run's history.

A line is written by one call of write() before the request it announces is sent, and after the answer it tells has
come. So a process that is killed leaves an invocation behind for everything that it may have caused, and a completion
only of what it was really told. Lines are JSON arrays, `[kind, time_ns, ...]`:

    ["invoke", time_ns, workload, process, operation, key, arguments]
    ["ok", time_ns, workload, process, result, revision]          revision: null when not told
    ["fail" | "info", time_ns, workload, process]
    ["observe", time_ns, kind, subject, process, node, revision, token, value]

The order of a whole run is that of the clock (jepsen/clock.py). Where times tie, invocations come first: then the two
operations overlap, which claims less about real time than was true, and so accuses nobody wrongly.

This file decides what a line looks like. It never judges what stands in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jepsen.clock import now_ns

NOT_TOLD = -1


class Spool:
    """The file of one process in one of its lives. node: where it runs, "" for a client process."""

    def __init__(self, path: Path, *, node: str = "") -> None:
        self.node = node
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def invoke(self, workload: str, process: int, operation: str, key: Any, arguments: Any) -> None:
        """The process is about to ask for an operation."""
        self._write(["invoke", now_ns(), workload, process, operation, key, arguments])

    def ok(self, workload: str, process: int, result: Any, revision: int | None) -> None:
        """Its operation is done, with this result; a refusal is a result."""
        self._write(["ok", now_ns(), workload, process, result, revision])

    def fail(self, workload: str, process: int) -> None:
        """Its operation was certainly not executed, and never will be."""
        self._write(["fail", now_ns(), workload, process])

    def info(self, workload: str, process: int) -> None:
        """Nobody knows what became of its operation."""
        self._write(["info", now_ns(), workload, process])

    def observe(
        self,
        kind: str,
        subject: str,
        *,
        process: int = NOT_TOLD,
        revision: int = NOT_TOLD,
        token: int = NOT_TOLD,
        value: str = "",
        time_ns: int | None = None,
    ) -> None:
        """Something that was seen and is no operation of a model; docs/jepsen.md lists the kinds.

        time_ns: a moment at which it was certainly so, by jepsen.clock; None: now.
        """
        seen_ns = now_ns() if time_ns is None else time_ns
        self._write(["observe", seen_ns, kind, subject, process, self.node, revision, token, value])

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: list[Any]) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def read_spool(path: Path) -> Iterator[list[Any]]:
    """The lines of a spool. A last one without its end is a killed process's: what it announces was never sent."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
