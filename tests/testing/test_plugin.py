"""The pytest plugin, as a user meets it: by its entry point, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SAMPLE = """
import pytest


def test_three_nodes_are_there(raftmeta_cluster):
    raftmeta_cluster.leader().put("key", b"value")
    assert len(raftmeta_cluster.running()) == 3


@pytest.mark.raftmeta_cluster(nodes=1)
def test_the_marker_says_how_many(raftmeta_cluster):
    assert raftmeta_cluster.names == ("a",)


@pytest.mark.raftmeta_cluster(1, seed=7)
def test_this_one_fails(raftmeta_cluster):
    assert raftmeta_cluster.leader().get("key") == "nobody wrote it"
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_the_fixture_works_for_a_user_and_a_failure_tells_how_nodes_stood(tmp_path: Path) -> None:
    """No conftest, no -p: the entry point brings fixture and marker; only the failed test shows the nodes."""
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    done = run_pytest(tmp_path)
    assert "2 passed" in done.stdout and "1 failed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("raftmeta cluster") == 1
    shown = done.stdout.partition("raftmeta cluster")[2]
    assert "a: running leader" in shown
    assert "became_leader" in shown


def test_the_marker_is_listed_with_its_arguments(tmp_path: Path) -> None:
    assert "raftmeta_cluster(nodes=3, config=None, seed=1)" in run_pytest(tmp_path, "--markers").stdout
