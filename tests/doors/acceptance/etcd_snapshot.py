"""A snapshot of the door in the hands of etcd's own programs: etcdctl saves it, etcdutl looks at it and restores it.

A real etcd then serves what was restored: the same keys with the same revisions, leases and values.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conformance.etcd_cluster import etcd_command, etcd_status
from tests.doors.acceptance.etcd_door import one_node
from tests.doors.acceptance.trial import Trial
from tests.doors.software import etcd, etcdctl, etcdutl
from tests.etcd.client import EtcdClient
from tests.processes.program import Program
from tests.processes.waiting import free_addresses, wait_until

KEYS = 20_000
PUTS_OF_A_TXN = 100
BIG_BYTES = 1_000_000
LEASE = 77
LEASE_S = 3600
COMMAND_S = 120.0
SERVING_S = 60.0


def run(trial: Trial) -> None:
    for program in (etcd, etcdctl, etcdutl):
        program()
    saved, restored = trial.folder / "saved.db", trial.folder / "restored"
    with one_node(trial.folder / "node") as address:
        with trial.check(f"{KEYS} keys at the door"), EtcdClient(address) as client:
            _fill(client)
        with trial.check("etcdctl snapshot save"):
            _say(etcdctl(), f"--endpoints={address}", "snapshot", "save", saved)
        with EtcdClient(address) as client:
            wanted = client.ask("Range", key=b"\0", range_end=b"\0")
    with trial.check("etcdutl snapshot status"):
        status = json.loads(_say(etcdutl(), "snapshot", "status", saved, "-w", "json"))
        told = (status["revision"], status["version"], status["totalSize"])
        size = saved.stat().st_size // 512 * 512  # the hash stands behind it
        assert told == (wanted["header"]["revision"], "3.6.0", size), status
    name, client_at, peer = "restored", *free_addresses(2)
    members = etcd_command(name, restored, client_at, {name: peer})
    with trial.check("etcdutl snapshot restore"):
        cluster = [word for word in members if word.startswith(("--initial-", "--name", "--data-dir"))]
        _say(etcdutl(), "snapshot", "restore", saved, *cluster)
    server = Program(members, log=trial.folder / "etcd.log").start()
    try:
        with trial.check("a real etcd serves it"):
            wait_until(lambda: etcd_status(client_at).get("leader", "0") != "0", timeout_s=SERVING_S, what="etcd")
            with EtcdClient(client_at) as client:
                _compare(client, wanted)
    finally:
        server.kill()


def _say(program: Path, *words: object) -> str:
    command = [str(program), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
    return ended.stdout


def _fill(client: EtcdClient) -> None:
    client.ask("LeaseGrant", TTL=LEASE_S, ID=LEASE)
    for first in range(0, KEYS, PUTS_OF_A_TXN):
        numbers = range(first, first + PUTS_OF_A_TXN)
        client.ask("Txn", success=[{"put": {"key": b"%06d" % one, "value": b"%d" % one * 9}} for one in numbers])
    client.ask("DeleteRange", key=b"000100", range_end=b"000200")
    client.ask("Put", key=b"big", value=bytes(BIG_BYTES))
    client.ask("Put", key=b"leased", value=b"1", lease=LEASE)
    client.ask("Put", key=b"000001", value=b"again")
    client.ask("Put", key=b"gone", value=b"")
    client.ask("DeleteRange", key=b"gone")


def _compare(client: EtcdClient, wanted: dict[str, Any]) -> None:
    found = client.ask("Range", key=b"\0", range_end=b"\0")
    assert found["header"]["revision"] == wanted["header"]["revision"]
    assert found["kvs"] == wanted["kvs"]
    lease = client.ask("LeaseTimeToLive", ID=LEASE, keys=True)
    assert (lease["grantedTTL"], lease["keys"]) == (LEASE_S, [b"leased"]), lease
    put = client.ask("Put", key=b"new", value=b"1")
    assert put["header"]["revision"] == wanted["header"]["revision"] + 1
