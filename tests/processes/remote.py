"""One child process in which functions are called by name; it can be killed, paused and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.processes.child import from_json, to_json

ROOT = Path(__file__).resolve().parents[2]
LOG_TAIL_BYTES = 4000


class ProcessGone(Exception):
    """The process ended before it answered; what it was asked to do may be done or not."""


class RemoteError(Exception):
    """The function raised in the process. kind: the name of the class of its exception."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def name_of(function: Callable[..., Any]) -> str:
    """How a process finds a function of a module: "module:function"."""
    assert "<" not in function.__qualname__, f"{function.__qualname__} is no function of a module"
    return f"{function.__module__}:{function.__qualname__}"


class RemoteProcess:
    """A Python process around a subject, the value of make(*arguments) in there.

    log: the file that receives its standard error, over all its lives. environment: variables beside our own.
    """

    def __init__(
        self, make: Callable[..., Any], *arguments: Any, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self._command = [sys.executable, "-u", "-m", "tests.processes.child", name_of(make)]
        self._command.append(json.dumps(to_json(arguments)))
        self.log = log
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._next_id = 0
        self._answers_ended = False

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start it, for the first time or again; returns when the subject is made."""
        self.begin_start().result(timeout_s)

    def begin_start(self) -> Future[Any]:
        """As start, without waiting: the future ends when the subject is made."""
        assert not self.is_alive, "already running"
        made: Future[Any] = Future()
        with self._lock, self.log.open("ab") as log:
            self._waiting, self._next_id, self._answers_ended = {0: made}, 1, False
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        threading.Thread(target=self._read_answers, args=(self._process, self._waiting), daemon=True).start()
        return made

    @property
    def pid(self) -> int:
        assert self._process is not None, "never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, by pid; returns when the process is gone. What was asked of it ends with ProcessGone."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self, *, timeout_s: float = 40.0) -> int:
        """Close its standard input, which ends it; returns its exit code."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(timeout_s)
        self._reap()
        return code

    def _reap(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.wait()
            with self._lock, contextlib.suppress(BrokenPipeError):  # a line was on its way when it was killed
                self._process.stdin.close()

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""

    # --- calls ------------------------------------------------------------------------------------------------------

    def begin(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call function(subject, *arguments) over there; the future ends with its value, RemoteError or ProcessGone."""
        future: Future[Any] = Future()
        with self._lock:
            process = self._process
            assert process is not None and process.stdin is not None, "never started"
            if self._answers_ended:
                future.set_exception(ProcessGone(f"process {process.pid} is gone"))
                return future
            identifier, self._next_id = self._next_id, self._next_id + 1
            self._waiting[identifier] = future
            call = {"id": identifier, "function": name_of(function), "arguments": to_json(arguments)}
            try:
                process.stdin.write(json.dumps(call) + "\n")
                process.stdin.flush()
            except (BrokenPipeError, ValueError):
                self._waiting.pop(identifier, None)
                future.set_exception(ProcessGone(f"process {process.pid} is gone"))
        return future

    def call(self, function: Callable[..., Any], *arguments: Any, timeout_s: float = 30.0) -> Any:
        """begin, and wait for the end."""
        return self.begin(function, *arguments).result(timeout_s)

    def _read_answers(self, process: subprocess.Popen[str], waiting: dict[int, Future[Any]]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if not line.endswith("\n"):
                    break  # killed in the middle of an answer
                answer = json.loads(line)
                with self._lock:
                    future = waiting.pop(answer["id"])
                if "error" in answer:
                    future.set_exception(RemoteError(answer["error"], answer["message"]))
                else:
                    future.set_result(from_json(answer["value"]))
        with self._lock:
            # A killed process may take a call for a moment after its last word: nobody would answer that one.
            self._answers_ended |= self._waiting is waiting
            left = list(waiting.values())
            waiting.clear()
        for future in left:
            future.set_exception(ProcessGone(f"process {process.pid} is gone\n{self.log_tail()}"))
