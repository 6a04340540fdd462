"""Reads whose callers do not wait: a future for each key.

One thread reads for all of them, in rounds. It takes every key that was asked for, has the node agree once on a read
that is linearizable, and then reads all of these keys from what the node has applied. Each of those reads began before
the round did, so each sees every write that was answered before it began. The thread ends when nothing is asked for.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Protocol, TypeAlias

from raftmeta.common.apart import start_apart
from raftmeta.errors import OutcomeTimeout, Overloaded, Withdrawn
from raftmeta.operations import Key, KeyRecord

__all__ = ["Fetches"]

TUNE_WAITING_MAX = 1 << 18
TUNE_LINGER_S = 1.0
ANY_KEY = b"\0"  # of the read that only agrees


class Reads(Protocol):
    """A node: its local reads never go back behind a linearizable one."""

    def get(self, key: Key, *, local: bool = False, timeout_s: float | None = 5.0) -> KeyRecord | None: ...


_Fetch: TypeAlias = tuple[Key, float, Future[bytes | None]]
"""Key, deadline on the monotonic clock, and what it becomes; no class, for it is made for each fetch."""


class Fetches:
    """The reads of one node that nobody waits for."""

    def __init__(self, node: Reads) -> None:
        self._node = node
        self._lock = threading.RLock()  # a signal handler may come in between
        self._has_work = threading.Condition(self._lock)
        self._due: list[_Fetch] = []
        self._has_thread = False
        self._is_asleep = False

    def fetch(self, key: Key, *, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        """The value of key, None without one. Raises nothing: the future has the error."""
        future: Future[bytes | None] = Future()
        deadline_s = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            if len(self._due) < TUNE_WAITING_MAX:
                self._due.append((key, deadline_s, future))
                if self._is_asleep:
                    self._has_work.notify()
                if not self._has_thread:
                    self._has_thread = True
                    start_apart(self._run, "raftmeta-fetch")
                return future
        future.set_exception(Overloaded(f"{TUNE_WAITING_MAX} fetches wait already"))
        return future

    def _run(self) -> None:
        while due := self._take():
            try:
                self._agree(due)
            except Exception as error:
                self._fail(due, error)
                continue
            for key, _, future in due:
                self._answer(key, future)

    def _take(self) -> list[_Fetch]:
        with self._lock:
            if not self._due:
                self._is_asleep = True
                self._has_work.wait(TUNE_LINGER_S)
                self._is_asleep = False
            due, self._due = self._due, []
            self._has_thread = bool(due)
            return due

    def _agree(self, due: list[_Fetch]) -> None:
        first_s = min(deadline_s for _, deadline_s, _ in due)
        left_s = None if first_s == float("inf") else max(0.0, first_s - time.monotonic())
        self._node.get(ANY_KEY, timeout_s=left_s)

    def _answer(self, key: Key, future: Future[bytes | None]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            record = self._node.get(key, local=True)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None if record is None else record.value)

    def _fail(self, due: list[_Fetch], error: Exception) -> None:
        """Time was up for some, or for all: nothing can be read. The others have another round."""
        if isinstance(error, Withdrawn | OutcomeTimeout):  # a read has no outcome that anybody could be unsure of
            error = Withdrawn("no quorum answered this read in time; local=True reads what is known here")
        now_s = time.monotonic()
        left: list[_Fetch] = []
        for key, deadline_s, future in due:
            if isinstance(error, TimeoutError) and deadline_s > now_s:
                left.append((key, deadline_s, future))
            elif future.set_running_or_notify_cancel():
                future.set_exception(error)
        if left:
            with self._lock:
                self._due[:0] = left
