"""The reader of ZooKeeper's files against ZooKeeper itself: it makes them, and its own tools say what is in them."""

from __future__ import annotations

import re
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftmeta.migrate import SourceDamaged, ZooKeeperSource
from raftmeta.migrate.zookeeper_files import read_log
from tests.migrate import zookeeper_client as zk
from tests.migrate.zookeeper_client import ZooKeeperClient, create, create_ttl, delete, set_data
from tests.migrate.zookeeper_server import ZooKeeperServer, node_of, shown

SECRET_ACL = [(1, "world", "anyone"), (31, "digest", "user:c2VjcmV0")]
WRITERS = 3
ROUNDS = 150
KINDS = {
    -11: "closeSession",
    -10: "createSession",
    -1: "error",
    1: "create",
    2: "delete",
    5: "setData",
    7: "setACL",
    14: "multi",
    15: "create2",
    19: "createContainer",
    20: "deleteContainer",
    21: "createTTL",
}


def fill(server: ZooKeeperServer) -> ZooKeeperClient:
    """Nodes of every kind; the client that is returned keeps its session, and with it two ephemeral nodes."""
    client = ZooKeeperClient(server.port)
    client.do(zk.CREATE, create("/app", b"first"))
    client.do(zk.CREATE_2, create("/app/without", None))
    client.do(zk.CREATE, create("/app/empty", b""))
    client.do(zk.CREATE, create("/app/\u00fcnic\u00f6de", "\u2603".encode()))
    client.do(zk.CREATE, create("/app/binary", bytes(range(256)) * 40))
    client.do(zk.CREATE_CONTAINER, create("/app/container", b"c", flags=zk.CONTAINER))
    client.do(zk.CREATE_TTL, create_ttl("/app/ttl", b"t", 3_600_000))
    client.do(zk.CREATE, create("/app/secret", b"s", acl=SECRET_ACL))
    client.do(zk.SET_ACL, zk.text("/app/empty") + zk.rights(SECRET_ACL) + struct.pack(">i", -1))
    client.do(zk.CREATE, create("/queue", b""))
    for number in range(12):
        client.do(zk.CREATE, create("/queue/item-", b"%d" % number, flags=zk.SEQUENTIAL))
    client.do(zk.DELETE, delete("/queue/item-0000000003"))
    client.do(zk.CREATE, create("/app/here", b"e", flags=zk.EPHEMERAL))
    client.do(zk.CREATE, create("/app/lock-", b"e", flags=zk.EPHEMERAL | zk.SEQUENTIAL))
    parts = [(zk.CREATE, create("/multi", b"1")), (zk.CREATE, create("/multi/a", b"2"))]
    parts += [(zk.SET_DATA, set_data("/app", b"second")), (zk.CREATE, create("/multi/b", b"3"))]
    assert client.multi([*parts, (zk.DELETE, delete("/multi/b"))])
    assert not client.multi([(zk.CREATE, create("/multi/c", b"")), (zk.CREATE, create("/multi/a", b""))])
    assert client.ask(zk.CREATE, create("/app", b""))[0] != 0
    assert client.ask(zk.DELETE, delete("/app"))[0] != 0
    return client


