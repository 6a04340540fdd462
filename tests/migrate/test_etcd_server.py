"""The reader of etcd's database against etcd itself: it makes the files, and its own tools say what is in them."""

from __future__ import annotations

import base64
import json
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftmeta.migrate import EtcdSource
from tests.migrate.etcd_server import EtcdServer, program, run, text

LEASE = 0x1234567890ABCDEF


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """Two thousand keys on many pages, large values, tombstones, a compaction, leases, users, an alarm."""
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        for block in range(4):
            pairs = [(b"/registry/%d/%d" % (block, number), b"v" * (number % 300)) for number in range(500)]
            server.put_all(pairs)
        server.put_all([(b"big", b"x" * 1_000_000), (b"\x00\xff", bytes(range(256))), (b"empty", b"")])
        for number in range(5):
            server.ask("kv/put", key=text(b"often"), value=text(b"%d" % number))
        server.ask("kv/deleterange", key=text(b"/registry/1/"), range_end=text(b"/registry/10"))
        server.ask("kv/put", key=text(b"/registry/1/7"), value=text(b"came back"))
        server.ask("lease/grant", TTL="600", ID=str(LEASE))
        server.ask("kv/put", key=text(b"leased"), value=text(b"here"), lease=str(LEASE))
        server.control("compaction", "--physical", "5")
        server.ask("kv/put", key=text(b"often"), value=text(b"after the compaction"))
        server.ask("auth/user/add", name="root", options={"noPassword": True})
        server.ask("auth/role/add", name="root")
        yield server


@pytest.fixture(scope="module")
def saved(server: EtcdServer) -> Path:
    return server.save(server.folder / "saved.db")


def test_all_keys_are_those_that_etcdctl_gets(server: EtcdServer, saved: Path) -> None:
    """Key by key: value, revisions, version and lease."""
    expected = []
    for one in json.loads(server.control("get", "", "--prefix", "-w", "json"))["kvs"]:
        raw = [base64.b64decode(one.get(name, "")) for name in ("key", "value")]
        expected.append((*raw, one["create_revision"], one["mod_revision"], one["version"], one.get("lease", 0)))
    with EtcdSource(saved) as source:
        found = []
        for item in source.items():
            side = json.loads(item.metadata)
            numbers = (side["create_revision"], side["mod_revision"], side["version"], int(side.get("lease", "0"), 16))
            found.append((item.key, item.value, *numbers))
            assert item.holder == numbers[3]
        assert source.holders() == {LEASE: 600.0}
    assert found == expected
    assert len(found) > 1500


def test_revision_and_number_of_rows_are_those_of_etcdutl(saved: Path) -> None:
    status = json.loads(run(program("etcdutl"), "snapshot", "status", str(saved), "-w", "json"))
    with EtcdSource(saved) as source:
        assert source.revision == status["revision"]
        rows = sum(sum(1 for _ in source._file.rows(bucket)) for bucket in source._file.buckets())
        assert rows == status["totalKey"]
        assert source.facts()["compacted revision"] == 5
        assert any("users" in warning for warning in source.warnings)
        assert sum(1 for _ in source.items()) and source.dropped == {"users": 1, "roles": 1}


def test_history_is_what_a_watch_from_the_compaction_shows(server: EtcdServer, saved: Path) -> None:
    """Every change behind the compacted revision, in order, as past reads of etcd tell them."""
    with EtcdSource(saved) as source:
        changes = [change for change in source.changes() if change.revision > 5]
    assert [(change.revision, change.sub) for change in changes] == sorted(
        (change.revision, change.sub) for change in changes
    )
    for change in changes[:3] + [change for change in changes if change.key == b"often"]:
        answer = server.ask("kv/range", key=text(change.key), revision=str(change.revision))
        (record,) = answer["kvs"]
        assert base64.b64decode(record.get("value", "")) == change.value
        assert int(record["version"]) == change.version
    assert sum(change.is_delete for change in changes) == 500


def test_a_compaction_counts_from_when_it_was_asked_for(tmp_path: Path) -> None:
    """etcd refuses older reads at once, and removes rows later: one at a time here, with a pause after each, so that
    most of them stand in the file."""
    with EtcdServer(tmp_path, "--experimental-compaction-batch-limit", "1") as server:
        for value in (b"1", b"2", b"3"):
            server.put_all([(b"key/%d" % number, value) for number in range(1000)])
        server.control("compaction", "3")
        with pytest.raises(urllib.error.HTTPError, match="400"):
            server.ask("kv/range", key=text(b"key/0"), revision="2")
        file = server.save(tmp_path / "saved.db")
    with EtcdSource(file) as source:
        assert source.facts()["compacted revision"] == 3
        assert source.facts()["changes read"] >= 2000
        assert {item.value for item in source.items()} == {b"3"}


def test_a_data_folder_that_was_stopped_holds_the_same(server: EtcdServer, saved: Path, tmp_path: Path) -> None:
    """Without a checksum, so only on request, and with a warning."""
    other = EtcdServer(tmp_path / "other")
    with other:
        other.put_all([(b"a", b"1"), (b"b", b"2")])
        other.ask("kv/deleterange", key=text(b"a"))
        file = other.save(tmp_path / "other.db")
    with EtcdSource(other.data, allow_unhashed=True) as folder, EtcdSource(file) as whole:
        assert list(folder.items()) == list(whole.items())
        assert [item.key for item in folder.items()] == [b"b"]
        assert "carries no checksum" in folder.warnings[0]
        assert whole.warnings == []
