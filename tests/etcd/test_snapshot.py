"""Maintenance.Snapshot: a database of bbolt that our own reader of etcd's files takes, with all keys as in Range.

`./build.sh doors etcd_snapshot` gives such a file to etcdutl and to a real etcd.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from raftmeta.migrate import EtcdSource
from tests.etcd.client import EtcdClient, RpcError
from tests.etcd.conftest import Door
from tests.processes.waiting import wait_until

RESOURCE_EXHAUSTED = 8
PAGE_BYTES = 4096
BRANCHES = 120
KEYS = 600
PUTS_OF_A_TXN = 100
LEASE_S = 60
BIG_BYTES = 300_000
LARGE_BYTES = 900_000
ANSWER_S = 20.0


def saved(client: EtcdClient, path: Path) -> Path:
    """The file that `etcdctl snapshot save` writes."""
    replies = client.snapshot()
    *pieces, hash_of_all = [reply["blob"] for reply in replies]
    left = sum(map(len, pieces))
    for reply, piece in zip(replies, pieces, strict=False):
        left -= len(piece)
        assert reply.get("remaining_bytes", 0) == left
        assert reply["version"] == "3.6.0"
    database = b"".join(pieces)
    assert hashlib.sha256(database).digest() == hash_of_all
    path.write_bytes(database + hash_of_all)
    return path


def kept(source: EtcdSource) -> dict[bytes, tuple[Any, ...]]:
    found = {}
    for item in source.items():
        facts = json.loads(item.metadata)
        found[item.key] = (
            item.value,
            facts["create_revision"],
            facts["mod_revision"],
            facts["version"],
            int(facts.get("lease", "0"), 16),
        )
    return found


def shown(client: EtcdClient, revision: int) -> dict[bytes, tuple[Any, ...]]:
    reply = client.ask("Range", key=b"\0", range_end=b"\0", revision=revision)
    return {
        kv["key"]: (
            kv.get("value", b""),
            kv["create_revision"],
            kv["mod_revision"],
            kv["version"],
            kv.get("lease", 0),
        )
        for kv in reply.get("kvs", [])
    }


def test_a_new_store_is_a_database_without_rows(tmp_path: Path) -> None:
    door = Door(tmp_path)
    try:
        with door.client() as client, EtcdSource(saved(client, tmp_path / "db")) as source:
            assert kept(source) == {}
            assert source.facts()["compacted revision"] == 1
            assert source.holders() == {}
    finally:
        door.node.close()


def test_a_snapshot_has_every_key_with_its_revisions_and_lease(door: Door, client: EtcdClient, tmp_path: Path) -> None:
    """Changed, deleted, leased, larger than a page, several in one revision; the newest revision is a deletion."""
    client.ask("LeaseGrant", TTL=LEASE_S, ID=77)
    puts = [{"put": {"key": b"txn/%d" % number, "value": b"x" * number}} for number in range(40)]
    client.ask("Txn", success=puts)
    client.ask("Put", key=b"leased", value=b"1", lease=77)
    client.ask("Put", key=b"big", value=bytes(BIG_BYTES))
    for value in (b"", b"1", b"2"):
        client.ask("Put", key=b"again", value=value)
    client.ask("Put", key=b"gone", value=b"")
    revision = client.ask("DeleteRange", key=b"gone")["header"]["revision"]
    with EtcdSource(saved(client, tmp_path / "db")) as source:
        assert kept(source) == shown(client, revision)
        assert source.revision == revision
        assert source.facts()["compacted revision"] == revision
        assert source.holders() == {77: LEASE_S}
        assert source.dropped == {}
        places = [(change.revision, change.sub) for change in source.changes()]
        assert places == sorted(set(places))
        assert [change.sub for change in source.changes() if change.key.startswith(b"txn/")] == list(range(len(puts)))


def test_a_tree_of_pages_has_branches_over_branches(door: Door, client: EtcdClient, tmp_path: Path) -> None:
    """Two rows fill a page, so there are more leaves than one branch page has room for."""
    value = bytes(PAGE_BYTES // 2 - 100)
    for first in range(0, KEYS, PUTS_OF_A_TXN):
        numbers = range(first, first + PUTS_OF_A_TXN)
        client.ask("Txn", success=[{"put": {"key": b"many/%06d" % number, "value": value}} for number in numbers])
    path = saved(client, tmp_path / "db")
    assert path.stat().st_size // PAGE_BYTES > KEYS // 2 > BRANCHES
    with EtcdSource(path) as source:
        assert kept(source) == shown(client, source.revision)


def test_one_snapshot_is_made_at_a_time(door: Door, client: EtcdClient, tmp_path: Path) -> None:
    """One that its client does not read holds the state; when the client leaves, the next one is made."""
    client.ask("Put", key=b"large", value=bytes(LARGE_BYTES))
    with door.client() as slow:
        stream = slow.start("Snapshot")
        while not slow.calls[stream].data:
            slow.receive()

        def refused() -> bool:
            with pytest.raises(RpcError) as error:
                client.snapshot()
            return error.value.code == RESOURCE_EXHAUSTED

        assert refused()
        client.ask("Put", key=b"beside", value=b"1")  # writers go on
    wait_until(lambda: saves(client, tmp_path / "db"), timeout_s=ANSWER_S, what="the next snapshot")
    with EtcdSource(tmp_path / "db") as source:
        assert kept(source)[b"beside"][0] == b"1"


def saves(client: EtcdClient, path: Path) -> bool:
    try:
        saved(client, path)
    except RpcError as error:
        assert error.code == RESOURCE_EXHAUSTED
        return False
    return True
