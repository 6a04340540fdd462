"""Telling listeners whether the cluster can be asked: connected, suspended, lost (interfaces.State).

It looks at what its store knows every TUNE_LOOK_S, as long as there is a listener, on one thread or as one task. A new
session in between two looks means that the old one was lost. It asks nobody, and decides nothing about the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from raftmeta.common.apart import start_apart
from raftmeta.interfaces import State, StateListener
from raftmeta.recipes.face import Face, run
from raftmeta.recipes.listeners import Failures, Listeners

__all__ = ["Look", "States"]

TUNE_LOOK_S = 0.05

Look: TypeAlias = Callable[[], tuple[State, int]]
"""The state now, and a number that changes with each session."""


class States:
    """The state listeners of one store."""

    def __init__(self, face: Face, look: Look) -> None:
        self._face = face
        self._look = look
        self._failures = Failures()
        self._listeners: Listeners[State] = Listeners(face, self._failures, State)
        self._told, self._session = look()
        self._lock = threading.RLock()  # a signal handler may close the store in between
        self._changed = face.signal()
        self._is_looking = False
        self._is_closed = False

    def add(self, listener: StateListener) -> None:
        self._listeners.add(listener)
        with self._lock:
            if self._is_looking:
                return
            self._is_looking = True
            self._told, self._session = self._look()
        if self._face.is_blocking:
            start_apart(lambda: run(self._look_on()), "raftmeta-state")
        else:
            self._face.spawn(self._look_on(), "state")

    def remove(self, listener: StateListener) -> None:
        self._listeners.remove(listener)

    def close(self) -> None:
        """The store ends: tell so, and stop."""
        self._is_closed = True
        if self._told != State.LOST:
            self._told = State.LOST
            self._listeners.tell(State.LOST)
        self._changed.set()

    def _must_look(self) -> bool:
        with self._lock:
            self._is_looking = len(self._listeners) > 0 and not self._is_closed
            return self._is_looking

    async def _look_on(self) -> None:
        while self._must_look():
            await self._changed.wait(TUNE_LOOK_S)
            self._tell()

    def _tell(self) -> None:
        if self._is_closed:
            return
        state, session = self._look()
        if session != self._session and self._told != State.LOST:
            self._told = State.LOST
            self._listeners.tell(State.LOST)
        if state != self._told:
            self._listeners.tell(state)
        self._told, self._session = state, session
