"""A host without a free file descriptor, for a moment or for long: its node goes on or waits, and never stops for good.

Each test runs in a process of its own, whose limit of descriptors it lowers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports

SMALL_FILES = {"segment_bytes": 1 << 16, "wal_bytes_max": 1 << 22, "snapshot_log_bytes": 1 << 16}

# The fillers take the low numbers, so that under the lower limit no descriptor of the node's own can be used again.
BEGIN = """
import json, os, resource, sys
import raftmeta

address, folder, settings = json.loads(sys.argv[1])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
fillers = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(sys.argv[2]))]
node = raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=raftmeta.Config(**settings)).start()
node.ready(30)
for i in range(60):     # segments that are used again, and a first checkpoint
    node.put(f"k{i % 10}", bytes(3000))

def limit(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))

def take_all():
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return held

def put_many(count):
    for i in range(count):
        node.put(f"k{i % 10}", bytes(3000), timeout_s=2)

def names():
    return [event.name for event in node.events(timeout_s=0)]

told = {}
"""

END = """
node.close()
print(json.dumps(told))
"""


def run(folder: Path, script: str, *, fillers: int) -> dict[str, Any]:
    arguments = json.dumps([f"127.0.0.1:{free_ports(1)[0]}", str(folder / "a"), {**QUICK, **SMALL_FILES}])
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(script) + END, arguments, str(fillers)],
        cwd=Path(__file__).parents[2],
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def test_a_node_writes_on_while_its_host_has_no_descriptor_left(tmp_path: Path) -> None:
    """Its log opens files out of its reserve, over more segments than the reserve has descriptors."""
    told = run(
        tmp_path,
        """
        limit(len(os.listdir("/proc/self/fd")) + 2)
        held = take_all()
        put_many(300)
        told["events"] = names()
        for descriptor in held:
            os.close(descriptor)
        put_many(20)
        told["state"] = node.status().state
        """,
        fillers=0,
    )
    assert told["state"] == "running"
    assert "stopped" not in told["events"]


def test_a_log_without_any_descriptor_waits_and_goes_on(tmp_path: Path) -> None:
    """An open that failed lost nothing. What was under way is done as soon as there is a descriptor."""
    told = run(
        tmp_path,
        """
        limit(32)
        try:
            put_many(300)
        except raftmeta.OutcomeTimeout as error:
            ticket = error.ticket
        told["waits"] = node.metrics()["log_waits_for_descriptor"]
        told["errno"] = [event.facts["errno"] for event in node.events(timeout_s=0)
                         if event.name == "disk_waits_for_descriptor"]
        limit(soft)
        told["revision"] = int(ticket.result(30))
        put_many(20)
        for event in node.events(timeout_s=30):
            if event.name == "disk_has_descriptor":
                break
        told["state"] = node.status().state
        told["waits_after"] = node.metrics()["log_waits_for_descriptor"]
        """,
        fillers=64,
    )
    assert told["waits"] == 1
    assert 24 in told["errno"]
    assert told["revision"] > 60
    assert (told["state"], told["waits_after"]) == ("running", 0)


def test_a_node_that_waits_for_a_descriptor_can_be_closed(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
        limit(32)
        try:
            put_many(300)
        except raftmeta.OutcomeTimeout:
            pass
        told["waits"] = node.metrics()["log_waits_for_descriptor"]
        node.close()
        limit(soft)
        told["left"] = [link for name in os.listdir("/proc/self/fd")
                        if os.path.lexists(f"/proc/self/fd/{name}")
                        and (link := os.readlink(f"/proc/self/fd/{name}")).startswith(folder)]
        node = raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=raftmeta.Config(**settings)).start()
        node.ready(30)
        put_many(20)
        """,
        fillers=64,
    )
    assert told["waits"] == 1
    assert told["left"] == []


def test_a_start_without_descriptors_is_refused_with_the_reason(tmp_path: Path) -> None:
    """It does not wait: whoever starts a node wants to know."""
    told = run(
        tmp_path,
        """
        node.close()
        node = raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=raftmeta.Config(**settings))
        descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
        limit(max(descriptors) + 1)
        held = take_all()
        told["errors"] = []
        for free in range(12):
            try:
                node.start()
                break
            except (OSError, MemoryError, raftmeta.RaftmetaError) as error:
                told["errors"].append(f"{type(error).__name__}: {error}")
            os.close(descriptors.pop())
        limit(soft)
        """,
        fillers=0,
    )
    refused = [error for error in told["errors"] if error.startswith("DiskFailed")]
    assert refused
    assert all("[Errno 24] Too many open files" in error for error in refused), refused
