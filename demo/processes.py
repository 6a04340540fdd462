"""The processes of the demonstration as the storyteller holds them: the ledger, and the members of a cluster."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.processes.remote import Function, ProcessGone, RemoteError, RemoteProcess

START_S = 40.0
TOTALS = ("acknowledged", "unknown", "seen", "gaps")  # what a report counts from the start of its process


class DemoFailed(Exception):
    """The story could not be told to its end."""


class ActorProcess(RemoteProcess):
    """One whose failures end the story."""

    def ready(self, started: Future[Any], *, timeout_s: float = START_S) -> None:
        """Until what begin_start returned has ended."""
        self._result_of(started, "its start", timeout_s)

    def command(self, function: Function, *arguments: Any, timeout_s: float = START_S) -> Any:
        """Call a function over there. Raises DemoFailed."""
        return self._result_of(self.begin(function, *arguments), str(function), timeout_s)

    def _result_of(self, future: Future[Any], what: str, timeout_s: float) -> Any:
        try:
            return future.result(timeout_s)
        except (ProcessGone, RemoteError) as error:
            raise DemoFailed(f"process {self.name}: {what}: {error}") from error
        except TimeoutError as error:
            told = f"{self.report}\n{self.log_tail()}"
            raise DemoFailed(f"process {self.name}: {what}: not within {timeout_s:g} s\n{told}") from error


class LedgerProcess(ActorProcess):
    """The ledger; see demo/ledger.py."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger"
        self.port = 0  # not started
        super().__init__("demo.ledger:keep", str(self.file), log=folder / "ledger.log")

    def open(self) -> None:
        """Start it, and learn its port."""
        self.ready(self.begin_start())
        self.port = self.command("demo.ledger:port")


class MemberProcess(ActorProcess):
    """A member of a cluster. module: what it runs. folder: of its data. clients: where it listens for clients."""

    def __init__(
        self,
        module: str,
        id: int,
        peers: dict[str, str],
        folder: Path,
        ledger: LedgerProcess,
        *,
        writers: int,
        clients: str = "",
    ) -> None:
        self.folder = folder / str(id)
        super().__init__(f"{module}:live", log=folder / f"{id}.log")
        self._module = module
        self._settings = {"id": id, "peers": peers, "folder": str(self.folder), "writers": writers, "clients": clients}
        self._ledger = ledger
        self._watched = 0
        self._before = dict.fromkeys(TOTALS, 0)
        self._started: Future[Any] = Future()

    def begin_start(self) -> Future[Any]:
        self._before = {what: self.total(what) for what in TOTALS}
        self._watched = max(self._watched, self.report.get("watched") or 0)
        known = {"ledger": self._ledger.port, "life": self.life + 1, "watch_from": self._watched + 1}
        self.arguments = ({**self._settings, **known},)
        self._started = super().begin_start()
        return self._started

    @property
    def is_ready(self) -> bool:
        return self._started.done() and self._started.exception() is None

    @property
    def is_answering(self) -> bool:
        return self.is_alive and self.is_ready and not self.is_paused

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function of its module. Raises DemoFailed."""
        return self.command(f"{self._module}:{function}", *arguments)

    def hold_gil(self, seconds: float) -> None:
        """Nothing of Python runs there for so long; returns when it is over."""
        self.command("tests.processes.child:hold_gil", seconds, timeout_s=seconds + START_S)

    def wipe(self) -> None:
        """Remove its folder; it must not run."""
        assert not self.is_alive, "the process still runs"
        shutil.rmtree(self.folder)

    def close(self) -> None:
        """The quiet end."""
        self.ask("close")
        self.end()

    def total(self, what: str) -> int:
        """Of all lives: one of TOTALS."""
        return self._before[what] + int(self.report.get(what, 0))
