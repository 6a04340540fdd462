"""The processes of the demonstration as their parent holds them: start, command, report, kill by pid.

A child's standard input is its lifeline: when this process ends in whatever way, its children read the end of theirs
and end too. Children are sessions of their own, so that Ctrl-C reaches only the parent, which then cleans up in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START_S = 40.0
LOG_TAIL_BYTES = 2000
TOTALS = ("acknowledged", "unknown", "seen", "gaps")  # what a report counts from the start of its process


class DemoFailed(Exception):
    """The story could not be told to its end."""


class Process:
    """A Python module in a process of its own; what it writes to standard error is kept in a file."""

    def __init__(self, name: str, module: str, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._module = module
        self._process: asyncio.subprocess.Process | None = None

    async def _launch(self, *arguments: str) -> asyncio.StreamReader:
        """Start it; what it says."""
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", self._module, *arguments]
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
            )
        assert self._process.stdout is not None
        return self._process.stdout

    def _tell(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line)

    @property
    def pid(self) -> int:
        assert self._process is not None, "never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def kill(self) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):  # ended by itself, not yet noticed here
                os.kill(self.pid, signal.SIGKILL)

    async def gone(self) -> None:
        if self._process is not None:
            await self._process.wait()

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""


class LedgerProcess(Process):
    """The ledger; see demo/ledger.py."""

    def __init__(self, folder: Path) -> None:
        super().__init__("ledger", "demo.ledger", folder)
        self.port = 0  # not started
        self.file = folder / "ledger"

    async def start(self) -> None:
        said = await self._launch(str(self.file))
        port = await asyncio.wait_for(said.readline(), START_S)
        if not port:
            raise DemoFailed(f"the ledger ended\n{self.log_tail()}")
        self.port = int(port)


class MemberProcess(Process):
    """A member of a cluster, over all its lives. report: the last it said of itself. watched: what its watcher saw."""

    def __init__(
        self, module: str, id: int, peers: dict[str, str], folder: Path, ledger: LedgerProcess, writers: int
    ) -> None:
        super().__init__(str(id), module, folder)
        self.folder = folder / self.name
        self._settings = {
            "id": id,
            "peers": peers,
            "folder": str(self.folder),
            "writers": writers,
        }
        self._ledger = ledger
        self.life = 0
        self.is_ready = self.is_frozen = False
        self.report: dict[str, Any] = {}
        self.watched = 0
        self._before = dict.fromkeys(TOTALS, 0)
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._listening: asyncio.Task[None] | None = None
        self._is_killed = False

    async def start(self) -> None:
        """Start it, for the first time or again. It is not ready yet."""
        self.life += 1
        self.is_ready = self._is_killed = self.is_frozen = False
        settings = {
            **self._settings,
            "ledger": self._ledger.port,
            "life": self.life,
            "watch_from": self.watched + 1,
        }
        said = await self._launch(json.dumps(settings))
        self._listening = asyncio.create_task(self._listen(said))

    async def ready(self, *, timeout_s: float = START_S) -> None:
        await self.wait_for(lambda: self.is_ready, "to be ready", timeout_s=timeout_s)

    def kill(self) -> None:
        self._is_killed = True
        super().kill()

    @property
    def is_answering(self) -> bool:
        return self.is_alive and self.is_ready and not self.is_frozen

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.is_frozen = True

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.is_frozen = False

    def wipe(self) -> None:
        """Remove its folder; it must not run."""
        assert not self.is_alive, "the process still runs"
        shutil.rmtree(self.folder)

    async def gone(self) -> None:
        """On return also everything that it ever said is heard."""
        await super().gone()
        if self._listening is not None:
            await self._listening

    async def command(self, command: str, **arguments: Any) -> dict[str, Any]:
        self._tell(json.dumps({"command": command, **arguments}).encode() + b"\n")
        await self.wait_for(lambda: not self._answers.empty(), command)
        return self._answers.get_nowait()

    async def close(self) -> None:
        """The quiet end."""
        await self.command("close")
        assert self._process is not None and self._process.stdin is not None
        self._is_killed = True
        self._process.stdin.close()
        await self.gone()

    async def wait_for(self, condition: Any, what: str, *, timeout_s: float = START_S) -> None:
        """Until condition() is true; DemoFailed when the process ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if not self.is_alive and not self._is_killed:
                raise DemoFailed(f"process {self.name} ended by itself\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"process {self.name}: {what}: not within {timeout_s:g} s\n{self.report}\n{self.log_tail()}"
                )
            await asyncio.sleep(0.01)

    async def _listen(self, said: asyncio.StreamReader) -> None:
        self._before = {what: self.total(what) for what in TOTALS}
        self.report = {}
        while (line := await said.readline()).endswith(b"\n"):
            message = json.loads(line)
            if "report" in message:
                self.report = message["report"]
                self.watched = max(self.watched, self.report.get("watched") or 0)
            elif "answer" in message:
                self._answers.put_nowait(message["answer"])
            else:
                self.is_ready = True

    def total(self, what: str) -> int:
        """Of all lives: one of TOTALS."""
        return self._before[what] + int(self.report.get(what, 0))
