"""The machine's own limit for the same work, measured in the same run: limit.hpp says what is in it and what is not.

Two faces of it: a native program, which shows disk, loopback and processor, and the same behind one asyncio future for
each put, which also shows what Python costs.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.values import KEYS, values_of
from benchmarks.measure import Sample
from benchmarks.native import ROOT, extension, program

FOLLOWERS = 2
GRACE_S = 90.0  # to make the logs, of three processes on one disk, and to end


def build() -> None:
    """Compile what is missing, before anything is timed."""
    program("limit/limit.cpp")
    extension("limit/limit_node.pyx")


def run(folder: Path, *, face: str, value_bytes: int, outstanding: int, seconds: float, warmup_s: float) -> Sample:
    """The limit as one sees it from `face`: native, asyncio or uvloop; the latter two in a process of their own.

    folder: on the disk that is measured; nothing of it stays.
    """
    numbers = [str(number) for number in (value_bytes, outstanding, seconds, warmup_s)]
    with tempfile.TemporaryDirectory(dir=folder) as logs:
        if face == "native":
            command = [str(program("limit/limit.cpp")), "lead", logs, *numbers]
        else:
            command = [sys.executable, "-m", "benchmarks.limit", logs, face, *numbers]
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + warmup_s + GRACE_S, check=True
        )
    return Sample.of(json.loads(ended.stdout))


def lead(logs: str, event_loop: str, value_bytes: int, outstanding: int, seconds: float, warmup_s: float) -> str:
    """What the process of an event loop does; its answer as JSON."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [str(program("limit/limit.cpp")), "follow"]
        numbers = [str(value_bytes), str(outstanding), str(listener.getsockname()[1])]
        followers = [
            subprocess.Popen([*command, f"{logs}/log-{number}", *numbers]) for number in range(1, FOLLOWERS + 1)
        ]
        values = values_of(value_bytes)
        limit_node = extension("limit/limit_node.pyx")

        async def main() -> str:
            node = limit_node.LimitNode(listener.fileno(), logs, value_bytes, outstanding)
            put = node.put
            try:
                return json.dumps(
                    await closed_loop(
                        lambda number: put(number % KEYS, values[number % len(values)]),
                        outstanding=outstanding,
                        seconds=seconds,
                        warmup_s=warmup_s,
                    )
                )
            finally:
                node.close()

        found: str = run_in(event_loop, main())
    for follower in followers:
        follower.wait(GRACE_S)
    return found
