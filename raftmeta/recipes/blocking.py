"""The recipes for callers that may block: each is the twin of a class of coroutines (recipes/twin).

There is no logic here. Contracts are in raftmeta/interfaces.py and in the modules of the recipes.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Self, cast

import raftmeta.recipes.aio as aio
from raftmeta.interfaces import Data, GroupMembership, Held, LeaderElection, ListenerRegistry
from raftmeta.interfaces import Storage as StorageInterface
from raftmeta.operations import Fence
from raftmeta.recipes.deadline import DEFAULT_TTL_S
from raftmeta.recipes.face import run
from raftmeta.recipes.face_blocking import BlockingFace
from raftmeta.recipes.held import Hold as AioHold
from raftmeta.recipes.keys import check_key
from raftmeta.recipes.store import Store
from raftmeta.recipes.twin import Twin, attribute, blocking, iterated

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


# --- what is held -----------------------------------------------------------------------------------------------------


class Hold(Twin, Held, of=AioHold):
    """A hold whose loss may be waited for by blocking."""

    id: str = attribute("id")
    data: bytes = attribute("data")
    epoch: int = attribute("epoch")
    fence: Fence = attribute("fence")
    held = blocking(AioHold.held, bool)
    remaining_s = blocking(AioHold.remaining_s, float)
    wait_lost = blocking(AioHold.wait_lost)


class Permit(Hold, of=aio.Permit):
    """A hold that its holder gives back itself: a lock, a permit of a semaphore. As a context it is released."""

    release = blocking(aio.Permit.release)

    def __enter__(self) -> Self:
        return self

    __exit__ = blocking(aio.Permit.__aexit__)


class Taken(Hold, of=aio.Taken):
    """An item that this worker has. As a context: done at its end, given back when an exception leaves it."""

    done = blocking(aio.Taken.done)

    def give_back(self) -> None:
        """Let somebody else have it, at its old place. Idempotent."""
        run(self._of.give_back())

    def __enter__(self) -> Self:
        return self

    __exit__ = blocking(aio.Taken.__aexit__)


# --- the four interfaces ----------------------------------------------------------------------------------------------


class _Part(Twin):
    """Set up once, on a store."""

    def init(self, context: Store) -> None:
        """Set up on a raftmeta.Node, a raftmeta.Client or another Store. Once, before any other call."""
        run(self._of.init(BlockingFace(context)))


class Group(_Part, GroupMembership, of=aio.Group):
    """KIP-30 Group Membership on a store. ttl_s: how many seconds a silent member stays."""

    def __init__(self, group_name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.Group(group_name, ttl_s=ttl_s)

    group: str = attribute("group")
    listener_failures: int = attribute("listener_failures")
    join = blocking(aio.Group.join, Hold)
    leave = blocking(aio.Group.leave)
    membership_list = blocking(aio.Group.membership_list)
    membership = blocking(aio.Group.membership)
    members = blocking(aio.Group.members)
    add_listener = blocking(aio.Group.add_listener)
    remove_listener = blocking(aio.Group.remove_listener)
    close = blocking(aio.Group.close)


class Election(_Part, LeaderElection, of=aio.Election):
    """KIP-30 Leader Election on a store. ttl_s: how many seconds a silent leader keeps the lead."""

    def __init__(self, service: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.Election(service, ttl_s=ttl_s)

    service: str = attribute("service")
    listener_failures: int = attribute("listener_failures")
    get_leader = blocking(aio.Election.get_leader)
    leader = blocking(aio.Election.leader)
    nominate = blocking(aio.Election.nominate)
    resign = blocking(aio.Election.resign)
    withdraw = blocking(aio.Election.withdraw)
    add_listener = blocking(aio.Election.add_listener)
    remove_listener = blocking(aio.Election.remove_listener)
    close = blocking(aio.Election.close)

    def lead(self, candidate: str) -> Held | None:
        return cast("Held | None", self._of.lead(candidate))

    def terms(self, candidate: str, data: Data = b"") -> Iterator[Held]:
        yield from iterated(self._of.terms(candidate, data))


class Storage(_Part, StorageInterface, of=aio.Storage):
    """KIP-30 Storage on a store."""

    def __init__(self) -> None:
        self._of = aio.Storage()

    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        face = cast(BlockingFace, self._of.face)
        return face.fetch(check_key(key), self._of.fetched, local=local, timeout_s=timeout_s)

    get = blocking(aio.Storage.get)
    put = blocking(aio.Storage.put)
    update = blocking(aio.Storage.update)
    delete = blocking(aio.Storage.delete)
    children = blocking(aio.Storage.children)
    multi = blocking(aio.Storage.multi)
    close = blocking(aio.Storage.close)


class Registry(_Part, ListenerRegistry, of=aio.Registry):
    """KIP-30 Listener Registry on a store; all listeners share threads."""

    def __init__(self) -> None:
        self._of = aio.Registry()

    listener_failures: int = attribute("listener_failures")
    add_value_change_listener = blocking(aio.Registry.add_value_change_listener)
    remove_value_change_listener = blocking(aio.Registry.remove_value_change_listener)
    add_key_set_change_listener = blocking(aio.Registry.add_key_set_change_listener)
    remove_key_set_change_listener = blocking(aio.Registry.remove_key_set_change_listener)
    close = blocking(aio.Registry.close)


# --- further recipes --------------------------------------------------------------------------------------------------


class Lock(Twin, of=aio.Lock):
    """One holder at a time, in the order of asking: `with Lock(node, "jobs").acquire() as held:`. Not re-entrant."""

    def __init__(self, store: Store, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.Lock(BlockingFace(store), name, ttl_s=ttl_s)

    acquire = blocking(aio.Lock.acquire, Permit)


class ReadWriteLock(Twin, of=aio.ReadWriteLock):
    """Many readers or one writer. A writer that waits keeps later readers out. Not re-entrant, no upgrade."""

    def __init__(self, store: Store, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.ReadWriteLock(BlockingFace(store), name, ttl_s=ttl_s)

    acquire_read = blocking(aio.ReadWriteLock.acquire_read, Permit)
    acquire_write = blocking(aio.ReadWriteLock.acquire_write, Permit)


class Semaphore(Twin, of=aio.Semaphore):
    """At most `permits` holders at a time, in the order of asking. All who use it must name the same number."""

    def __init__(self, store: Store, name: str, permits: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.Semaphore(BlockingFace(store), name, permits, ttl_s=ttl_s)

    acquire = blocking(aio.Semaphore.acquire, Permit)


class Barrier(Twin, of=aio.Barrier):
    """While it is set, who waits is held back. It outlives whoever set it."""

    def __init__(self, store: Store, name: str) -> None:
        self._of = aio.Barrier(BlockingFace(store), name)

    set = blocking(aio.Barrier.set)
    lift = blocking(aio.Barrier.lift)
    wait = blocking(aio.Barrier.wait)


class DoubleBarrier(Twin, of=aio.DoubleBarrier):
    """`count` participants: enter returns when all have entered, leave when all have left or are gone."""

    def __init__(self, store: Store, name: str, count: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.DoubleBarrier(BlockingFace(store), name, count, ttl_s=ttl_s)

    enter = blocking(aio.DoubleBarrier.enter)
    leave = blocking(aio.DoubleBarrier.leave)


class Counter(Twin, of=aio.Counter):
    """A signed 64-bit number that all share and that begins at 0."""

    def __init__(self, store: Store, name: str) -> None:
        self._of = aio.Counter(BlockingFace(store), name)

    add = blocking(aio.Counter.add)
    get = blocking(aio.Counter.get)


class Queue(Twin, of=aio.Queue):
    """Items that are worked on once each, in order. ttl_s: how many seconds a silent worker keeps its items."""

    def __init__(self, store: Store, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._of = aio.Queue(BlockingFace(store), name, ttl_s=ttl_s)

    put = blocking(aio.Queue.put)
    count = blocking(aio.Queue.count)
    take = blocking(aio.Queue.take, Taken)
    close = blocking(aio.Queue.close)
