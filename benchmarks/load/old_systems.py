"""Real servers full of data to migrate, and what their own tools say is in them.

A ZooKeeper 3.9 of the jars within pyspark has the state of partitions as Kafka keeps it, and among it sequential nodes,
rights, changed nodes and ephemerals; an etcd 3.5 the same as keys, with leases, changes and deletions. How much is
there is exact: so many nodes or keys as were asked for.

What both sides hold is compared as a count and a sum of hashes, in whatever order it comes, so that neither a dump nor
a cluster has to be in memory.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import raftmeta
from raftmeta.migrate.comparison import target_records
from tests.migrate import zookeeper_client as zk
from tests.migrate.etcd_server import EtcdServer, program, run, text
from tests.migrate.zookeeper_server import ZooKeeperServer, node_of, shown

BLOCK = 500  # nodes, and requests under way at once
EVERY = 20  # blocks: one of them sequential, one with rights of its own, one whose last node was changed
IN_LOG = 10  # one of so many blocks is in the log behind the snapshot
SECRET_ACL = ((1, "world", "anyone"), (31, "digest", "user:c2VjcmV0"))
PAGE_KEYS = 5000
LEASE = 0x1234567890ABCDEF


@dataclass(slots=True)
class Contents:
    """A set of texts: how many, and the sum of their hashes."""

    count: int = 0
    hash: int = 0

    def add(self, text: bytes) -> None:
        self.count += 1
        self.hash = (self.hash + int.from_bytes(blake2b(text, digest_size=16).digest(), "big")) % (1 << 128)

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> Contents:
        found = cls()
        for one in texts:
            found.add(one)
        return found


def state(number: int) -> bytes:
    return b'{"controller_epoch":3,"leader":%d,"version":1,"leader_epoch":17,"isr":[1,2,3]}' % (number % 7)


# --- ZooKeeper --------------------------------------------------------------------------------------------------------


@contextmanager
def zookeeper(folder: Path, count: int) -> Iterator[tuple[Path, Contents]]:
    """The folder of a server that was killed, with `count` nodes below "/", and what its SnapshotFormatter shows.

    Its snapshot has nine tenths of them, its log the rest.
    """
    server = ZooKeeperServer(folder, snap_count=100 * count)
    blocks = -(-count // BLOCK)
    with server:
        _fill(server, count, range(blocks - blocks // IN_LOG - 1))
        server.restart()
        client = _fill(server, count, range(blocks - blocks // IN_LOG - 1, blocks))
        server.kill()
        client.drop()
    # A server that starts on a copy writes all that it knows into a snapshot.
    oracle = ZooKeeperServer(folder / "oracle")
    shutil.copytree(server.files, oracle.files)
    with oracle:
        pass
    newest = max(oracle.files.glob("snapshot.*"), key=lambda path: int(path.name.split(".")[1], 16))
    nodes = (text for text in oracle.format_snapshot(newest) if text.startswith("/"))
    found = Contents.of(text.encode() for text in nodes if not text.startswith("/zookeeper"))
    shutil.rmtree(oracle.folder)
    yield server.data, found


def _fill(server: ZooKeeperServer, count: int, blocks: range) -> zk.ZooKeeperClient:
    """Make these blocks; the last one is of ephemeral nodes, which live as long as the client's session."""
    client = zk.ZooKeeperClient(server.port)
    last = -(-count // BLOCK) - 1
    for block in blocks:
        size = min(BLOCK, count - block * BLOCK)
        parent = f"/t{block:06}"
        flags = zk.EPHEMERAL if block == last else zk.SEQUENTIAL if block % EVERY == 0 else 0
        acl = SECRET_ACL if block % EVERY == 1 else zk.OPEN_ACL
        name = "member-" if flags & zk.SEQUENTIAL else "partition-"
        paths = [f"{parent}/{name}" + ("" if flags & zk.SEQUENTIAL else f"{number:06}") for number in range(size - 1)]
        requests = [(zk.CREATE, zk.create(parent, state(block)))]
        requests += [(zk.CREATE, zk.create(path, state(block), flags=flags, acl=acl)) for path in paths]
        if block % EVERY == 2:
            requests.append((zk.SET_DATA, zk.set_data(paths[-1], b"changed")))
        errors = {error for error, _ in client.ask_all(requests)}
        assert errors == {0}, f"block {block}: {errors}"
    return client


def zookeeper_in(client: raftmeta.Client, side: bytes) -> Contents:
    """What a cluster has of it, in the same words. Raises AssertionError: rights or counters are not what they were."""
    found = Contents()
    secret = 0
    data, sides = target_records(client, b"/"), target_records(client, side + b"item/")
    counters = {
        record.key.removeprefix(side + b"counter/"): record.value
        for record in target_records(client, side + b"counter/")
    }
    for record, beside in zip(data, sides, strict=True):
        assert beside.key == side + b"item/" + record.key, (beside.key, record.key)
        node = node_of(record.key, record.value, beside.value)
        assert int.from_bytes(counters.pop(record.key, b""), "big") == node.cversion, record.key
        secret += node.acl == SECRET_ACL
        found.add(shown(node).encode())
    assert not counters, counters
    assert secret and secret % (BLOCK - 1) == 0, secret
    return found


# --- etcd -------------------------------------------------------------------------------------------------------------


@contextmanager
def etcd(folder: Path, count: int) -> Iterator[tuple[Path, Contents]]:
    """What `etcdctl snapshot save` wrote of a server with `count` keys, and what that server says it has."""
    with EtcdServer(folder) as server:
        server.ask("lease/grant", TTL="86400", ID=str(LEASE))
        server.put_all([(b"/gone/%06d" % number, b"") for number in range(BLOCK)])
        server.ask("kv/deleterange", key=text(b"/gone/"), range_end=text(b"/gone0"))
        for block in range(-(-count // BLOCK)):
            size = min(BLOCK, count - block * BLOCK)
            keys = [b"/t%06d/partition-%06d" % (block, number) for number in range(size)]
            server.put_all([(key, state(block)) for key in keys])
            if block % EVERY == 1:
                server.ask("kv/put", key=text(keys[-1]), value=text(b"leased"), lease=str(LEASE))
            if block % EVERY == 2:
                server.put_all([(key, b"changed") for key in keys])
        saved = server.save(folder / "saved.db")
        status = json.loads(run(program("etcdutl"), "snapshot", "status", str(saved), "-w", "json"))
        found = Contents.of(_etcd_keys(server))
        revision = int(server.ask("kv/range", key=text(b"a"))["header"]["revision"])
        assert status["revision"] == revision, (status, revision)
    yield saved, found


def _etcd_keys(server: EtcdServer) -> Iterator[bytes]:
    start = b"\0"
    while True:
        page = server.ask("kv/range", key=text(start), range_end=text(b"\0"), limit=PAGE_KEYS)
        for one in page.get("kvs", []):
            key = base64.b64decode(one["key"])
            numbers = (int(one[name]) for name in ("create_revision", "mod_revision", "version"))
            yield _etcd_text(key, base64.b64decode(one.get("value", "")), *numbers, int(one.get("lease", 0)))
            start = key + b"\0"
        if not page.get("more"):
            return


def _etcd_text(key: bytes, value: bytes, create: int, mod: int, version: int, lease: int) -> bytes:
    return b"%d %d %d %d %b%b" % (create, mod, version, lease, key, value)


def etcd_in(client: raftmeta.Client, side: bytes) -> Contents:
    """What a cluster has of it, in the same words."""
    found = Contents()
    data, sides = target_records(client, b"/"), target_records(client, side + b"item/")
    for record, beside in zip(data, sides, strict=True):
        assert beside.key == side + b"item/" + record.key, (beside.key, record.key)
        told = json.loads(beside.value)
        numbers = (told[name] for name in ("create_revision", "mod_revision", "version"))
        found.add(_etcd_text(record.key, record.value, *numbers, int(told.get("lease", "0"), 16)))
    return found
