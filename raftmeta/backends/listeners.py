"""Calling the listeners of a back end that has no event stream of its own.

Each listener has a queue and a thread: calls come in order, never two at a time, never under a lock of the back end,
and one that is slow or throws delays and stops nobody else. It decides nothing about what is told.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

__all__ = ["Listeners"]

Change = TypeVar("Change")

_logger = logging.getLogger("raftmeta.listeners")


class _Listener(Generic[Change]):
    def __init__(self, call: Callable[[Change], object]) -> None:
        self._call = call
        self._queue: SimpleQueue[Change | None] = SimpleQueue()
        self._is_removed = False
        self._thread = threading.Thread(target=self._run, name="raftmeta-listener", daemon=True)
        self._thread.start()

    def tell(self, change: Change) -> None:
        self._queue.put(change)

    def remove(self) -> None:
        """No further call begins."""
        self._is_removed = True
        self._queue.put(None)

    def _run(self) -> None:
        while True:
            change = self._queue.get()
            if change is None or self._is_removed:
                return
            try:
                self._call(change)
            except Exception:
                _logger.exception("listener failed listener=%r", self._call)


class Listeners(Generic[Change]):
    """The listeners of one group, service, key or namespace."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[Any, _Listener[Change]] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, call: Callable[[Change], object]) -> None:
        with self._lock:
            if call not in self._listeners:
                self._listeners[call] = _Listener(call)

    def remove(self, call: Callable[[Change], object]) -> None:
        with self._lock:
            listener = self._listeners.pop(call, None)
        if listener is not None:
            listener.remove()

    def tell(self, change: Change) -> None:
        with self._lock:
            told = list(self._listeners.values())
        for listener in told:
            listener.tell(change)

    def close(self) -> None:
        with self._lock:
            gone, self._listeners = list(self._listeners.values()), {}
        for listener in gone:
            listener.remove()
