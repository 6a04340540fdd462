"""Scripts of fault tests, each in a process of its own: `python -m <module> <verb> <settings as JSON>`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from jepsen.faults.shim import Page

__all__ = ["ScriptFailed", "found_by", "started"]

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 120.0  # for one answer


class ScriptFailed(Exception):
    """The script did not do what it does when nothing is done to it; the message has what it said."""


def started(module: str, settings: dict[str, Any], page: Page) -> subprocess.Popen[str]:
    """Its verb `run` below the shim, with the rules of this page; all three streams are pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", module, "run", json.dumps(settings)],
        cwd=ROOT,
        env={**os.environ, **page.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def found_by(module: str, verb: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The JSON object that another verb prints, without the shim. Raises ScriptFailed: it failed."""
    done = subprocess.run(
        [sys.executable, "-m", module, verb, json.dumps(settings)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    if done.returncode:
        raise ScriptFailed(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
