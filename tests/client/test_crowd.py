"""Ten thousand clients of one node; node and crowd are processes of their own, for their descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.client.crowd import raise_descriptor_limit
from tests.lint.sources import ROOT
from tests.processes.cluster import close, open_node, put, ready
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports, wait_until

COUNT = 10_000
BYTES_PER_CONNECTION = 4096  # of the node: its struct, nothing that waits


def open_crowded_node(peers: dict[str, str], client_listen: str, folder: str) -> raftmeta.Node:
    raise_descriptor_limit()
    settings: dict[str, Any] = {"hello_timeout_s": 60.0, "client_idle_s": 60.0, "wal_bytes_max": 1 << 28}
    settings |= {"client_unbound_connections_max": COUNT, "client_unbound_per_address_max": COUNT}
    return open_node("a", peers, folder, settings, client_listen=client_listen)


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.uninstrumented
def test_ten_thousand_connections_are_served_in_bounded_memory(tmp_path: Path) -> None:
    """Each gets a ping and a linearizable read answered; one more is turned away; all places are given back.

    Init: a node that takes 10,000 clients. Act: as many connect, ask, and stay. Check: answers, memory, counters.
    """
    port, client_port = free_ports(2)
    node = RemoteProcess(
        open_crowded_node,
        {"a": f"127.0.0.1:{port}"},
        f"127.0.0.1:{client_port}",
        str(tmp_path / "a"),
        log=tmp_path / "a.log",
    )
    node.start()
    crowd = subprocess.Popen(
        [sys.executable, "-m", "tests.client.crowd", "127.0.0.1", str(client_port), str(COUNT)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        node.call(ready, 10.0)
        node.call(put, "k", b"1")
        before = resident_bytes(node.pid)
        assert crowd.stdout is not None and crowd.stdin is not None
        assert int(crowd.stdout.readline()) == COUNT
        assert resident_bytes(node.pid) - before < COUNT * BYTES_PER_CONNECTION
        wait_until(lambda: node.call(metrics)["client_connections"] == COUNT, timeout_s=20, what="all to count")
        with raftmeta.Client(f"raft://127.0.0.1:{client_port}") as late, pytest.raises(raftmeta.ReadyTimeout):
            late.ready(0.2)
        wait_until(
            lambda: node.call(metrics)["client_connections_turned_away"], timeout_s=20, what="the refusal to count"
        )
        crowd.stdin.close()
        wait_until(lambda: node.call(metrics)["client_connections"] == 0, timeout_s=20, what="all to be gone")
        node.call(close)
    finally:
        crowd.kill()
        crowd.wait()
        assert crowd.stdout is not None
        crowd.stdout.close()
        node.kill()
