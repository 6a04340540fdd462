"""The conformance suite on the real servers of a back end, on both faces: what ./build.sh doors etcd and its like run.

Nothing stays "not run": processes and servers are killed and frozen, and all servers crash at once.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from raftmeta.conformance import CHECKS, Outcome, Servers, run
from tests.doors.acceptance.trial import Trial
from tests.lint.sources import ROOT
from tests.processes.program import Program

OWN_TESTS_S = 600.0
LISTED_S = 20.0  # a check that takes longer has a line of its own


def run_suite(trial: Trial, url: str, servers: Servers, *, has_one_server: bool) -> None:
    """Each check that fails is a line, and the suite of a face is one. has_one_server: nothing can go on without it."""
    logging.getLogger("raftmeta.recipes.listeners").setLevel(logging.CRITICAL)  # some throw on purpose
    for face in ("blocking", "asyncio"):
        begun_s = checked_s = time.monotonic()
        counts = dict.fromkeys(("passed", "failed", "not promised", "not run"), 0)

        def tell(outcome: Outcome, face: str = face, counts: dict[str, int] = counts) -> None:
            nonlocal checked_s
            took_s, checked_s = time.monotonic() - checked_s, time.monotonic()
            counts[outcome.state] += 1
            may_wait = has_one_server and bool(outcome.check.one_server)
            if outcome.state == "failed" or (outcome.state == "not run" and not may_wait) or took_s > LISTED_S:
                why = "" if outcome.state == "passed" else outcome.why or outcome.state
                trial.add(f"{face}: {outcome.check.name}", took_s, why)

        run([url, url], party_url=url, has_owners=True, servers=servers, is_aio=face == "asyncio", on_outcome=tell)
        is_whole = sum(counts.values()) == len(CHECKS) and not counts["failed"]
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        trial.add(f"{face}: {told}", time.monotonic() - begun_s, "" if is_whole else "not the whole suite")


def run_own_tests(trial: Trial, module: str) -> None:
    """The tests of a back end that are about its own system, of tests/conformance."""
    log = trial.folder / "own.log"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path("tests/conformance", module))]
    with trial.check(f"own tests: {module}"), Program(command, log=log, folder=ROOT) as tests:
        assert tests.wait(timeout_s=OWN_TESTS_S) == 0, tests.log_tail()
