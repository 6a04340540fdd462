"""A program of somebody else as a child process: a Java server, a database, another project's test suite.

It is started from a list of words, killed, paused and ended by its pid, and never outlives its parent. What it prints
goes to its log. A program that `talks` answers lines: one line is asked at a time, and its answer is one line too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.processes.child import end_with_parent
from tests.processes.remote import LOG_TAIL_BYTES, STARTER
from tests.processes.waiting import wait_until


class ProgramFailed(Exception):
    """A program ended early, or with an exit code that says so; the end of its log is in the message."""


class Program:
    """One program, over all its lives.

    command: the words of its next start. log: receives what it prints, its answers aside. environment: variables beside
    our own. folder: where it runs. talks: whether it answers lines of its standard input. reads: a file that is its
    standard input instead.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        talks: bool = False,
        reads: Path | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self.environment = dict(environment or {})
        self.folder = folder
        self._talks = talks
        self._reads = reads
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        assert not self.is_alive, f"{self.command[0]} runs already"
        # The kernel ends a child with the thread that started it: that thread lives as long as the process.
        self._process = STARTER.submit(self._spawn).result()
        return self

    def _spawn(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE if self._talks else None
        with self.log.open("ab") as log, (self._reads or Path(os.devnull)).open("rb") as given:
            return subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=pipe or given,
                stdout=pipe or log,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.command[0]} was never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self, *, timeout_s: float) -> int:
        """Its exit code. Killed when it takes longer, which is a failure."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramFailed(f"not ended within {timeout_s:g} s\n{self.log_tail()}") from None

    def wait_until(self, condition: Callable[[], object], *, timeout_s: float, what: str) -> None:
        """Wait for a condition of a program that must stay alive meanwhile."""

        def holds() -> bool:
            if not self.is_alive:
                raise ProgramFailed(f"it ended before {what}\n{self.log_tail()}")
            return bool(condition())

        wait_until(holds, timeout_s=timeout_s, what=lambda: f"{what}\n{self.log_tail()}", pause_s=0.05)

    def ask(self, line: str) -> str:
        """Say a line and return the answer, without its end of line."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.endswith("\n"):
            raise ProgramFailed(f"no answer to {line!r}\n{self.log_tail()}")
        return answer[:-1]

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._signal(signal.SIGKILL)
        self._reap()

    def end(self, *, timeout_s: float = 40.0) -> None:
        """SIGTERM and, if that does not end it in time, SIGKILL."""
        self._signal(signal.SIGTERM)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _reap(self) -> None:
        process = self._process
        if process is None:
            return
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def run_program(
    command: Sequence[str | Path],
    *,
    log: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    reads: Path | None = None,
) -> None:
    """Run it to its end. Raises ProgramFailed with the end of its log if its exit code is not 0."""
    with Program(command, log=log, environment=environment, folder=folder, reads=reads) as program:
        if code := program.wait(timeout_s=timeout_s):
            raise ProgramFailed(f"{program.command[0]} ended with {code}\n{program.log_tail()}")
