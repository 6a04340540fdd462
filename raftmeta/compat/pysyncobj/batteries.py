"""Replicated values to be used as consumers: a counter, a list, a dictionary, a set, two queues and locks.

Reads look at this node's state. Methods that change it are commands (replicated.py).
"""

from __future__ import annotations

import collections
import heapq
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, ItemsView, Iterable, KeysView, ValuesView
from typing import Any

from raftmeta.compat.pysyncobj.replicated import SyncObjConsumer, replicated

__all__ = ["ReplCounter", "ReplDict", "ReplList", "ReplLockManager", "ReplPriorityQueue", "ReplQueue", "ReplSet"]

TUNE_LOCK_LOOK_S = 0.1


class ReplCounter(SyncObjConsumer):
    """A number that begins at 0. Each change returns the new number."""

    def __init__(self) -> None:
        super().__init__()
        self._value = 0

    @replicated
    def set(self, newValue: Any) -> Any:
        self._value = newValue
        return self._value

    @replicated
    def add(self, value: Any) -> Any:
        self._value += value
        return self._value

    @replicated
    def sub(self, value: Any) -> Any:
        self._value -= value
        return self._value

    @replicated
    def inc(self) -> Any:
        self._value += 1
        return self._value

    def get(self) -> Any:
        return self._value


class ReplList(SyncObjConsumer):
    """As list."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Any] = []

    @replicated
    def reset(self, newData: list[Any]) -> None:
        assert isinstance(newData, list)
        self._items = newData

    @replicated
    def set(self, position: int, newValue: Any) -> None:
        self._items[position] = newValue

    @replicated
    def append(self, item: Any) -> None:
        self._items.append(item)

    @replicated
    def extend(self, other: Iterable[Any]) -> None:
        self._items.extend(other)

    @replicated
    def insert(self, position: int, element: Any) -> None:
        self._items.insert(position, element)

    @replicated
    def remove(self, element: Any) -> None:
        self._items.remove(element)

    @replicated
    def pop(self, position: int | None = None) -> Any:
        return self._items.pop() if position is None else self._items.pop(position)

    @replicated
    def sort(self, reverse: bool = False) -> None:
        self._items.sort(reverse=reverse)

    @replicated(ver=1)
    def __setitem__(self, position: int, element: Any) -> None:
        self._items[position] = element

    def index(self, element: Any) -> int:
        return self._items.index(element)

    def count(self, element: Any) -> int:
        return self._items.count(element)

    def get(self, position: int) -> Any:
        return self._items[position]

    def __getitem__(self, position: int) -> Any:
        return self._items[position]

    def __len__(self) -> int:
        return len(self._items)

    def rawData(self) -> list[Any]:
        """The list itself: only look at it."""
        return self._items


class ReplDict(SyncObjConsumer):
    """As dict; `pop` gives its default, None, for a key that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Any, Any] = {}

    @replicated
    def reset(self, newData: dict[Any, Any]) -> None:
        assert isinstance(newData, dict)
        self._values = newData

    @replicated
    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key] = value

    @replicated
    def set(self, key: Any, value: Any) -> None:
        self._values[key] = value

    @replicated
    def setdefault(self, key: Any, default: Any) -> Any:
        return self._values.setdefault(key, default)

    @replicated
    def update(self, other: dict[Any, Any]) -> None:
        self._values.update(other)

    @replicated
    def pop(self, key: Any, default: Any = None) -> Any:
        return self._values.pop(key, default)

    @replicated
    def clear(self) -> None:
        self._values.clear()

    def __getitem__(self, key: Any) -> Any:
        return self._values[key]

    def get(self, key: Any, default: Any = None) -> Any:
        return self._values.get(key, default)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def keys(self) -> KeysView[Any]:
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        return self._values.values()

    def items(self) -> ItemsView[Any, Any]:
        return self._values.items()

    def rawData(self) -> dict[Any, Any]:
        """The dictionary itself: only look at it."""
        return self._values


class ReplSet(SyncObjConsumer):
    """As set. `pop` takes the element whose representation sorts first, which is the same on every node."""

    def __init__(self) -> None:
        super().__init__()
        self._elements: set[Any] = set()

    @replicated
    def reset(self, newData: set[Any]) -> None:
        assert isinstance(newData, set)
        self._elements = newData

    @replicated
    def add(self, item: Any) -> None:
        self._elements.add(item)

    @replicated
    def remove(self, item: Any) -> None:
        self._elements.remove(item)

    @replicated
    def discard(self, item: Any) -> None:
        self._elements.discard(item)

    @replicated
    def pop(self) -> Any:
        if not self._elements:
            raise KeyError("pop from an empty set")
        # The order of a set differs between processes.
        element = min(self._elements, key=repr)
        self._elements.remove(element)
        return element

    @replicated
    def clear(self) -> None:
        self._elements.clear()

    @replicated
    def update(self, other: Iterable[Any]) -> None:
        self._elements.update(other)

    def rawData(self) -> set[Any]:
        """The set itself: only look at it."""
        return self._elements

    def __len__(self) -> int:
        return len(self._elements)

    def __contains__(self, item: object) -> bool:
        return item in self._elements


