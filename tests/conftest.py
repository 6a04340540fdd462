"""What every test shares: how Hypothesis searches, and which tests say nothing new under a sanitizer."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The suite gives the same verdict on the same code, on a busy machine too; HYPOTHESIS_PROFILE=explore looks for more.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

TESTS = Path(__file__).parent
MEMORY = Path("/dev/shm")  # a folder of its own is made there

# A shell lets what it starts in the background ignore SIGINT; every process that a test interrupts would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