def churn(port: int, name: str) -> None:
    """Changes without pause, so that every snapshot is written while nodes come, change and go."""
    with ZooKeeperClient(port) as client:
        client.do(zk.CREATE, create(f"/{name}", b""))
        for number in range(ROUNDS):
            path = f"/{name}/{number % 7}"
            requests = [
                (zk.CREATE, create(path, b"%d" % number)),
                (zk.CREATE, create(f"{path}/below", None)),
                (zk.SET_DATA, set_data(path, b"again %d" % number)),
                (zk.CREATE, create(f"/{name}/e{number}", b"", flags=zk.EPHEMERAL)),
            ]
            if number % 3:
                requests += [(zk.DELETE, delete(f"{path}/below")), (zk.DELETE, delete(path))]
            client.ask_all(requests)
            if number % 40 == 39:  # another session, whose end takes its nodes along
                with ZooKeeperClient(port) as other:
                    other.do(zk.CREATE, create(f"/{name}/o{number}", b"", flags=zk.EPHEMERAL))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server that took many snapshots under load and was killed; what it then reads is its newest snapshot."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), snap_count=150)
    with server:
        client = fill(server)
        writers = [threading.Thread(target=churn, args=(server.port, f"load{number}")) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        server.restart()
        client.drop()
        server.kill()
        yield server


def newest(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.glob(f"{kind}.*"), key=lambda path: int(path.name.split(".")[1], 16), reverse=True)


def oracle_nodes(server: ZooKeeperServer, snapshot: Path) -> set[str]:
    return {text for text in server.format_snapshot(snapshot) if text.startswith("/")}


def test_every_snapshot_and_its_logs_lead_to_what_the_server_had(server: ZooKeeperServer, tmp_path: Path) -> None:
    """Field by field, from each of the snapshots that were written under load: they are fuzzy, the result is not."""
    snapshots = newest(server.files, "snapshot")
    expected = oracle_nodes(server, snapshots[0])
    zxids = set()
    for number in range(len(snapshots)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in [*snapshots[number:], *newest(server.files, "log")]:
            (folder / path.name).symlink_to(path)
        with ZooKeeperSource(folder) as source:
            assert {shown(node) for node in source.nodes()} == expected
            assert source.warnings == []
            zxids.add(source.tree.zxid)
    assert len(zxids) == 1
    assert len(snapshots) > 8
    assert len(expected) > 40


def test_rights_sessions_and_kinds_of_nodes_are_read(server: ZooKeeperServer) -> None:
    """What SnapshotFormatter does not print, against what the client asked for."""
    with ZooKeeperSource(server.data) as source:
        nodes = {node.path: node for node in source.nodes()}
        open_acl = ((31, "world", "anyone"),)
        assert nodes[b"/app/secret"].acl == nodes[b"/app/empty"].acl == tuple(SECRET_ACL)
        assert nodes[b"/app"].acl == nodes[b"/"].acl == open_acl
        assert nodes[b"/app/without"].data is None
        assert nodes[b"/app/empty"].data == b""
        assert nodes[b"/app/ttl"].ttl_ms == 3_600_000
        assert nodes[b"/app/container"].is_container
        assert nodes[b"/queue"].cversion == 12
        ephemerals = [node for node in nodes.values() if node.owner]
        assert {node.path for node in ephemerals} == {b"/app/here", b"/app/lock-0000000008"}
        assert {node.owner for node in ephemerals} == set(source.holders())
        assert list(nodes) == sorted(nodes)


def test_an_item_has_all_that_its_node_has(server: ZooKeeperServer) -> None:
    """What is as it mostly is, is left out of the side key, and nothing else."""
    with ZooKeeperSource(server.data) as source:
        expected = [node for node in source.nodes() if not node.path.startswith(b"/zookeeper")]
        items = list(source.items())
        assert [node_of(item.key, item.value, item.metadata) for item in items] == expected
        assert [item.holder for item in items] == [node.owner for node in expected]
        assert [item.counter for item in items] == [node.cversion or None for node in expected]
    plain = min(len(item.metadata) for item in items)
    assert plain < 60


def test_every_transaction_is_seen_as_its_own_tool_shows_it(server: ZooKeeperServer) -> None:
    """Session, zxid and kind of each transaction of each log, in order."""
    logs = newest(server.files, "log")[::-1]
    found = []
    for path in logs[:3]:
        text = server.format_log(path)
        expected = re.findall(r"session (0x\w+) cxid (0x\w+) zxid (0x\w+) (\w+)", text)
        for record, (session, own, zxid, kind) in zip(read_log(path, is_last=False), expected, strict=True):
            fields = struct.unpack_from(">qiqqi", record.body)
            assert (fields[0], fields[1], fields[2]) == (int(session, 16), int(own, 16), int(zxid, 16))
            assert KINDS[fields[4]] == kind
            found.append(kind)
    assert {"create", "create2", "createTTL", "createContainer", "multi", "setACL", "error", "delete"} <= set(found)


@pytest.mark.parametrize("method", ["gz", "snappy"])
def test_packed_snapshots_are_read(server: ZooKeeperServer, tmp_path: Path, method: str) -> None:
    """A server that packs its snapshots starts on the same data: what is read of it stays the same."""
    packing = ZooKeeperServer(tmp_path / method, compression=method)
    shutil.copytree(server.files, packing.files)
    with packing:
        pass
    (snapshot,) = packing.files.glob(f"snapshot.*.{method}")
    with ZooKeeperSource(snapshot) as packed, ZooKeeperSource(server.data) as plain:
        assert list(packed.nodes()) == list(plain.nodes())
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceDamaged, match=re.escape(snapshot.name)):
        ZooKeeperSource(snapshot)


def test_a_missing_log_is_noticed(server: ZooKeeperServer, tmp_path: Path) -> None:
    """From an old snapshot on, without one of the logs in between: an error that names the transactions."""
    shutil.copytree(server.files, tmp_path / "version-2")
    for path in newest(tmp_path / "version-2", "snapshot")[:-1]:
        path.unlink()
    newest(tmp_path / "version-2", "log")[2].unlink()
    with pytest.raises(SourceDamaged, match="those between are missing"):
        ZooKeeperSource(tmp_path)


def test_a_snapshot_alone_is_refused_if_it_was_written_under_load(server: ZooKeeperServer, tmp_path: Path) -> None:
    """The state of a fuzzy snapshot is none that ever was: without its logs it is not given out."""
    results = set()
    for snapshot in newest(server.files, "snapshot"):
        alone = tmp_path / snapshot.name
        shutil.copy(snapshot, alone)
        try:
            ZooKeeperSource(alone).close()
            results.add("sharp")
        except SourceDamaged as error:
            assert re.search("written while transactions went on", str(error))
            results.add("fuzzy")
        alone.unlink()
    assert "sharp" in results


def test_another_tree_than_the_servers_is_noticed(server: ZooKeeperServer, tmp_path: Path) -> None:
    """The digest that the server wrote with each transaction: logs on top of another server's snapshot differ."""
    shutil.copytree(server.files, tmp_path / "version-2")
    snapshots = newest(tmp_path / "version-2", "snapshot")
    first, second = snapshots[-1], snapshots[-2]
    for path in snapshots[:-2]:
        path.unlink()
    shutil.copy(first, second)  # an older state under a newer name
    with pytest.raises(SourceDamaged, match=r"not that of the server|written while transactions"):
        ZooKeeperSource(tmp_path)
