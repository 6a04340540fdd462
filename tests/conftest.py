"""What every test shares: how Hypothesis searches, and which tests say nothing new under a sanitizer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# The suite gives the same verdict on the same code, on a busy machine too; HYPOTHESIS_PROFILE=explore looks for more.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

TESTS = Path(__file__).parent

# A shell lets what it starts in the background ignore SIGINT; every process that a test interrupts would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests directly in tests/ read sources, documents and packages: no native code worth instrumenting."""
    for item in items:
        if item.path.parent == TESTS:
            item.add_marker(pytest.mark.uninstrumented)
