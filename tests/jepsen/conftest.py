"""Tests of mounted disks are left out where nobody may mount; tests/conftest.py says so at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.faults import images

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "mounts: needs ext4 images on loop devices, so root")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:  # the shim cannot be loaded before a sanitizer's runtime
            item.add_marker(pytest.mark.uninstrumented)
    left_out = [item for item in items if item.get_closest_marker("mounts")] if images.missing() else []
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
