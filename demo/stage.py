"""What an act needs: member processes and their ledger, for raftmeta and for the peer alike."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self, TypeVar

from demo.display import Display, MemberView
from demo.ledger import Acknowledgement
from demo.processes import START_S, DemoFailed, LedgerProcess, MemberProcess
from demo.report import Records, failover_ns, longest_gap_ns, read_records
from tests.processes.leading import leader_of
from tests.processes.waiting import free_addresses, wait_until

PICTURE_S = 0.125
WAIT_MAX_S = 30.0
LOOK_S = 0.005
NS_PER_MS = 1e6

T = TypeVar("T")


class LedgerTail:
    """The ledger's file as it grows. Any thread may read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._rest = ""
        self._lock = threading.Lock()
        self.promised: list[Acknowledgement] = []

    def read(self) -> list[Acknowledgement]:
        """What came since the last call."""
        with self._lock:
            *lines, self._rest = (self._rest + self._file.read()).split("\n")
            new = [Acknowledgement.parse(line) for line in lines]
            self.promised += new
        return new

    def close(self) -> None:
        self._file.close()


@dataclasses.dataclass(frozen=True)
class Flow:
    """Acknowledgements during some seconds: how many per second, and the longest time without one, in milliseconds."""

    rate: float
    gap_ms: float


class Stage:
    """Members of one module, in processes. As a context it is started; whatever happens, no process is left.

    url: of their clients, if it serves_clients.
    """

    def __init__(
        self,
        title: str,
        module: str,
        folder: Path,
        display: Display,
        *,
        members: int,
        writers: int,
        serves_clients: bool = False,
    ) -> None:
        self.title = title
        folder.mkdir()
        self._folder = folder
        self._display = display
        self._ledger = LedgerProcess(folder)
        self._is_over = threading.Event()
        self._drawing = threading.Thread(target=self._draw)
        addresses = free_addresses(2 * members)
        peers = {str(id): address for id, address in enumerate(addresses[:members], 1)}
        clients = dict(zip(peers, addresses[members:] if serves_clients else [""] * members, strict=True))
        self.url = "raft://" + ",".join(clients.values())
        self.members = [
            MemberProcess(module, int(id), peers, folder, self._ledger, writers=writers, clients=clients[id])
            for id in peers
        ]

    def __enter__(self) -> Self:
        try:
            self._ledger.open()
            self.start(self.members)
        except BaseException:
            self._end()
            raise
        self.tail = LedgerTail(self._ledger.file)
        self._drawing.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._drawing.join()
        self.tail.close()
        self._end()

    def _end(self) -> None:
        for process in (*self.members, self._ledger):
            process.kill()

    # --- doing --------------------------------------------------------------------------------------------------------
    def start(self, members: Iterable[MemberProcess], *, timeout_s: float = START_S) -> None:
        """All at once; on return they are ready."""
        for member, started in [(member, member.begin_start()) for member in members]:
            member.ready(started, timeout_s=timeout_s)

    def kill_all(self) -> int:
        """As a power cut that spares the disks; the time of it."""
        killed_ns = time.monotonic_ns()
        for member in self.members:
            member.begin_kill()
        for member in self.members:
            member.kill()
        return killed_ns

    def read_back(self) -> dict[str, Records]:
        """Let the clients come to rest, and ask each member for all that it has."""
        for member in self.members:
            member.ask("stop_writing")
        self.tail.read()
        records = {}
        for member in self.members:
            path = self._folder / f"read-{member.name}"
            member.ask("read_back", str(path))
            with path.open() as file:
                records[member.name] = read_records(file)
        return records

    # --- asking -------------------------------------------------------------------------------------------------------
    def leader(self) -> MemberProcess:
        """Who leads by its own word and that of a majority."""

        def agreed() -> MemberProcess | None:
            told = {member.name: member.report for member in self.members if member.is_answering and member.report}
            leader = leader_of(told, [member.name for member in self.members])
            return next((member for member in self.members if member.name == leader), None)

        return wait_for(agreed, "a leader that a majority follows")

    def failover_ms(self, since_ns: int) -> float:
        """Until the first promise that was asked for after since_ns."""
        passed: list[int] = []

        def is_over() -> bool:
            self.tail.read()
            passed_ns = failover_ns(self.tail.promised, since_ns)
            passed[:] = [] if passed_ns is None else [passed_ns]
            return bool(passed)

        wait_for(is_over, "a write that was begun after the kill")
        return passed[0] / NS_PER_MS

    def flow(self, members: Iterable[MemberProcess], first_ns: int, last_ns: int) -> Flow:
        """What the clients at these members were promised in that time."""
        self.tail.read()
        names = {member.name for member in members}
        times = [
            one.acknowledged_ns
            for one in self.tail.promised
            if one.owner in names and first_ns <= one.acknowledged_ns < last_ns
        ]
        gap_ns = longest_gap_ns(times, first_ns, last_ns)
        return Flow(len(times) * 1e9 / (last_ns - first_ns), gap_ns / NS_PER_MS)

    # --- the picture --------------------------------------------------------------------------------------------------
    def _draw(self) -> None:
        before, before_s = 0, time.monotonic()
        while not self._is_over.wait(PICTURE_S):
            self.tail.read()
            now, now_s = len(self.tail.promised), time.monotonic()
            rate = (now - before) / (now_s - before_s)
            before, before_s = now, now_s
            self._display.picture(self.title, [view_of(member) for member in self.members], now, rate)


@contextlib.contextmanager
def frozen(member: MemberProcess) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end whatever happens."""
    member.pause()
    try:
        yield
    finally:
        member.resume()


def view_of(member: MemberProcess) -> MemberView:
    report = member.report
    return MemberView(
        name=member.name,
        pid=member.pid,
        life=member.life,
        state="killed"
        if not member.is_alive
        else "frozen"
        if member.is_paused
        else ""
        if member.is_ready
        else "starting",
        role=report.get("role", ""),
        is_controller=report.get("controller", "") == member.name,
        epoch=report.get("epoch", 0),
        term=report.get("term", 0),
        applied=report.get("applied", 0),
        partitions=report.get("partitions", 0),
    )


def wait_for(condition: Callable[[], T], what: str, *, timeout_s: float = WAIT_MAX_S) -> T:
    return wait_until(condition, timeout_s=timeout_s, what=what, failure=DemoFailed, pause_s=LOOK_S)
