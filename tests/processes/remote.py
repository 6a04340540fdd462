"""One child process in which functions are called by name; it can be killed, paused and started again.

A child is a session of its own: Ctrl-C reaches only the parent, which then cleans up in order. It ends with its parent
in any case (child.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.processes.child import from_json, to_json

ROOT = Path(__file__).resolve().parents[2]
LOG_TAIL_BYTES = 4000
HEAR_S = 1.0
# A child dies with the thread that started it, and this one lives as long as the process.
STARTER = ThreadPoolExecutor(1, thread_name_prefix="starter")

Function = Callable[..., Any] | str  # of a module, or its name "module:function"


class ProcessGone(Exception):
    """The process ended before it answered; what it was asked to do may be done or not."""


class RemoteError(Exception):
    """The function raised in the process. kind: the name of the class of its exception."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def name_of(function: Function) -> str:
    """How a process finds a function of a module: "module:function"."""
    if isinstance(function, str):
        return function
    assert "<" not in function.__qualname__, f"{function.__qualname__} is no function of a module"
    return f"{function.__module__}:{function.__qualname__}"


class RemoteProcess:
    """A Python process around a subject, the value of make(*arguments) in there; over all its lives.

    log: the file that receives its standard error. name: for messages, by default that of the log. launcher: stands in
    front of the command, such as `ip netns exec <name>`; it must end by exec, so that the pid is that of the child.

    arguments, environment (variables beside our own): of the next start. life: counts the starts. report: the last that
    the process told of itself in this life, {} before the first. is_paused: stopped, by pause() or by others.
    is_ended: on purpose.
    """

    def __init__(
        self,
        make: Function,
        *arguments: Any,
        log: Path,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self.name = name or log.stem
        self.log = log
        self.arguments = arguments
        self.environment = dict(environment or {})
        self.launcher = tuple(launcher)
        self.life = 0
        self.report: dict[str, Any] = {}
        self.is_paused = False
        self.is_ended = False
        self._make = make
        self._reported_s = 0.0
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._next_id = 0
        self._answers_ended = False

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start it, for the first time or again; returns when the subject is made."""
        self.begin_start().result(timeout_s)

    def begin_start(self) -> Future[Any]:
        """As start, without waiting: the future ends when the subject is made. Raises OSError."""
        assert not self.is_alive, f"{self.name} runs already"
        made: Future[Any] = Future()
        with self._lock:
            self.life += 1
            self.report, self.is_paused = {}, False
            self._waiting, self._next_id, self._answers_ended = {0: made}, 1, False
            self._process = STARTER.submit(self._spawn).result()
            self.is_ended = False  # only now: until then it is the life before, which was ended on purpose
        self._reader = threading.Thread(target=self._read, args=(self._process, self._waiting), daemon=True)
        self._reader.start()
        return made

    def _spawn(self) -> subprocess.Popen[str]:
        python = [sys.executable, "-u", "-m", "tests.processes"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.launcher, *python, name_of(self._make), json.dumps(to_json(self.arguments))],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_crashed(self) -> bool:
        """Whether it ended although nobody ended it."""
        return self._process is not None and not self.is_alive and not self.is_ended

    @property
    def exit_code(self) -> int | None:
        """Of its last life: None while it runs; -9 after SIGKILL."""
        return None if self._process is None else self._process.poll()

    @property
    def report_age_s(self) -> float:
        """Seconds since it last told something of itself; infinite before."""
        return time.monotonic() - self._reported_s if self.report else float("inf")

    def begin_kill(self) -> None:
        """SIGKILL, by pid, without waiting for its end."""
        self.is_ended = True
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone and all that it ever said is heard.

        A call under way ends with ProcessGone.
        """
        self.begin_kill()
        self._reap()

    def pause(self) -> None:
        """SIGSTOP: it stands still, and believes that no time has passed."""
        self.is_paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def end(self, *, timeout_s: float = 40.0) -> int:
        """Close its standard input, which ends it; its exit code. Killed when that takes longer than timeout_s."""
        assert self._process is not None and self._process.stdin is not None
        self.is_ended = True
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()
        return self._process.returncode

    def _signal(self, number: int) -> None:
        """One to a process that has just ended is lost."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _reap(self) -> None:
        if self._process is None or self._process.stdin is None or self._reader is None:
            return
        self._process.wait()
        self._reader.join(HEAR_S)  # not forever: a fork of it that lives on keeps the pipe open
        self.is_paused = False
        with self._lock, contextlib.suppress(BrokenPipeError):  # a line was on its way when it was killed
            self._process.stdin.close()

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""

    # --- calls ------------------------------------------------------------------------------------------------------

    def begin(self, function: Function, *arguments: Any) -> Future[Any]:
        """Call function(subject, *arguments) over there; the future ends with its value, RemoteError or ProcessGone."""
        future: Future[Any] = Future()
        with self._lock:
            process = self._process
            assert process is not None and process.stdin is not None, f"{self.name} was never started"
            if self._answers_ended:
                future.set_exception(ProcessGone(f"{self.name}, process {process.pid}, is gone"))
                return future
            identifier, self._next_id = self._next_id, self._next_id + 1
            self._waiting[identifier] = future
            call = {"id": identifier, "function": name_of(function), "arguments": to_json(arguments)}
            try:
                process.stdin.write(json.dumps(call) + "\n")
                process.stdin.flush()
            except (BrokenPipeError, ValueError):
                self._waiting.pop(identifier, None)
                future.set_exception(ProcessGone(f"{self.name}, process {process.pid}, is gone"))
        return future

    def call(self, function: Function, *arguments: Any, timeout_s: float = 30.0) -> Any:
        """begin, and wait for the end."""
        return self.begin(function, *arguments).result(timeout_s)

    def _read(self, process: subprocess.Popen[str], waiting: dict[int, Future[Any]]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if not line.endswith("\n"):
                    break  # killed in the middle of it
                self._take(json.loads(line), waiting)
        with self._lock:
            # A killed process may take a call for a moment after its last word: nobody would answer that one.
            self._answers_ended |= self._waiting is waiting
            left = list(waiting.values())
            waiting.clear()
        for future in left:
            future.set_exception(ProcessGone(f"{self.name}, process {process.pid}, is gone\n{self.log_tail()}"))

    def _take(self, message: dict[str, Any], waiting: dict[int, Future[Any]]) -> None:
        if "report" in message:
            self.report, self._reported_s = message["report"], time.monotonic()
            return
        with self._lock:
            future = waiting.pop(message["id"])
        if "error" in message:
            future.set_exception(RemoteError(message["error"], message["message"]))
        else:
            future.set_result(from_json(message["value"]))
