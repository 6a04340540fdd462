"""Ten thousand clients of one node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checks.sources import ROOT

COUNT = 10_000


@pytest.mark.uninstrumented
def test_ten_thousand_connections_are_served_in_bounded_memory(tmp_path: Path) -> None:
    """Each gets a ping and a linearizable read answered; one more is turned away. Half of the memory is the test's."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.client.crowd", str(tmp_path / "n"), str(COUNT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["answered"] == COUNT
    assert report["bytes"] < 100 << 20, report
    assert report["counted"]["client_connections"] == COUNT
    assert report["late"] is not None and report["counted"]["client_connections_turned_away"] >= 1