class _Queue(SyncObjConsumer):
    """maxsize: items at most, 0: no limit."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__()
        self._most = maxsize
        self._items: Any = self._empty()

    def _empty(self) -> Any:
        raise NotImplementedError

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items

    def __len__(self) -> int:
        return len(self._items)

    def full(self) -> bool:
        return 0 < self._most <= len(self._items)


class ReplQueue(_Queue):
    """First in, first out."""

    def _empty(self) -> collections.deque[Any]:
        return collections.deque()

    @replicated
    def put(self, item: Any) -> bool:
        """False: it is full."""
        if self.full():
            return False
        self._items.append(item)
        return True

    @replicated
    def get(self, default: Any = None) -> Any:
        """The first item, taken out; default without one."""
        return self._items.popleft() if self._items else default


class ReplPriorityQueue(_Queue):
    """The least item first."""

    def _empty(self) -> list[Any]:
        return []

    @replicated
    def put(self, item: Any) -> bool:
        """False: it is full."""
        if self.full():
            return False
        heapq.heappush(self._items, item)
        return True

    @replicated
    def get(self, default: Any = None) -> Any:
        """The least item, taken out; default without one."""
        return heapq.heappop(self._items) if self._items else default


class _ReplLockManagerImpl(SyncObjConsumer):
    """Holders of locks and when they were last heard, by the callers' clocks."""

    def __init__(self, autoUnlockTime: float) -> None:
        super().__init__()
        self._held: dict[Any, tuple[Any, float]] = {}
        self._most_s = autoUnlockTime

    @replicated
    def acquire(self, lockID: Any, clientID: Any, currentTime: float) -> bool:
        holder = self._held.get(lockID)
        if holder is not None and holder[0] != clientID and currentTime - holder[1] <= self._most_s:
            return False
        self._held[lockID] = (clientID, currentTime)
        return True

    @replicated
    def prolongate(self, clientID: Any, currentTime: float) -> None:
        for lockID, (holder, heard) in list(self._held.items()):
            if currentTime - heard > self._most_s:
                del self._held[lockID]
            elif holder == clientID:
                self._held[lockID] = (clientID, currentTime)

    @replicated
    def release(self, lockID: Any, clientID: Any) -> None:
        if self._held.get(lockID, (None, 0.0))[0] == clientID:
            self._held.pop(lockID, None)

    def isAcquired(self, lockID: Any, clientID: Any, currentTime: float) -> bool:
        holder = self._held.get(lockID)
        return holder is not None and holder[0] == clientID and currentTime - holder[1] < self._most_s


class ReplLockManager:
    """Locks that end by themselves.

    autoUnlockTime: seconds after which a lock is free whose holder was not heard. selfID: of this holder; it must be
    unique in the cluster.
    """

    def __init__(self, autoUnlockTime: float, selfID: str | None = None) -> None:
        self.__lockImpl = _ReplLockManagerImpl(autoUnlockTime)
        self.__selfID = selfID or f"{socket.gethostname()}:{os.getpid()}:{id(self)}"
        self.__autoUnlockTime = autoUnlockTime
        self.__ended = threading.Event()
        threading.Thread(
            target=_prolongate,
            args=(
                weakref.ref(self.__lockImpl),
                self.__selfID,
                autoUnlockTime,
                threading.current_thread(),
                self.__ended,
            ),
            name="raftmeta-pysyncobj-locks",
            daemon=True,
        ).start()

    def _consumer(self) -> SyncObjConsumer:
        return self.__lockImpl

    def destroy(self) -> None:
        """Keep no lock any more."""
        self.__ended.set()

    def tryAcquire(
        self,
        lockID: Any,
        callback: Callable[[Any, Any], object] | None = None,
        sync: bool = False,
        timeout: float | None = None,
    ) -> bool | None:
        """Take a lock: whether it is held now. With a callback that is told later."""
        asked_s = time.time()
        if sync and callback is None:
            has_it: bool = self.__lockImpl.acquire(lockID, self.__selfID, asked_s, sync=True, timeout=timeout)
            if has_it and self.__is_late(asked_s):
                self.__lockImpl.release(lockID, self.__selfID, sync=True)
                return False
            return has_it

        def told(has_it: Any, error: Any) -> None:
            if has_it and self.__is_late(asked_s):
                has_it = False
                self.__lockImpl.release(lockID, self.__selfID)
            if callback is not None:
                callback(has_it, error)

        self.__lockImpl.acquire(lockID, self.__selfID, asked_s, callback=told)
        return None

    def __is_late(self, asked_s: float) -> bool:
        return time.time() - asked_s > self.__autoUnlockTime / 2

    def isAcquired(self, lockID: Any) -> bool:
        """Whether this holder has it, as this node knows."""
        return self.__lockImpl.isAcquired(lockID, self.__selfID, time.time())

    def release(
        self,
        lockID: Any,
        callback: Callable[[Any, Any], object] | None = None,
        sync: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.__lockImpl.release(lockID, self.__selfID, callback=callback, sync=sync, timeout=timeout)


def _prolongate(
    reference: weakref.ref[_ReplLockManagerImpl],
    client: str,
    most_s: float,
    owner: threading.Thread,
    ended: threading.Event,
) -> None:
    """Tell the cluster that a holder lives, four times in the life of a lock."""
    told_s = 0.0
    while owner.is_alive() and not ended.wait(TUNE_LOCK_LOOK_S):
        locks = reference()
        if locks is None:
            return
        target: Any = locks._syncObj
        if target is not None and time.time() - told_s >= most_s / 4 and target._getLeader() is not None:
            told_s = time.time()
            locks.prolongate(client, told_s)
        del locks, target
