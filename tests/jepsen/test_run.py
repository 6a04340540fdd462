"""One whole run from the command line: three brokers, a partition, a kill, a power cut; and what makes a run fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jepsen.checker import judge
from jepsen.nemeses import NEMESES
from jepsen.store import Fault
from raftmeta.check import History, Recorder

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600  # most of a minute on a machine with nothing else to do, of which Spark takes half
TIME_S = 16  # quiet, one cycle in which everything strikes, quiet


def jepsen(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jepsen", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )


@pytest.mark.uninstrumented
@pytest.mark.timeout(LIMIT_S + 20)
def test_three_brokers_survive_a_partition_a_kill_and_a_power_cut(tmp_path: Path) -> None:
    """All workloads at once; every verdict is ok, every fault was seen to act, and the folder has what it promises.

    What needs root is asked for where there is root; a pause needs nothing.
    """
    wanted = ("partition-halves", "power-cut", "kill", "pause")
    nemeses = [name for name in wanted if NEMESES[name].requires() is None][:3]
    ended = jepsen(
        *("run", "--nodes", "3", "--workload", "all", "--nemesis", ",".join(nemeses)),
        *("--time", str(TIME_S), "--rate", "150", "--seed", "7", "--store", str(tmp_path)),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = tmp_path.iterdir()
    verdict = json.loads((folder / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["pipeline"]) == ("ok", "ok")
    assert "plotly" in (folder / "report.html").read_text() and all(verdict["observed"][name] for name in nemeses)
    told = json.loads((folder / "run.json").read_text())
    for name in told["models"]:
        assert pq.read_table(folder / name).num_rows > 50, name
    kinds = set(pq.read_table(folder / "observations.parquet").column("kind").to_pylist())
    assert kinds >= {"watch_event", "fence_accepted", "lease_granted", "elected", "member_joined", "session_answer"}
    assert kinds >= {"zookeeper_seen", "zookeeper_told", "zookeeper_sequence", "total"}
    faults = pq.read_table(folder / "faults.parquet").to_pylist()
    assert {fault["nemesis"] for fault in faults} == set(nemeses)
    assert all(fault["seq_begin"] < fault["seq_end"] for fault in faults)
    assert {path.name for path in (folder / "nodes").iterdir()} >= {"n1.log", "n2.log", "n3.log", "c1.log"}


def test_the_command_says_what_there_is_and_what_is_wrong() -> None:
    """list names everything; a name that is not there, and a number out of range, end the command with the choices."""
    listed = jepsen("list").stdout
    assert "partition-" in listed and "cas-register" in listed and "rolling-restart" in listed
    unknown = jepsen("run", "--nemesis", "earthquake")
    assert unknown.returncode == 2 and "no earthquake" in unknown.stderr and "partition-halves" in unknown.stderr
    assert "--time" in jepsen("run", "--time", "0").stderr
    assert "--store" in jepsen("run", "--store", "/proc/nowhere").stderr


def test_what_the_report_lacks_is_said_before_the_run(tmp_path: Path) -> None:
    """Not after the minutes that it takes: here there is no Java."""
    without = {**os.environ, "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "jepsen", "run", "--store", str(tmp_path / "store")]
    ended = subprocess.run(command, cwd=ROOT, env=without, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 2 and "Java 17" in ended.stderr and "--no-report" in ended.stderr
    assert not (tmp_path / "store").exists()


# --- the verdict ------------------------------------------------------------------------------------------------------
SECOND = 1_000_000_000


def history(*fates: str, result: Any = 5) -> History:
    """A write of 5, then one read a second with these fates."""
    times = iter(range(0, 10**12, SECOND // 2))
    recorder = Recorder(clock_ns=lambda: next(times))
    recorder.invoke(1, "write", "x", 5)
    recorder.ok(1)
    for process, fate in enumerate(fates, 2):
        recorder.invoke(process, "read", "x")
        if fate == "ok":
            recorder.ok(process, result)
        else:
            getattr(recorder, fate)(process)
    return recorder.history()


def reasons(found: History, faults: Sequence[Fault] = (), nemeses: Sequence[str] = ()) -> list[str]:
    verdict = judge({"w": found}, [], {"w": "cas-register"}, faults, nemeses, 0)
    assert verdict.is_ok == (not verdict.reasons)
    return verdict.reasons


def test_a_run_is_ok_when_all_holds() -> None:
    """Failures inside the window of a fault that was seen to act count for nothing."""
    kill = Fault("kill", "one: n1", 3 * SECOND, 6 * SECOND, "", observed=1)
    assert reasons(history("ok", "ok", "fail", "fail", "fail", "ok"), [kill], ["kill"]) == []


@pytest.mark.parametrize(
    ("found", "faults", "reason"),
    [
        (history("ok", result=6), [], "violation"),
        (history("ok", "fail", "fail", "fail"), [], "only 40% of the operations"),
        (history("ok"), [Fault("kill", "one: n1", 1, 2, "", observed=0)], "kill: struck, and was not seen to act"),
        (history("ok"), [], "kill: never struck"),
    ],
)
def test_a_run_fails_for_each_reason_by_itself(found: History, faults: list[Fault], reason: str) -> None:
    """A stale value, a store that does not answer, a fault that did nothing, and one that never came."""
    assert any(reason in one for one in reasons(found, faults, ["kill"] if "kill" in reason else []))
