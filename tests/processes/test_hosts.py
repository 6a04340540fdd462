"""A node in a process that forks, is interrupted, and starts and stops it a thousand times."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import raftmeta
from tests.processes.cluster import Cluster, get, put
from tests.processes.interrupted import CALLS
from tests.processes.load import start_again
from tests.processes.remote import ROOT, RemoteProcess
from tests.processes.waiting import free_ports, wait_until

MIB = 1024 * 1024
SMALL = {"segment_bytes": 65536, "wal_bytes_max": 4 * MIB, "reserve_bytes": 0}


# --- forks ------------------------------------------------------------------------------------------------------------


def fork_a_child_that_stays(node: raftmeta.Node) -> int:
    """A child that does nothing but be there, with whatever it inherited."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid


def test_a_child_that_outlives_the_node_holds_neither_port_nor_folder(tmp_path: Path) -> None:
    """The host forks, is killed with kill -9, and its node starts again beside the orphan."""
    with Cluster(tmp_path) as cluster:
        node = cluster.leader()
        node.call(put, "key", b"value")
        orphan = node.call(fork_a_child_that_stays)
        try:
            node.call(put, "key", b"after the fork")
            node.kill()
            start_again(node)
            assert node.call(get, "key") == b"after the fork"
            assert Path(f"/proc/{orphan}").exists()
        finally:
            os.kill(orphan, signal.SIGKILL)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def is_asleep(pid: int) -> bool:
    """Whether the main thread of a process sleeps in the kernel."""
    return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_blocked_call(call: str, tmp_path: Path) -> None:
    """The call ends though nothing else happens; the node can be closed in order afterwards."""
    command = [sys.executable, "-m", "tests.processes.interrupted", str(tmp_path / "a"), call]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "blocked\n"
            wait_until(lambda: is_asleep(process.pid), timeout_s=20, what="the call to block")
            sent_s = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert float(process.stdout.readline()) - sent_s < 5
            assert process.wait(20) == 0
        finally:
            process.kill()


# --- a thousand lives -------------------------------------------------------------------------------------------------


def make_host(folder: str) -> tuple[dict[str, str], str]:
    return {"a": f"127.0.0.1:{free_ports(1)[0]}"}, folder


def live(host: tuple[dict[str, str], str], count: int) -> list[int]:
    """Start and stop a node so often; descriptors, threads and resident bytes afterwards."""
    peers, folder = host
    config = raftmeta.Config(**SMALL)
    for _ in range(count):
        with raftmeta.Node("a", peers=peers, data_dir=folder, config=config):
            pass
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return [len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * os.sysconf("SC_PAGE_SIZE")]


@pytest.mark.uninstrumented
def test_a_thousand_starts_and_stops_leave_nothing_behind(memory_folder: Path) -> None:
    """In a process of its own, so that nothing else moves its numbers."""
    process = RemoteProcess(make_host, str(memory_folder / "a"), log=memory_folder / "log")
    process.start()
    try:
        before = process.call(live, 200, timeout_s=60)
        after = process.call(live, 800, timeout_s=100)
    finally:
        process.kill()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 2 * MIB
