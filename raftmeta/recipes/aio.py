"""The recipes on asyncio: the same names and contracts as in raftmeta.recipes, over a raftmeta.aio.Node."""

from raftmeta.recipes.barrier import Barrier
from raftmeta.recipes.claims import Taken
from raftmeta.recipes.counter import Counter
from raftmeta.recipes.double_barrier import DoubleBarrier
from raftmeta.recipes.election import Election
from raftmeta.recipes.group import Group
from raftmeta.recipes.held import Permit
from raftmeta.recipes.lock import Lock, ReadWriteLock, Semaphore
from raftmeta.recipes.queue import Queue
from raftmeta.recipes.registry import Registry
from raftmeta.recipes.storage import Storage

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
]
