"""`raftmeta dashboard` as a shell has it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.client.nodes import serving
from tests.dashboard.pages import Visitor, answers
from tests.processes.waiting import free_addresses, wait_until

START_S = 60.0


def test_the_command_serves_a_page_until_it_is_ended(tmp_path: Path) -> None:
    """It says where the page is, answers there, and ends in order."""
    with serving(tmp_path) as (_nodes, url):
        address, log = free_addresses(1)[0], tmp_path / "log"
        command = [sys.executable, "-m", "raftmeta.cli", "--url", url, "dashboard", "--listen", address]
        with log.open("wb") as told, subprocess.Popen(command, stderr=told) as process:
            try:
                wait_until(lambda: b"dashboard is at" in log.read_bytes(), timeout_s=START_S, what="the page")
                visitor = Visitor(f"http://{address}/")
                wait_until(lambda: answers(visitor.http), timeout_s=START_S, what="an answer")
                assert visitor.enter()["allows_changes"] is False
                visitor.http.close()
                process.send_signal(signal.SIGTERM)
                assert process.wait(START_S) == 0, log.read_text()
            finally:
                process.kill()
    assert "the dashboard has ended" in log.read_text()
