"""The time limit of a test of another suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANGS_TWICE = """
import threading
from tests.doors.time_limit import TooLong, limited

never = threading.Event()
try:
    with limited(0.2, again_s=0.2):
        try:
            never.wait()
        finally:
            never.wait()
except TooLong as error:
    print(error)
"""


def test_a_test_that_hangs_and_then_hangs_at_its_end_is_over() -> None:
    """In a process of its own, because this suite has a timer, too."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGS_TWICE], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "longer than 0.2 s\n"
