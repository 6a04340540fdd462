"""A Python module in a process of its own, as the run holds it: start, command, report, pause, kill by pid.

The child's standard input is its lifeline: when the run ends in whatever way, its children read the end of theirs and
end too. They are sessions of their own, so that Ctrl-C reaches only the run, which then cleans up in order. A line of
JSON on standard input is a command; what the child says on standard output is `{"report": ...}` or `{"id", "answer" |
"error"}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from jepsen.clock import NS_PER_S, now_ns

ROOT = Path(__file__).resolve().parents[1]
LOG_TAIL_BYTES = 3000


class ProcessGone(Exception):
    """The process ended before it answered; what it was asked to do may be done or not."""


class CommandFailed(Exception):
    """The process answered with an error. kind: the name of its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Process:
    """One child, over all its lives. report: the last that it said of itself in this life; {} before the first.

    launcher: what stands in front of the command, such as `ip netns exec <name>`; it must end by exec, so that the pid
    is that of the child. log: the file that receives its standard error.
    """

    def __init__(self, name: str, module: str, *, log: Path, launcher: Sequence[str] = ()) -> None:
        self.name = name
        self.log = log
        self.launcher = tuple(launcher)
        self.life = 0
        self.report: dict[str, Any] = {}
        self._module = module
        self._reported_ns = 0
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._next_id = 0

    # --- life ---------------------------------------------------------------------------------------------------------
    def launch(self, settings: Mapping[str, Any], *, environment: Mapping[str, str] | None = None) -> None:
        """Start it, for the first time or again; it gets settings as JSON. Raises OSError."""
        assert not self.is_alive, f"{self.name} runs already"
        self.life += 1
        self.report = {}
        command = [*self.launcher, sys.executable, "-m", self._module, json.dumps({**settings, "life": self.life})]
        with self.log.open("ab") as log, self._lock:
            self._waiting = {}
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process, self._waiting), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Of its last life: None while it runs; -9 after SIGKILL."""
        return None if self._process is None else self._process.poll()

    @property
    def report_age_s(self) -> float:
        """Seconds since it last said something of itself; infinite before."""
        return (now_ns() - self._reported_ns) / NS_PER_S if self.report else float("inf")

    def signal(self, number: int) -> None:
        """Send a signal; one to a process that has just ended is lost."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone and everything it ever said is heard."""
        self.signal(signal.SIGKILL)
        self._reap()

    def end(self, *, timeout_s: float = 10.0) -> int:
        """Close its standard input, which ends it; its exit code. Killed when that takes longer than timeout_s."""
        assert self._process is not None and self._process.stdin is not None
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()
        return self._process.returncode

    def _reap(self) -> None:
        if self._process is None or self._reader is None or self._process.stdin is None:
            return
        self._process.wait()
        self._reader.join()
        with self._lock, contextlib.suppress(BrokenPipeError):  # a line was on its way when it was killed
            self._process.stdin.close()

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""

    # --- commands -----------------------------------------------------------------------------------------------------
    def begin(self, command: str, **arguments: Any) -> Future[Any]:
        """Give a command; the future ends with its answer, CommandFailed or ProcessGone."""
        future: Future[Any] = Future()
        with self._lock:
            process = self._process
            assert process is not None and process.stdin is not None, f"{self.name} was never started"
            identifier, self._next_id = self._next_id, self._next_id + 1
            self._waiting[identifier] = future
            line = json.dumps({"id": identifier, "command": command, "arguments": arguments}) + "\n"
            try:
                process.stdin.write(line)
                process.stdin.flush()
            except (BrokenPipeError, ValueError):
                self._waiting.pop(identifier, None)
                future.set_exception(ProcessGone(f"{self.name} is gone"))
        return future

    def command(self, command: str, *, timeout_s: float = 10.0, **arguments: Any) -> Any:
        """begin, and wait for the answer. Raises CommandFailed, ProcessGone, TimeoutError."""
        return self.begin(command, **arguments).result(timeout_s)

    def _read(self, process: subprocess.Popen[str], waiting: dict[int, Future[Any]]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if not line.endswith("\n"):
                    break  # killed in the middle of it
                message = json.loads(line)
                if "report" in message:
                    self.report, self._reported_ns = message["report"], now_ns()
                    continue
                with self._lock:
                    future = waiting.pop(message["id"])
                if "error" in message:
                    future.set_exception(CommandFailed(message["error"], message["message"]))
                else:
                    future.set_result(message["answer"])
        process.wait()
        with self._lock:
            left = list(waiting.values())
            waiting.clear()
        for future in left:
            future.set_exception(ProcessGone(f"{self.name} is gone\n{self.log_tail()}"))
