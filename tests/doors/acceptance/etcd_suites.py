"""The test suites of etcd3gw (JSON) and of aetcd (gRPC), unmodified; only the servers are started here."""

from __future__ import annotations

import os
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.etcd_servers import ETCD_KINDS
from tests.doors.software import etcd_suites, etcdctl
from tests.processes.program import Program

RUN_S = 600.0
# By kind of server: tests that may fail, with the reason.
NOT_THERE = "etcdctl 3.7 has no `snapshot status` any more"
NO_PORT = "it asks the default port, whatever the address of the server is"
ALARMS = "nobody raises an alarm by hand: a full disk refuses what grows"
SNAPSHOT = "no snapshot in etcd's own format"
FIRST = "the door tells the first revision that can be watched, etcd the one before"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "etcd": {"test_auth": NO_PORT, "test_snapshot": NOT_THERE},
    "door": {
        "test_auth": NO_PORT,
        "test_snapshot": SNAPSHOT,
        "test_create_alarm_all_members": ALARMS,
        "test_create_alarm_specific_member": ALARMS,
        "test_list_alarms": ALARMS,
        "test_disarm_alarm": ALARMS,
        "test_watch_key_with_revision_compacted": FIRST,
    },
}
# Of aetcd: two ask for a cluster of another program's.
SKIPPED_MAX = 2


def run(trial: Trial) -> None:
    packages, tests = etcd_suites()
    with ETCD_KINDS[trial.kind](trial.folder / "servers") as servers:
        address = servers.addresses[0]
        _run_suite(trial, "etcd3gw", packages, address, ["--pyargs", "etcd3gw.tests.test_etcd3gw"], tests_min=23)
        # Its conftest stands a folder higher, with options and fixtures.
        _run_suite(trial, "aetcd", packages, address, ["--rootdir", str(tests.parent), str(tests)], tests_min=60)


def _run_suite(trial: Trial, name: str, packages: Path, address: str, words: Sequence[str], *, tests_min: int) -> None:
    begun_s = time.monotonic()
    report = trial.folder / f"{name}.xml"
    settings = trial.folder / "pytest.ini"
    settings.write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-c", str(settings), "-q", "-p", "no:cacheprovider"]
    environment = {
        "PYTHONPATH": str(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{etcdctl().parent}:{os.environ['PATH']}",
        "TEST_ETCD_HTTP_URL": f"http://{address}",
        "TOOZ_TEST_HTTP_URL": f"http://{address}",
        "TOOZ_TEST_ETCD_PORT": address.rpartition(":")[2],
    }
    log = trial.folder / f"{name}.log"
    with Program(
        [*command, f"--junitxml={report}", *words], log=log, environment=environment, folder=trial.folder
    ) as suite:
        suite.wait(timeout_s=RUN_S)
    assert report.exists(), suite.log_tail()
    counts = {"passed": 0, "skipped": 0, "excepted": 0, "failed": 0}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        test = case.get("name", "")
        failure = next((one for one in case if one.tag in ("failure", "error")), None)
        excuse = EXCEPTIONS[trial.kind].get(test)
        state = "skipped" if case.find("skipped") is not None else "passed"
        if failure is not None:
            state = "excepted" if excuse else "failed"
        counts[state] += 1
        if state == "failed":
            message = (failure.get("message") or "").split("\n")[0][:300] if failure is not None else ""
            trial.add(f"{name}: {test}", float(case.get("time", 0)), message)
        elif state == "excepted":
            trial.tell(f"{test} fails, as it may: {excuse}")
    is_whole = sum(counts.values()) >= tests_min and counts["skipped"] <= SKIPPED_MAX and not counts["failed"]
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    trial.add(f"{name}: {told}", time.monotonic() - begun_s, "" if is_whole else "not the whole suite")
