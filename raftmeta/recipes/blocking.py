"""The recipes for callers that may block: each runs its coroutine to the end on the caller's thread (recipes/face).

There is no logic here. Contracts are in raftmeta/interfaces.py and in the modules of the recipes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import cast

import raftmeta.recipes.barrier as barrier
import raftmeta.recipes.counter as counter
import raftmeta.recipes.election as election
import raftmeta.recipes.group as group
import raftmeta.recipes.line as line
import raftmeta.recipes.queue as queue
import raftmeta.recipes.registry as registry
import raftmeta.recipes.storage as storage
from raftmeta.interfaces import (
    Data,
    FenceLike,
    GroupListener,
    GroupMembership,
    Held,
    KeySetListener,
    Leader,
    LeaderElection,
    LeaderListener,
    ListenerRegistry,
    Members,
    StorageOperation,
    Stored,
    ValueListener,
)
from raftmeta.interfaces import Storage as StorageInterface
from raftmeta.recipes.face import BlockingFace, run
from raftmeta.recipes.held import TUNE_GIVE_BACK_S, BlockingPermit
from raftmeta.recipes.keys import check_key
from raftmeta.recipes.line import DEFAULT_TTL_S
from raftmeta.recipes.queue import BlockingTaken
from raftmeta.recipes.store import Store

__all__ = [
    "Barrier",
    "Counter",
    "DoubleBarrier",
    "Election",
    "Group",
    "Lock",
    "Queue",
    "ReadWriteLock",
    "Registry",
    "Semaphore",
    "Storage",
]

OnHeld = Callable[[Held], object]


def _done(value: bytes | None) -> Future[bytes | None]:
    future: Future[bytes | None] = Future()
    future.set_result(value)
    return future


# --- the four interfaces ----------------------------------------------------------------------------------------------


class Group(GroupMembership):
    """KIP-30 Group Membership on a store. ttl_s: how many seconds a silent member stays."""

    def __init__(self, group_name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._group = group.Group(group_name, ttl_s=ttl_s)

    def init(self, context: Store) -> None:
        self._group.begin(BlockingFace(context))

    @property
    def group(self) -> str:
        return self._group.group

    @property
    def listener_failures(self) -> int:
        """How many calls of listeners ended with an exception."""
        return self._group.listener_failures

    def join(self, id: str, data: Data = b"", *, on_lost: OnHeld | None = None, timeout_s: float | None = 5.0) -> Held:
        return cast(Held, run(self._group.join(id, data, on_lost=on_lost, timeout_s=timeout_s)))

    def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        run(self._group.leave(id, timeout_s=timeout_s))

    def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        return run(self._group.membership_list(local=local, timeout_s=timeout_s))

    def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        return run(self._group.membership(local=local, timeout_s=timeout_s))

    def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        return run(self._group.members(local=local, timeout_s=timeout_s))

    def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None:
        run(self._group.add_listener(listener, timeout_s=timeout_s))

    def remove_listener(self, listener: GroupListener) -> None:
        run(self._group.remove_listener(listener))

    def close(self, *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """timeout_s: seconds for giving back; what is not given back by then goes with its lease."""
        run(self._group.close(timeout_s=timeout_s))


class Election(LeaderElection):
    """KIP-30 Leader Election on a store. ttl_s: how many seconds a silent leader keeps the lead."""

    def __init__(self, service: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._election = election.Election(service, ttl_s=ttl_s)

    def init(self, context: Store) -> None:
        self._election.begin(BlockingFace(context))

    @property
    def service(self) -> str:
        return self._election.service

    @property
    def listener_failures(self) -> int:
        """How many calls of listeners ended with an exception."""
        return self._election.listener_failures

    def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        return run(self._election.get_leader(local=local, timeout_s=timeout_s))

    def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        return run(self._election.leader(local=local, timeout_s=timeout_s))

    def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: OnHeld | None = None,
        on_lost: OnHeld | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool:
        nominated = self._election.nominate(
            candidate, data, on_elected=on_elected, on_lost=on_lost, timeout_s=timeout_s
        )
        return run(nominated)

    def lead(self, candidate: str) -> Held | None:
        return cast("Held | None", self._election.lead(candidate))

    def terms(self, candidate: str, data: Data = b"") -> Iterator[Held]:
        candidacy = run(self._election.begin_terms(candidate, data))
        try:
            while (lead := run(candidacy.next_lead())) is not None:
                yield cast(Held, lead.shown)
                run(lead.wait_lost())
        finally:
            run(self._election.end_terms(candidacy))

    def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        run(self._election.resign(leader, timeout_s=timeout_s))

    def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        run(self._election.withdraw(candidate, timeout_s=timeout_s))

    def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None:
        run(self._election.add_listener(listener, timeout_s=timeout_s))

    def remove_listener(self, listener: LeaderListener) -> None:
        run(self._election.remove_listener(listener))

    def close(self, *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """timeout_s: seconds for giving back; what is not given back by then goes with its lease."""
        run(self._election.close(timeout_s=timeout_s))


class Storage(StorageInterface):
    """KIP-30 Storage on a store."""

    def __init__(self) -> None:
        self._storage = storage.Storage()

    def init(self, context: Store) -> None:
        self._storage.begin(BlockingFace(context))

    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        face = cast(BlockingFace, self._storage.face)
        if local and face.has_state:
            return _done(run(self._storage.fetched(key, local=True)))
        return face.fetch(
            check_key(key),
            timeout_s,
            lambda: self._storage.fetched(key, local=local, timeout_s=timeout_s),
            local=local,
        )

    def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None:
        return run(self._storage.get(key, local=local, timeout_s=timeout_s))

    def put(self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0) -> int:
        return run(self._storage.put(key, data, fence=fence, timeout_s=timeout_s))

    def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        return run(
            self._storage.update(key, data, expected_revision=expected_revision, fence=fence, timeout_s=timeout_s)
        )

    def delete(
        self,
        key: str,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> None:
        run(self._storage.delete(key, expected_revision=expected_revision, fence=fence, timeout_s=timeout_s))

    def children(self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        return run(self._storage.children(namespace, local=local, timeout_s=timeout_s))

    def multi(
        self,
        operations: Sequence[StorageOperation],
        *,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        return run(self._storage.multi(operations, fence=fence, timeout_s=timeout_s))

    def close(self) -> None:
        run(self._storage.close())


class Registry(ListenerRegistry):
    """KIP-30 Listener Registry on a store; all listeners share threads."""

    def __init__(self) -> None:
        self._registry = registry.Registry()

    def init(self, context: Store) -> None:
        self._registry.begin(BlockingFace(context))

    @property
    def listener_failures(self) -> int:
        """How many calls of listeners ended with an exception."""
        return self._registry.listener_failures

    def add_value_change_listener(self, key: str, listener: ValueListener) -> None:
        run(self._registry.add_value_change_listener(key, listener))

    def remove_value_change_listener(self, key: str, listener: ValueListener) -> None:
        run(self._registry.remove_value_change_listener(key, listener))

    def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        run(self._registry.add_key_set_change_listener(namespace, listener))

    def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        run(self._registry.remove_key_set_change_listener(namespace, listener))

    def close(self) -> None:
        run(self._registry.close())


# --- further recipes --------------------------------------------------------------------------------------------------


class Lock:
    """One holder at a time, in the order of asking: `with Lock(node, "jobs").acquire() as held:`. Not re-entrant."""

    def __init__(self, store: Store, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._lock = line.Lock(BlockingFace(store), name, ttl_s=ttl_s)

    def acquire(self, *, timeout_s: float | None = None, on_lost: OnHeld | None = None) -> BlockingPermit:
        """Wait for the lock and hold it until release; give `fence=held` to every write it protects.

        on_lost: called once when it is lost before it was released. Raises Withdrawn (also a TimeoutError): not had
        within timeout_s seconds. LeaseExpired: this process was cut off while it waited.
        """
        return _permit(run(self._lock.acquire(timeout_s=timeout_s, on_lost=on_lost)))


class ReadWriteLock:
    """Many readers or one writer. A writer that waits keeps later readers out. Not re-entrant, no upgrade."""

    def __init__(self, store: Store, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._lock = line.ReadWriteLock(BlockingFace(store), name, ttl_s=ttl_s)

    def acquire_read(self, *, timeout_s: float | None = None, on_lost: OnHeld | None = None) -> BlockingPermit:
        """As Lock.acquire, beside other readers."""
        return _permit(run(self._lock.acquire_read(timeout_s=timeout_s, on_lost=on_lost)))

    def acquire_write(self, *, timeout_s: float | None = None, on_lost: OnHeld | None = None) -> BlockingPermit:
        """As Lock.acquire."""
        return _permit(run(self._lock.acquire_write(timeout_s=timeout_s, on_lost=on_lost)))


class Semaphore:
    """At most `permits` holders at a time, in the order of asking. All who use it must name the same number."""

    def __init__(self, store: Store, name: str, permits: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._semaphore = line.Semaphore(BlockingFace(store), name, permits, ttl_s=ttl_s)

    def acquire(self, *, timeout_s: float | None = None, on_lost: OnHeld | None = None) -> BlockingPermit:
        """As Lock.acquire. Raises InvalidArgument: somebody ahead named another number of permits."""
        return _permit(run(self._semaphore.acquire(timeout_s=timeout_s, on_lost=on_lost)))


def _permit(permit: object) -> BlockingPermit:
    return cast(BlockingPermit, permit)


class Barrier:
    """While it is set, who waits is held back. It outlives whoever set it."""

    def __init__(self, store: Store, name: str) -> None:
        self._barrier = barrier.Barrier(BlockingFace(store), name)

    def set(self) -> None:
        """Hold back everybody who waits from now on. Idempotent."""
        run(self._barrier.set())

    def lift(self) -> None:
        """Let all go on. Idempotent."""
        run(self._barrier.lift())

    def wait(self, *, timeout_s: float | None = None) -> bool:
        """Wait until it is lifted, or is not set at all; False: timeout_s seconds passed."""
        return run(self._barrier.wait(timeout_s=timeout_s))


class DoubleBarrier:
    """`count` participants: enter returns when all have entered, leave when all have left or are gone."""

    def __init__(self, store: Store, name: str, count: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._barrier = barrier.DoubleBarrier(BlockingFace(store), name, count, ttl_s=ttl_s)

    def enter(self, *, timeout_s: float | None = None) -> None:
        """Wait until all have entered. Raises Withdrawn: not within timeout_s seconds, and this one has not entered."""
        run(self._barrier.enter(timeout_s=timeout_s))

    def leave(self, *, timeout_s: float | None = None) -> bool:
        """Wait until all have left; False: timeout_s seconds passed, and this one has left."""
        return run(self._barrier.leave(timeout_s=timeout_s))


class Counter:
    """A signed 64-bit number that all share and that begins at 0."""

    def __init__(self, store: Store, name: str) -> None:
        self._counter = counter.Counter(BlockingFace(store), name)

    def add(self, number: int = 1) -> int:
        """Add number, which may be negative, and return the sum. Raises CommandRefused: out of 64 bits."""
        return run(self._counter.add(number))

    def get(self) -> int:
        """The number now."""
        return run(self._counter.get())


class Queue:
    """Items that are worked on once each, in order. ttl_s: how many seconds a silent worker keeps its items."""

    def __init__(self, store: Store, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._queue = queue.Queue(BlockingFace(store), name, ttl_s=ttl_s)

    def put(self, data: Data, *, fence: FenceLike | None = None) -> int:
        """Put an item behind all others and return its number; numbers grow."""
        return run(self._queue.put(data, fence=fence))

    def count(self) -> int:
        """How many items are not done."""
        return run(self._queue.count())

    def take(self, *, timeout_s: float | None = None) -> BlockingTaken:
        """Wait for the first item that nobody works on: `with queue.take() as item: work(item.data)`.

        Raises Withdrawn (also a TimeoutError): none within timeout_s seconds. LeaseExpired: this process was cut off.
        """
        return cast(BlockingTaken, run(self._queue.take(timeout_s=timeout_s)))

    def close(self) -> None:
        """Give back every item that is not done. Idempotent."""
        run(self._queue.close())
