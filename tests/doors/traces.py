"""The same programs on every kind of server: the text of each connection must be that of testdata/traces.txt.

A real ZooKeeper wrote that file: `python -m tests.doors traces --on zookeeper --write`. It is read before it is
committed, and `./build.sh doors traces --on zookeeper` checks that it is still true.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from tests.doors import conversations
from tests.doors.servers import Servers
from tests.doors.tap import Tap
from tests.processes.program import run_program
from tests.processes.remote import ROOT

GOLDEN = Path(__file__).parent / "testdata" / "traces.txt"
RUN_S = 120.0
SHOWN_LINES = 40
HEAD = "=== "
Traces = dict[str, list[str]]


def kazoo_program(folder: Path) -> Callable[[str], None]:
    """A program over kazoo, in a process of its own: one client, whose requests come in one order."""

    def run(address: str) -> None:
        command = [sys.executable, "-m", "tests.doors.kazoo_conversation", address]
        run_program(command, log=folder / "kazoo.log", timeout_s=RUN_S, folder=ROOT)

    run.__name__ = "kazoo_conversation"
    return run


def trace_of(server: str, program: Callable[[str], None]) -> list[str]:
    """What a program and a server say, connection by connection; then its failure, and what is out of order."""
    failure = []
    with Tap(server) as tap:
        try:
            program(tap.address)
        except Exception as error:  # whatever it is, the lines so far tell more
            failure = [f"the program fails: {type(error).__name__}: {error}".split("\n")[0]]
        lines = [line for number, one in enumerate(tap.trace(), 1) for line in (f"connection {number}", *one)]
        return [*lines, *failure, *(f"out of order: {fault}" for fault in tap.order_faults())]


def record(servers: Servers, folder: Path) -> Traces:
    """The traces of all programs, at a server that does not lead where there is one."""
    leader = servers.leader()
    server = next((one for number, one in enumerate(servers.addresses) if number != leader), servers.addresses[0])
    programs = (*conversations.ALL, kazoo_program(folder))
    return {program.__name__: trace_of(server, program) for program in programs}


def written(traces: Traces) -> str:
    return "".join("\n".join([HEAD + name, *lines]) + "\n" for name, lines in traces.items())


def read(text: str) -> Traces:
    parts = (part.rstrip("\n").split("\n") for part in text.split(HEAD)[1:])
    return {part[0]: part[1:] for part in parts}


def difference(expected: list[str], told: list[str]) -> str:
    """In which lines two traces differ; empty if they do not."""
    found = list(difflib.unified_diff(expected, told, "ZooKeeper", "told", lineterm="", n=3))
    return "\n".join(found[:SHOWN_LINES])
