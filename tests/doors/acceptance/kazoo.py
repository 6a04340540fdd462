"""kazoo's own test suite, unmodified; only its servers are started by tests/doors/kazoo_plugin.py."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree

from tests.doors.acceptance.trial import Trial
from tests.doors.software import ZOOKEEPER, ZOOKEEPER_VERSION, kazoo_suite
from tests.doors.time_limit import TOO_LONG
from tests.processes.program import Program
from tests.processes.remote import ROOT
from tests.processes.waiting import free_port_block

RUN_S = 2400.0
PORTS = 40
TESTS_MIN = 480
# By kind of server: tests that may fail, with the reason.
RECONFIGURATION = "reconfiguration by clients: members change by `raftmeta members`"
CERTIFICATE = "the suite's certificate names no client of a cluster of raftmeta; tests/zookeeper/test_rights.py has TLS"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "zookeeper": {},
    "door": {"TestReconfig.test_add_remove_observer": RECONFIGURATION, "TestSSLClient.test_create": CERTIFICATE},
}
# On either kind: tests that may take too long, and fail in no other way.
LATE = "it waits for a moment without a holder of the lock, and misses it if its thread is late by 0.3 s"
MAY_HANG = {"KazooLockTests.test_lock": LATE}
# Skipped on a real ZooKeeper, too: they need Kerberos, or the project's own CI.
SKIPPED_MAX = 3


def run(trial: Trial, *, only: str = "", kill_s: float = 0.0) -> None:
    """only: tests, as pytest's -k. kill_s: every so many seconds a server that no client uses is killed."""
    packages = kazoo_suite()
    report, log = trial.folder / "kazoo.xml", trial.folder / "kazoo.log"
    settings = trial.folder / "pytest.ini"
    settings.write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-c", str(settings), "--rootdir", str(trial.folder)]
    command += ["-p", "no:cacheprovider", "-p", "tests.doors.kazoo_plugin", f"--junitxml={report}", "-q"]
    command += ["--pyargs", "kazoo.tests", *(["-k", only] if only else [])]
    variables = {
        "PYTHONPATH": f"{ROOT}:{packages}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "ZOOKEEPER_VERSION": ZOOKEEPER_VERSION,
        "ZOOKEEPER_CLASSPATH": ZOOKEEPER.class_path(),
        "ZOOKEEPER_PORT_OFFSET": str(free_port_block(PORTS)),
        "RAFTMETA_DOORS_ON": trial.kind,
        "RAFTMETA_DOORS_FOLDER": str(trial.folder),
    }
    if kill_s:
        variables["RAFTMETA_DOORS_KILL_S"] = str(kill_s)
    # Not in the checkout: pytest would load its conftest there, and tests of the suite count objects of all libraries.
    with Program(command, log=log, environment=variables, folder=trial.folder) as suite:
        suite.wait(timeout_s=RUN_S)
    assert report.exists(), suite.log_tail()
    counts = {"passed": 0, "skipped": 0, "excepted": 0}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        failure = next((one for one in case if one.tag in ("failure", "error")), None)
        message = "" if failure is None else (failure.get("message") or "").split("\n")[0][:300]
        excuse = EXCEPTIONS[trial.kind].get(name) or (MAY_HANG.get(name) if TOO_LONG in message else None)
        if failure is not None and excuse:
            counts["excepted"] += 1
            trial.tell(f"{name} fails, as it may: {excuse}")
        elif failure is not None:
            trial.add(name, float(case.get("time", 0)), message)
        elif case.find("skipped") is not None:
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    trial.tell(f"kazoo's suite: {counts}")
    if not only:
        with trial.check(f"the whole suite ran: {counts}"):
            assert sum(counts.values()) + len(trial.checks) >= TESTS_MIN, counts
            assert counts["skipped"] <= SKIPPED_MAX, counts
    else:
        trial.add(f"{counts['passed']} passed", 0, "" if counts["passed"] else "none passed")
