"""Recipes on a store: KIP-30's four interfaces, and locks, semaphores, barriers, counters and queues.

    with raftmeta.recipes.Lock(node, "jobs/7").acquire(timeout_s=5) as held:
        node.put("jobs/7", b"done", fence=held)

They run on a raftmeta.Node or raftmeta.Client (recipes/store says which verbs they need); raftmeta.recipes.aio has the
same for asyncio. All state changes are transactions, all waiting is done in watches, and what is held is a key with a
lease whose create revision is its fence.
"""

from raftmeta.recipes import aio
from raftmeta.recipes.blocking import (
    Barrier,
    Counter,
    DoubleBarrier,
    Election,
    Group,
    Lock,
    Permit,
    Queue,
    ReadWriteLock,
    Registry,
    Semaphore,
    Storage,
    Taken,
)

__all__ = [
    "Barrier",
    "Counter",
    "DoubleBarrier",
    "Election",
    "Group",
    "Lock",
    "Permit",
    "Queue",
    "ReadWriteLock",
    "Registry",
    "Semaphore",
    "Storage",
    "Taken",
    "aio",
]
