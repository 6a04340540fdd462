"""PySyncObj's own tests on raftmeta.compat.pysyncobj, unmodified; the second time every destroyed node is killed.

The sdist on PyPI has no tests: RAFTMETA_PYSYNCOBJ_TESTS names the file `test_syncobj.py` of v0.3.14 from the project's
repository (docs/pysyncobj.md says how it is had).
"""

from __future__ import annotations

import os
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.software import Missing
from tests.processes.program import Program
from tests.processes.remote import ROOT

TESTS = "RAFTMETA_PYSYNCOBJ_TESTS"
RUN_S = 1800.0
COUNT = 42
PASSED_MIN = 36
EXCEPTIONS = {
    "test_doChangeClusterUT1": "it puts messages of PySyncObj's own wire protocol into the object by hand",
    "test_logCompactionRegressionTest1": "it reads back PySyncObj's own log through a private method",
}


def run(trial: Trial) -> None:
    given = os.environ.get(TESTS)
    if given is None or not Path(given).is_file():
        raise Missing(f"{TESTS} names no file: see docs/pysyncobj.md")
    for word, variables in (("destroyed", {}), ("killed", {"RAFTMETA_PYSYNCOBJ_KILL": "1"})):
        folder = trial.folder / word
        folder.mkdir()
        shutil.copy(given, folder)
        failed = _suite(trial, word, folder, variables)
        with trial.check(f"nodes are {word}: at least {PASSED_MIN} of {COUNT} pass"):
            assert COUNT - len(failed) >= PASSED_MIN, failed


def _suite(trial: Trial, word: str, folder: Path, variables: dict[str, str]) -> list[str]:
    """Run all tests; the names of those that failed."""
    report, log = folder / "report.xml", folder / "log"
    settings = folder / "pytest.ini"
    settings.write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-c", str(settings), "--rootdir", str(folder), "-q"]
    command += ["-p", "no:cacheprovider", "-p", "tests.doors.pysyncobj_plugin", f"--junitxml={report}"]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    with Program([*command, "test_syncobj.py"], log=log, environment=environment, folder=folder) as suite:
        suite.wait(timeout_s=RUN_S)
    assert report.exists(), suite.log_tail()
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    assert len(cases) == COUNT, f"{len(cases)} tests"
    failed = []
    for case in cases:
        name = str(case.get("name"))
        failure = next((one for one in case if one.tag in ("failure", "error", "skipped")), None)
        if failure is None:
            continue
        failed.append(name)
        if name in EXCEPTIONS:
            trial.tell(f"{name} fails, as it may: {EXCEPTIONS[name]}")
        else:
            trial.add(
                f"{word}: {name}", float(case.get("time", 0)), (failure.get("message") or "").split("\n")[0][:300]
            )
    return failed
