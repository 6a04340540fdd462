"""Kinds of the nodes behind a door, as the cluster itself tells them.

ZooKeeper's protocol shows containers and nodes with a time to live as persistent ones. It never asks a door.
"""

from __future__ import annotations

from collections.abc import Iterator

from raftmeta import Client, Node, View
from raftmeta.migrate.live.requests import owner_of

__all__ = ["kinds_of"]

KEYS_PER_PAGE = 1_000


def kinds_of(store: Client | Node | View, tree: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Path, and (czxid, owner) as Mirror.kinds has them, of each container and TTL node below the key of the tree."""
    top = tree.rstrip("/").encode()
    start = top + b"/"
    while True:
        page = store.range(start, top + b"0", limit=KEYS_PER_PAGE)
        for record in page.records:
            znode = record.znode
            if znode is not None and znode.kind in ("container", "ttl"):
                owner = owner_of(znode.kind == "container", znode.ttl_ms)
                yield record.key[len(top) :].decode(), (znode.stat.czxid, owner)
        if not page.more:
            return
        start = page.records[-1].key + b"\0"
