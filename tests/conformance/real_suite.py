"""The conformance suite on the real servers of a back end, on both faces: what ./build.sh doors etcd and its like run.

Nothing stays "not run": processes and servers are killed and frozen, and all servers crash at once. `--reports FOLDER`
keeps the outcomes, of which tests/conformance/matrix.py makes the table in docs/backends.md.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from raftmeta import Capabilities
from raftmeta.conformance import CHECKS, Check, Kit, Outcome, Servers, outcomes, run
from raftmeta.conformance.report import Report
from tests.doors.acceptance.trial import Trial
from tests.lint.sources import ROOT
from tests.processes.program import Program

OWN_TESTS_S = 600.0
FACES = ("blocking", "asyncio")
LISTED_S = 20.0  # a check that takes longer has a line of its own


class _Telling:
    """Lines of a trial: each check that fails is one, and the suite of a face is one."""

    def __init__(self, trial: Trial, title: str, may_wait: Callable[[Check], bool]) -> None:
        logging.getLogger("raftmeta.recipes.listeners").setLevel(logging.CRITICAL)  # some throw on purpose
        self._trial, self._title, self._may_wait = trial, title, may_wait
        self._begun_s = self._checked_s = time.monotonic()
        self._counts = dict.fromkeys(("passed", "failed", "not promised", "not run"), 0)

    def __call__(self, outcome: Outcome) -> None:
        took_s, self._checked_s = time.monotonic() - self._checked_s, time.monotonic()
        self._counts[outcome.state] += 1
        is_missing = outcome.state == "not run" and not self._may_wait(outcome.check)
        if outcome.state == "failed" or is_missing or took_s > LISTED_S:
            why = "" if outcome.state == "passed" else outcome.why or outcome.state
            self._trial.add(f"{self._title}: {outcome.check.name}", took_s, why)

    def end(self) -> None:
        counts = self._counts
        is_whole = sum(counts.values()) == len(CHECKS) and not counts["failed"]
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        took_s = time.monotonic() - self._begun_s
        self._trial.add(f"{self._title}: {told}", took_s, "" if is_whole else "not the whole suite")


def run_suite(trial: Trial, url: str, servers: Servers, *, has_one_server: bool, server: str) -> None:
    """has_one_server: nothing can go on without it. server: its name and version, for the report."""
    for face in FACES:
        telling = _Telling(trial, face, lambda check: has_one_server and bool(check.one_server))
        is_aio = face == "asyncio"
        capabilities, found = run(
            [url, url], party_url=url, has_owners=True, servers=servers, is_aio=is_aio, on_outcome=telling
        )
        telling.end()
        if not is_aio:
            keep_report(trial, url.partition("://")[0], capabilities, found, server=server)


def run_kit(trial: Trial, name: str, kit: Kit, *, server: str) -> None:
    """The blocking face on parties of this process, whose servers nobody can crash from outside."""
    telling = _Telling(trial, name, lambda check: check.servers or bool(check.one_server))
    found = []
    for outcome in outcomes(kit):
        telling(outcome)
        found.append(outcome)
    telling.end()
    keep_report(trial, name, kit.capabilities, found, server=server)


def keep_report(trial: Trial, name: str, capabilities: Capabilities, found: list[Outcome], *, server: str) -> None:
    """A report as raftmeta tck writes it, with the server, the day and the commit, if the trial keeps reports."""
    if trial.reports is None:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    made = {"server": server, "date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit.stdout.strip()}
    report = json.loads(Report.of(name, capabilities, found).to_json())
    trial.reports.mkdir(parents=True, exist_ok=True)
    (trial.reports / f"{name}.json").write_text(json.dumps({**made, **report}, indent=1) + "\n")


def run_own_tests(trial: Trial, module: str) -> None:
    """The tests of a back end that are about its own system, of tests/conformance."""
    log = trial.folder / "own.log"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path("tests/conformance", module))]
    with trial.check(f"own tests: {module}"), Program(command, log=log, folder=ROOT) as tests:
        assert tests.wait(timeout_s=OWN_TESTS_S) == 0, tests.log_tail()
