"""Whatever a run made is gone when it ends, however it ends: namespaces, control groups, folders, processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jepsen.cgroup import Group
from jepsen.keeper import Keeper
from jepsen.network import Namespaces
from tests.processes.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


def namespaces_of(run: str) -> set[str]:
    """Names of the namespaces that a run has made."""
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir() if path.name.startswith(f"{run}-")} if folder.exists() else set()


def processes_of(folder: Path) -> set[int]:
    """Pids of the processes that have a path below the folder in their command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue  # it has just ended
    return found - {os.getpid()}


@pytest.mark.uninstrumented
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    """In the middle of a run with brokers and clients; after SIGKILL it is the keeper that takes all away."""
    command = [
        sys.executable,
        "-m",
        "jepsen",
        "run",
        "--time",
        "60",
        "--rate",
        "20",
        "--store",
        str(tmp_path / "store"),
    ]
    run = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    name = f"jep{run.pid:x}"
    wait_until(
        lambda: any(tmp_path.glob("store/*/spools/c1-1.jsonl")) or run.poll() is not None,
        timeout_s=START_S,
        what="clients that ask",
    )
    assert bool(namespaces_of(name)) == (Namespaces.missing() is None)
    assert len(processes_of(tmp_path)) >= 3 + 2 + 1  # brokers, clients, the run itself
    run.send_signal(number)
    _, said = run.communicate(timeout=START_S)
    expected = {signal.SIGINT: 1, signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL}
    assert run.returncode == expected[number], said
    wait_until(lambda: not namespaces_of(name), timeout_s=30, what="the end of the namespaces")
    wait_until(lambda: not list(tmp_path.glob("jep*")), timeout_s=30, what="the end of the data")
    wait_until(lambda: not processes_of(tmp_path), timeout_s=30, what="the end of the processes")


def test_what_is_frozen_is_thawed_and_goes() -> None:
    """A frozen process does not even die: its group is thawed first, by whoever takes it away."""
    if Group.missing("freezer") is not None:
        assert "root" in str(Group.missing("freezer")) or "freezer" in str(Group.missing("freezer"))
        return
    sleeper = subprocess.Popen(["sleep", "60"])
    with Keeper() as keeper:
        group = Group(f"jeptest{os.getpid():x}", keeper)
        group.add(sleeper.pid)
        group.freeze()
        wait_until(group.is_frozen, timeout_s=20, what="the freezer")
        sleeper.kill()
        burial = threading.Thread(target=sleeper.wait)  # a dead process stays in its group until it is waited for
        burial.start()
    burial.join()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/jeptest{os.getpid():x}"))
