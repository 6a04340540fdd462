"""What a store gives back is what its users write in annotations, whichever store it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import raftmeta
import raftmeta.aio
from tests.client.nodes import serving


def hold(store: raftmeta.Node | raftmeta.Client) -> tuple[raftmeta.Lease, raftmeta.Watch]:
    """As a user annotates it."""
    return store.lease(5), store.watch(prefix="")


async def hold_aio(
    store: raftmeta.aio.Node | raftmeta.aio.Client,
) -> tuple[raftmeta.aio.Lease, raftmeta.aio.Watch]:
    return await store.lease(5), store.watch(prefix="")


def test_every_lease_is_a_lease_and_every_watch_a_watch(tmp_path: Path) -> None:
    with serving(tmp_path) as (nodes, url), raftmeta.Client(url) as client:
        for store in (nodes["a"], client):
            lease, watch = hold(store)
            with lease, watch:
                assert isinstance(lease, raftmeta.Lease) and isinstance(watch, raftmeta.Watch)
                assert lease.held() and lease.ttl_s == 5.0 and 0 < lease.remaining_s() <= 5

        async def work() -> None:
            async with nodes["a"].aio() as face, raftmeta.aio.Client(url) as other:
                for store in (face, other):
                    lease, watch = await hold_aio(store)
                    async with lease, watch:
                        assert isinstance(lease, raftmeta.aio.Lease) and isinstance(watch, raftmeta.aio.Watch)
                        assert lease.held() and not lease.is_revoked

        asyncio.run(work())


def test_node_and_client_have_the_same_verbs() -> None:
    """Each is written once, but for what a node can do without a frame or a coroutine of its own."""
    for verb in ("put", "put_many", "create", "update", "delete", "delete_range", "add", "txn", "compact"):
        assert verb == "put" or getattr(raftmeta.Node, verb) is getattr(raftmeta.Client, verb)
        assert verb == "put" or getattr(raftmeta.aio.Node, verb) is getattr(raftmeta.aio.Client, verb)
    for verb in ("range", "lease", "watch", "transfer", "members", "add_member", "remove_member", "promote", "demote"):
        assert getattr(raftmeta.Node, verb) is getattr(raftmeta.Client, verb)
        assert getattr(raftmeta.aio.Node, verb) is getattr(raftmeta.aio.Client, verb)
