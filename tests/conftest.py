"""What every test shares: how Hypothesis searches, what runs beside what, and what says nothing under a sanitizer."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from jepsen.faults import images

# The suite gives the same verdict on the same code, on a busy machine too; HYPOTHESIS_PROFILE=explore looks for more.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

TESTS = Path(__file__).parent
MEMORY = Path("/dev/shm")  # a folder of its own is made there

# A shell lets what it starts in the background ignore SIGINT; every process that a test interrupts would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that start no server and no process, by folder. The others are two rows, so that two processors have work. In
# each row never two are under way at once: they listen on ports, hold the GIL, fill disks and kill. USERS are those
# that use servers, of ours and of others, as programs do. Those that strike machines as a whole are in the other row.
USERS = {
    *("cli", "compat", "conformance", "doctor", "doors", "etcd", "examples", "kafka", "metastore", "migrate"),
    *("recipes", "replicated", "rest", "testing", "zookeeper"),
}
ALONE = {"assignors", "check", "core", "machine", "native", "scan", "security", "sim", "storage", "wire"}
READING = {
    "test_docs.py",
    "test_translate.py",
    "test_exports.py",
    "test_layers.py",
    "test_no_gil.py",
    "test_stubs.py",
    "test_style.py",
}
# These groups of tests take longest, so they begin first, in this order. Then no long group is left when one process
# has no more work. The others follow by the number of their tests.
LONGEST = ("servers", "users", "spark", "tests/sim/test_world.py", "tests/test_translate.py", "tests/test_no_gil.py")


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that no disk slows down, where the machine has one; for what says nothing about disks."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as made:
        yield Path(made)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests directly in tests/ read sources, documents and packages: no native code worth instrumenting."""
    for item in items:
        if item.path.parent == TESTS:
            item.add_marker(pytest.mark.uninstrumented)


def scope_of(test: str) -> str:
    """What one process of pytest-xdist runs in order: a file; one session of Spark; a row of tests with servers."""
    file = test.split("::", 1)[0]
    parts = Path(file).relative_to(TESTS.name).parts
    if parts[0] == "spark":
        return "spark"
    if parts[0] in ALONE or parts[0] in READING:
        return file
    return "users" if parts[0] in USERS else "servers"


def place_of(scope: str) -> int:
    """In the order in which scopes begin."""
    return LONGEST.index(scope) if scope in LONGEST else len(LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(min(self.workqueue, key=place_of), last=False)
            super()._assign_work_unit(node)

    return Scheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a machine cannot do is said, also by the process that only hands out tests."""
    if why := images.missing():
        terminalreporter.write_line(f"not run: tests of power cuts and full disks: {why}")
