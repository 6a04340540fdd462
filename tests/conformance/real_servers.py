"""Real servers of one system on this machine, and shell commands that crash, kill, freeze and heal them.

    python -m tests.conformance.MODULE FOLDER start|stop|kill|freeze|heal

kill and freeze choose the server that leads, because that one hurts most. The servers are processes of their own, as
the servers of a user are: pids and ports lie in files of the folder.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from raftmeta.conformance import Servers
from tests.lint.sources import ROOT
from tests.processes.waiting import free_ports, wait_until

START_S = 280.0
WORDS = ("start", "stop", "kill", "freeze", "heal")


class RealServers(ABC):
    """The servers in a folder; as a context they run. ports_each: how many ports a server needs."""

    module: str
    ports_each: int
    members: tuple[int, ...] = (1, 2, 3)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = folder / "ports"
        if not ports.exists():
            folder.mkdir(parents=True, exist_ok=True)
            ports.write_text(" ".join(str(port) for port in free_ports(self.ports_each * len(self.members))))
        numbers = [int(port) for port in ports.read_text().split()]
        each = self.ports_each
        self.members = self.members[: len(numbers) // each]  # as many as the folder was made for
        self.ports = {
            member: numbers[each * position : each * (position + 1)] for position, member in enumerate(self.members)
        }
        self._fault = folder / "fault"

    @property
    def addresses(self) -> str:
        """For clients."""
        return ",".join(f"127.0.0.1:{ports[0]}" for ports in self.ports.values())

    def servers(self) -> Servers:
        """The commands, as the conformance suite takes them; for one server only where others are a majority."""
        command = f"cd {shlex.quote(str(ROOT))} && {shlex.quote(sys.executable)} -m {self.module}"
        words = WORDS if len(self.members) > 1 else WORDS[:2]
        return Servers(**{word: f"{command} {shlex.quote(str(self.folder))} {word}" for word in words})

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # --- the commands -------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start all that do not run; returns when they serve."""
        for number in self.members:
            if self._pid(number) is None:
                self._start(number)
        self._wait_serving(self.members)

    def stop(self) -> None:
        """SIGKILL of all; returns when they are gone."""
        for number in self.members:
            self._kill(number)

    def kill(self) -> None:
        """SIGKILL of the leader."""
        number = self._leader()
        self._fault.write_text(str(number))
        self._kill(number)

    def freeze(self) -> None:
        """SIGSTOP of the leader."""
        number = self._leader()
        self._fault.write_text(str(number))
        os.kill(self._pid_of(number), signal.SIGSTOP)

    def heal(self) -> None:
        """Wake or start the one that was frozen or killed; returns when it serves."""
        number = int(self._fault.read_text())
        if self._pid(number) is None:
            self._start(number)
        else:
            os.kill(self._pid_of(number), signal.SIGCONT)
        self._wait_serving((number,))

    def main(self, word: str) -> None:
        """Do one of the commands."""
        {name: getattr(self, name) for name in WORDS}[word]()

    # --- one server ---------------------------------------------------------------------------------------------------
    @abstractmethod
    def command(self, number: int, data: Path) -> list[str]:
        """The program of a server, whose files lie in data."""

    @abstractmethod
    def is_serving(self, number: int) -> bool: ...

    @abstractmethod
    def is_leading(self, number: int) -> bool: ...

    def _start(self, number: int) -> None:
        data = self.folder / str(number)
        data.mkdir(exist_ok=True)
        command = self.command(number, data)
        with (data / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=data, start_new_session=True
            )
        process.returncode = 0  # not ours to wait for: it outlives the command that started it
        (data / "pid").write_text(str(process.pid))

    def _pid(self, number: int) -> int | None:
        """Of a server that runs. One that has ended is gone, also while nobody has waited for it."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / str(number) / "pid").read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return None if state == "Z" else pid
        return None

    def _pid_of(self, number: int) -> int:
        pid = self._pid(number)
        assert pid is not None, f"server {number} does not run"
        return pid

    def _kill(self, number: int) -> None:
        pid = self._pid(number)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: self._pid(number) is None, timeout_s=START_S, what=f"the end of server {number}")

    def _leader(self) -> int:
        def leading() -> list[int]:
            return [number for number in self.members if self.is_leading(number)]

        return wait_until(leading, timeout_s=START_S, what="a leader")[0]

    def _wait_serving(self, numbers: tuple[int, ...]) -> None:
        wait_until(lambda: all(map(self.is_serving, numbers)), timeout_s=START_S, what=f"{numbers} to serve")
