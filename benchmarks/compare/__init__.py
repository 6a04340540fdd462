"""The peers: what a user would run instead, three servers each on loopback, loaded by pipelined clients.

Each peer is a context that founds a cluster in a folder of its own and leaves no process behind, with `puts` and `gets`
that return a Sample. What is not in Python comes from wheels and archives of PyPI (provision.py), and nothing is looked
for before a peer is asked for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.measure import Sample
from tests.processes.child import end_with_parent
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import wait_until

MEMBERS = 3
END_S = 10.0


class Peer(ABC):
    """A cluster to compare with. name and settings stand in the table; is_embedded: the load runs inside the leader."""

    name: str
    settings: str
    is_embedded = False

    def __init__(self, folder: Path) -> None:
        self._base = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.members: Sequence[RemoteProcess] = ()

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-", dir=self._base))
        try:
            self.found()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.kill()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for process in self._processes:
            process.wait(END_S)
        self._processes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def found(self) -> None:
        """Start all members, by spawn() or as `members`; on return there is a leader that takes writes."""

    @abstractmethod
    def puts(self, *, outstanding: int, value_bytes: int, seconds: float, warmup_s: float) -> Sample:
        """Writes with so many outstanding, for so many seconds after the warm-up."""

    def spawn(self, command: Sequence[str | Path], *, log: str, environment: Mapping[str, str] | None = None) -> None:
        """A server that ends with this process at the latest."""
        with (self.folder / log).open("wb") as file:
            self._processes.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    preexec_fn=end_with_parent,
                )
            )

    def wait_for_leader(self, leads: Callable[[Any], bool], *, timeout_s: float = 30.0) -> RemoteProcess:
        """The first member in which leads() is true."""
        leading = wait_until(
            lambda: [member for member in self.members if member.call(leads)],
            timeout_s=timeout_s,
            what=lambda: f"a leader\n{self.logs()}",
        )
        return leading[0]

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-1000:]}" for path in sorted(self.folder.glob("*.log")))


class ReadablePeer(Peer):
    """One whose reads are linearizable, and so can be compared."""

    @abstractmethod
    def gets(self, *, outstanding: int, seconds: float, warmup_s: float) -> Sample:
        """Linearizable reads with so many outstanding, for so many seconds after the warm-up."""
