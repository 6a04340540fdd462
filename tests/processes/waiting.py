"""Waiting for a condition of the real world, with a deadline: the only place of the tests that sleeps."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PAUSE_S = 0.002
LOWEST_PORT = 10_000


def wait_until(
    condition: Callable[[], T],
    *,
    timeout_s: float,
    what: str | Callable[[], str],
    failure: type[Exception] = AssertionError,
    pause_s: float = PAUSE_S,
) -> T:
    """Return the first true value of condition(); a failure with `what` when timeout_s have passed without one.

    what: the condition in words, or a function that also tells how things stand when the time is over.
    pause_s: between two looks.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise failure(f"not within {timeout_s:g} s: {what() if callable(what) else what}")
        time.sleep(pause_s)
    return value


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody uses just now, all different.

    Out of those that the kernel gives to no outgoing connection: else any program's next one could take it before it is
    listened on. The suite's processes look for ports at the same time, and a port is free while its node is stopped: so
    each process has every n-th port.
    """
    highest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().randrange(LOWEST_PORT + number, highest, processes)
        if _is_free(port):
            ports.add(port)
    return list(ports)


def free_port_block(count: int) -> int:
    """The first of so many loopback ports in a row that nobody uses just now: for programs that count up from one."""
    while True:
        first = free_ports(1)[0]
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def free_addresses(count: int) -> list[str]:
    """Loopback addresses that nobody uses just now."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
