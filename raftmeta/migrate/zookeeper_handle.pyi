"""The loops over all nodes of a ZooKeeper tree: they run a million times, and do what zookeeper_files and _tree say.

They decide nothing about a tree. They read the bytes of a node as a snapshot has it, big-endian: data with its length
(-1: none), number of the list of rights, stat (czxid mzxid ctime mtime version cversion aversion owner pzxid).
"""

from __future__ import annotations

from raftmeta.migrate.items import Item

CONTAINER_OWNER: int

def node_digest(path: bytes, record: bytes) -> int:
    """The share of one node in the digest: org.apache.zookeeper.server.DigestCalculator, version 2."""

def whole_nodes(buffer: bytes, position: int, most: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """(rows, where they end): at most so many nodes that stand whole in the buffer, as (path, record).

    It stops before whatever is not one: the end of the nodes, or of the buffer, or damage.
    """

def summed(rows: list[tuple[bytes, bytes]]) -> tuple[int, list[tuple[int, bytes]], set[int]]:
    """The facts that a tree needs of rows: (sum of their digests, (session, path) of ephemerals, numbers of rights)."""

def create_of(body: bytes, position: int) -> tuple[bytes, bytes, bytes, int]:
    """(path, data with its length, list of rights as its bytes, where that ends) of what a transaction creates.

    Raises ValueError: they make no sense.
    """

def new_record(data: bytes, rights: int, zxid: int, time_ms: int, owner: int) -> bytes:
    """The record of a node that was just created. data: with its length. rights: the number of its list."""

def children_of(record: bytes) -> tuple[int, int]:
    """(cversion, pzxid) of a node."""

def with_children(record: bytes, cversion: int, pzxid: int) -> bytes:
    """The record with these two."""

def items_of(
    rows: list[tuple[bytes, bytes]], rights: dict[int, str], has_ephemerals: bool, dropped: dict[str, int]
) -> list[Item]:
    """Items of (path, record) rows. rights: as JSON, by number; empty where all may do everything.

    Rows left out are counted in `dropped`: "nodes below /zookeeper", and unless has_ephemerals "ephemeral nodes".
    """
