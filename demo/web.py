"""The acts in a browser: `raftmeta dashboard` as a process of its own, which is a client of the brokers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from demo.display import Display
from demo.processes import DemoFailed
from tests.processes.program import Program
from tests.processes.waiting import free_addresses, wait_until

START_S = 40.0
READY = "the dashboard is at"


@contextlib.contextmanager
def shown_in_browser(url: str, folder: Path, display: Display) -> Iterator[None]:
    """Say where the page is; it is there until the end of the block. Raises DemoFailed."""
    log, address = folder / "dashboard.log", free_addresses(1)[0]
    command = [sys.executable, "-m", "raftmeta.cli", "--url", url, "dashboard", "--listen", address]
    with Program(command, log=log) as program:
        wait_until(
            lambda: READY in log.read_text() or not program.is_alive,
            timeout_s=START_S,
            what="the dashboard",
            failure=DemoFailed,
        )
        if not program.is_alive:
            raise DemoFailed(f"the dashboard has ended: {program.log_tail()}")
        display.event(f"open http://{address}/ to see the acts; the page ends with the brokers", "bold")
        yield
