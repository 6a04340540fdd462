"""Faults beneath a suite that starts and stops its servers itself: one server after the other is killed.

It kills a server that no client is connected to, while all servers of the cluster serve, and the suite cannot stop
another one before this one serves again: so those that are left are a majority. After the suite has stopped a server
and started it again, all are left alone for a while, because clients that know this server only are on their way to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from socket import create_connection  # bound here: kazoo's suite puts its own function into the module
from typing import Protocol

from tests.processes.waiting import wait_until

ASK_S = 2.0
SERVE_S = 60.0
LOOK_S = 0.5
logger = logging.getLogger(__name__)  # pytest shows it beside the failure of a test


class Victim(Protocol):
    """A server of the suite. number: from 1 in each cluster."""

    number: int
    client_port: int
    address: str

    @property
    def running(self) -> bool: ...

    def crash(self) -> None:
        """Kill it and start it again."""


def connections_to(port: int) -> int:
    """Established TCP connections to a port of this machine (proc(5), /proc/net/tcp)."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[3] == "01" and int(row[2].rpartition(":")[2], 16) == port for row in rows)


def serves(address: str) -> bool:
    """Whether it says that it takes writes."""
    host, _, port = address.partition(":")
    try:
        with create_connection((host, int(port)), timeout=ASK_S) as connection:
            connection.sendall(b"isro")
            return b"".join(iter(lambda: connection.recv(64), b"")) == b"rw"
    except OSError:
        return False


class Faults(threading.Thread):
    """every_s: from one kill to the next; later where nobody may be killed yet.

    connections, serving, clock: of the machine, for all but tests.
    """

    def __init__(
        self,
        every_s: float,
        *,
        connections: Callable[[int], int] = connections_to,
        serving: Callable[[str], bool] = serves,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self.lock = threading.RLock()  # held while a server is started or stopped, and from a kill until it serves
        self.kills = Counter[int]()  # by the server's number
        self.looks = Counter[str]()  # by what came of them
        self._every_s = every_s
        self._connections = connections
        self._serving = serving
        self._clock = clock
        self._servers: list[Victim] = []
        self._restarted_s = self._killed_s = -every_s
        self._is_over = threading.Event()

    def know(self, server: Victim) -> None:
        """A server that was made. The first one of a cluster takes the place of all those before it."""
        with self.lock:
            self._servers = [server] if server.number == 1 else [*self._servers, server]

    def restarted(self) -> None:
        """The suite itself starts a server that it had stopped."""
        self._restarted_s = self._clock()

    def run(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Kill one, if it is time and one may be killed; those that were killed least come first."""
        if self._clock() < self._killed_s + self._every_s:
            return
        with self.lock:
            servers = list(self._servers)
        # Asked without the lock: the suite waits for nobody's answer.
        if not self._all_run(servers) or not all(self._serving(one.address) for one in servers):
            self.looks["not all served"] += 1
            return
        with self.lock:
            free = [one for one in servers if not self._connections(one.client_port)]
            if servers != self._servers or not self._all_run(servers):
                self.looks["not all served"] += 1
            elif self._clock() < self._restarted_s + self._every_s:
                self.looks["clients on their way"] += 1
            elif not free:
                self.looks["all had clients"] += 1
            else:
                self.looks["kill"] += 1
                self._kill(min(free, key=lambda one: self.kills[one.number]))

    def _all_run(self, servers: list[Victim]) -> bool:
        return bool(servers) and all(one.running for one in servers)

    def _kill(self, victim: Victim) -> None:
        logger.warning("kill server=%d", victim.number)
        victim.crash()
        self.kills[victim.number] += 1
        try:
            wait_until(
                lambda: self._serving(victim.address), timeout_s=SERVE_S, what="the server to serve", pause_s=0.1
            )
        except AssertionError:
            self.looks["did not serve again"] += 1
        self._killed_s = self._clock()
        logger.warning("restarted server=%d", victim.number)
