"""Calling the listeners of a back end that has no event stream of its own.

Each listener has a queue, and all share threads. Calls come in order, never two at a time, and never under a lock of
the back end. One that is slow or throws delays and stops nobody else. It decides nothing about what is told.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from raftmeta.common.shared_threads import SharedThreads
from raftmeta.interfaces import State, StateListener, listener_call

__all__ = ["Listeners", "States"]

TUNE_LOOK_S = 0.05

Change = TypeVar("Change")

_logger = logging.getLogger("raftmeta.listeners")


class _Listener(Generic[Change]):
    def __init__(self, listener: Any, call: Callable[[Change], object], threads: SharedThreads) -> None:
        self._listener = listener
        self._call = call
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: deque[Change] = deque()
        self._is_running = False
        self._is_removed = False

    def tell(self, change: Change) -> None:
        with self._lock:
            self._waiting.append(change)
            if self._is_running or self._is_removed:
                return
            self._is_running = True
        self._threads.post(self._run)

    def remove(self) -> None:
        """No further call begins."""
        self._is_removed = True

    def _next(self) -> Change | None:
        with self._lock:
            self._is_running = bool(self._waiting) and not self._is_removed
            return self._waiting.popleft() if self._is_running else None

    def _run(self) -> None:
        while (change := self._next()) is not None:
            try:
                self._call(change)
            except Exception:
                _logger.exception("listener failed listener=%r", self._listener)


class Listeners(Generic[Change]):
    """The listeners of one group, service, key or namespace."""

    def __init__(self, kind: type[Change]) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._listeners: dict[Any, _Listener[Change]] = {}
        self._threads = SharedThreads("listener")

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: Any) -> None:
        """Raises InvalidArgument for what is no listener."""
        call = listener_call(self._kind, listener)
        with self._lock:
            if listener not in self._listeners:
                self._listeners[listener] = _Listener(listener, call, self._threads)

    def remove(self, listener: Any) -> None:
        with self._lock:
            removed = self._listeners.pop(listener, None)
        if removed is not None:
            removed.remove()

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


class States:
    """The state of a back end that tells nobody of it: one thread looks, as long as there is a listener."""

    def __init__(self, look: Callable[[], State]) -> None:
        self._look = look
        self._listeners: Listeners[State] = Listeners(State)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._is_looking = False
        self._told = State.SUSPENDED

    def add(self, listener: StateListener) -> None:
        self._listeners.add(listener)
        with self._lock:
            if not self._is_looking:
                self._is_looking = True
                self._told = self._look()
                threading.Thread(target=self._run, name="raftmeta-state", daemon=True).start()

    def remove(self, listener: StateListener) -> None:
        self._listeners.remove(listener)

    def close(self) -> None:
        """The back end has ended: tell so, and stop."""
        self._closed.set()
        self._tell()

    def _run(self) -> None:
        while self._must_look():
            self._closed.wait(TUNE_LOOK_S)
            self._tell()

    def _must_look(self) -> bool:
        with self._lock:
            self._is_looking = len(self._listeners) > 0 and not self._closed.is_set()
            return self._is_looking

    def _tell(self) -> None:
        with self._lock:
            state, former = self._look(), self._told
            self._told = state
            if state != former:
                self._listeners.tell(state)
