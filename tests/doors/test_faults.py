"""Kills beneath a suite: each server in turn, and only where the cluster and its clients go on."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tests.doors.faults import Faults

EVERY_S = 5.0


@dataclass
class Server:
    """A server that only says that it was killed."""

    number: int
    running: bool = False
    crashes: int = 0

    @property
    def client_port(self) -> int:
        return self.number

    @property
    def address(self) -> str:
        return str(self.number)

    def crash(self) -> None:
        self.crashes += 1


class Suite:
    """A cluster of three, and a clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.used: set[int] = set()
        self.silent: set[str] = set()
        self.faults = Faults(
            EVERY_S,
            connections=lambda port: int(port in self.used),
            serving=lambda address: address not in self.silent,
            clock=lambda: self.now_s,
        )

    def look(self) -> None:
        """Behind the time of a kill."""
        self.faults.look()
        self.now_s += EVERY_S

    def cluster(self) -> list[Server]:
        """All servers are made first, and then started, as kazoo's suite does it."""
        servers = [Server(number) for number in (1, 2, 3)]
        for server in servers:
            self.faults.know(server)
        for server in servers:
            server.running = True
        return servers


def test_each_server_is_killed_in_turn_while_no_client_uses_it() -> None:
    suite = Suite()
    servers = suite.cluster()
    for _ in range(6):
        suite.look()
    assert [server.crashes for server in servers] == [2, 2, 2]
    suite.used = {1, 2}
    suite.look()
    assert [server.crashes for server in servers] == [2, 2, 3] and sum(suite.faults.kills.values()) == 7


def test_nobody_is_killed_while_another_one_is_away() -> None:
    """Neither while the suite has stopped one, nor before one that was killed serves again: two of three are needed."""
    suite = Suite()
    servers = suite.cluster()
    servers[0].running = False
    suite.look()
    servers[0].running = True
    suite.silent = {"3"}
    suite.look()
    assert [server.crashes for server in servers] == [0, 0, 0]
    suite.silent = set()
    suite.look()
    assert [server.crashes for server in servers] == [1, 0, 0]


def test_nobody_is_killed_when_the_suite_has_just_started_a_server_again() -> None:
    """A client that knows this server alone has not come back yet: the server would look as if nobody used it."""
    suite = Suite()
    servers = suite.cluster()
    suite.faults.restarted()
    suite.look()
    assert [server.crashes for server in servers] == [0, 0, 0]
    suite.now_s += EVERY_S
    suite.look()
    assert [server.crashes for server in servers] == [1, 0, 0]


def test_the_suite_stops_nobody_before_the_one_that_was_killed_serves_again() -> None:
    """Its own stops need the lock, which is held while the killed server starts."""
    suite = Suite()
    servers = suite.cluster()
    seen: list[tuple[int, bool]] = []

    def could_stop() -> bool:
        could = []
        suite_thread = threading.Thread(target=lambda: could.append(suite.faults.lock.acquire(blocking=False)))
        suite_thread.start()
        suite_thread.join()
        return could[0]

    def serving(_address: str) -> bool:
        crashes = sum(server.crashes for server in servers)
        if crashes:
            seen.append((crashes, could_stop()))
        return len(seen) != 1  # the first look behind the kill finds that it does not serve yet

    suite.faults = Faults(EVERY_S, connections=lambda _: 0, serving=serving, clock=lambda: suite.now_s)
    for server in servers:
        suite.faults.know(server)
    suite.look()
    assert seen == [(1, False), (1, False)] and could_stop()


def test_another_cluster_takes_the_place_of_the_one_before_it() -> None:
    suite = Suite()
    before, after = suite.cluster(), suite.cluster()
    before[0].running = False
    suite.look()
    assert [server.crashes for server in (*before, *after)] == [0, 0, 0, 1, 0, 0]
