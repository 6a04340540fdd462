"""A node that cannot trust its disk any more stops, keeps its files, and says so; the others go on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.node.nodes import QUICK, one_node
from tests.processes.cluster import Cluster
from tests.processes.waiting import free_ports


def refuse_writes(folder: Path) -> int:
    """Every file of the folder that this process has open can only be read from here on; return how many.

    A limit on the size of files would not do: that is a full disk to the node, which waits for room.
    """
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the folder
            target = entry.readlink()
            if target.parent == folder.resolve() and target.is_file() and target.name != "lock":
                only_reads = os.open(target, os.O_RDONLY)
                os.dup2(only_reads, int(entry.name))
                os.close(only_reads)
                count += 1
    return count


def fail_the_disk(node: raftmeta.Node) -> dict[str, Any]:
    """In a node's process: what becomes of it when its writes fail."""
    assert refuse_writes(Path(node.identity.data_dir)) > 0
    fates = []
    for i in range(3):
        try:
            node.put(f"k/{i}", b"v", timeout_s=5)
            fates.append("OK")
        except raftmeta.RaftmetaError as error:
            fates.append(type(error).__name__)
    try:
        node.get("k")
    except raftmeta.Fatal as error:
        fates.append(type(error).__name__)
        fates.append(str(error))
    events = [str(event) for event in node.events(timeout_s=0)]
    state = node.status().state
    node.close()
    return {"fates": fates, "state": state, "events": events}


def test_a_failed_write_stops_the_node_and_only_that_node(tmp_path: Path) -> None:
    """reliability.md D5: never retried; what was under way has an unknown outcome, what follows is Fatal."""
    with Cluster(tmp_path, **QUICK) as cluster:
        broken = cluster.leader()
        told = broken.call(fail_the_disk)
        assert told["state"] == "stopped"
        assert told["fates"][-3:-1] == ["DiskFailed", "DiskFailed"]
        assert "write: [Errno 9] Bad file descriptor" in told["fates"][-1]
        assert "OK" not in told["fates"]
        assert any(event.endswith("stopped status=97 errno=9 call=write") for event in told["events"]), told["events"]
        broken.kill()
        cluster.leader(other_than=broken.name)


EXITING = """
import json, sys, raftmeta
name, address, folder, settings = json.loads(sys.argv[1])
node = raftmeta.Node(name, peers={name: address}, data_dir=folder, config=raftmeta.Config(**settings))
node.start()
node.ready(30)
lease, watch = node.lease(5), node.watch(prefix="", callback=print)
node.put("k", b"v")
"""


def test_a_program_that_ends_without_closing_its_node_ends_well(tmp_path: Path) -> None:
    arguments = json.dumps(["a", f"127.0.0.1:{free_ports(1)[0]}", str(tmp_path / "a"), QUICK])
    ended = subprocess.run(
        [sys.executable, "-c", EXITING, arguments], cwd=Path(__file__).parents[2], timeout=30, capture_output=True
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_events_are_logged_only_when_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), one_node(tmp_path) as node:
        assert caplog.records == []
        thread = node.log_events()
        node.put("k", b"v")
        node.close()
        thread.join(30)
    lines = [record.getMessage() for record in caplog.records]
    assert all(record.name == "raftmeta" for record in caplog.records)
    assert "became_leader term=1 node=a" in lines
