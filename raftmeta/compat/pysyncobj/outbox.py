"""Commands that wait to go into the log, and callbacks that wait for their results.

Commands leave in the order of their calls: one batch is under way at a time. A batch has the number of its owner,
so that it is applied once however often it is sent.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from raftmeta.compat.pysyncobj.config import FAIL_REASON
from raftmeta.compat.pysyncobj.files import Batch

__all__ = ["Callback", "Outbox"]

Callback = Callable[[Any, Any], object]
TUNE_BATCH_COMMANDS = 500
TUNE_BATCH_BYTES = 256 * 1024


class Outbox:
    """owner: of its batches, drawn for each life of an object."""

    def __init__(self, size: int) -> None:
        self.owner = uuid.uuid4().hex[:16]
        self._size = size
        self._waiting: deque[tuple[bytes, Callback | None]] = deque()
        self._relayed: deque[Batch] = deque()
        self._sent: dict[int, list[Callback | None]] = {}
        self._number = 0
        self._change = threading.Condition()
        self._is_closed = False

    def put(self, command: bytes, callback: Callback | None) -> bool:
        """False: there is no room, or the object was destroyed."""
        with self._change:
            if self._is_closed or len(self._waiting) >= self._size > 0:
                return False
            self._waiting.append((command, callback))
            self._change.notify()
            return True

    def relay(self, batch: Batch) -> None:
        """Send a batch of another owner."""
        with self._change:
            self._relayed.append(batch)
            self._change.notify()

    def take(self) -> Batch | None:
        """The next batch; it waits for one. None: closed."""
        with self._change:
            while not (self._waiting or self._relayed or self._is_closed):
                self._change.wait()
            if self._is_closed:
                return None
            if self._relayed:
                return self._relayed.popleft()
            self._number += 1
            commands: list[bytes] = []
            callbacks: list[Callback | None] = []
            size = 0
            while self._waiting and len(commands) < TUNE_BATCH_COMMANDS and size < TUNE_BATCH_BYTES:
                command, callback = self._waiting.popleft()
                commands.append(command)
                callbacks.append(callback)
                size += len(command)
            self._sent[self._number] = callbacks
            return Batch(self.owner, self._number, commands)

    def answered(self, batch: Batch) -> list[Callback | None]:
        """The callbacks of a batch that is applied now, in the order of its commands; [] of another owner's."""
        with self._change:
            return self._sent.pop(batch.number, []) if batch.owner == self.owner else []

    def close(self) -> None:
        """Nobody learns any more what becomes of the commands under way."""
        with self._change:
            self._is_closed = True
            waiting = [callback for callbacks in self._sent.values() for callback in callbacks]
            waiting += [callback for _, callback in self._waiting]
            self._sent.clear()
            self._waiting.clear()
            self._change.notify_all()
        _tell(waiting, FAIL_REASON.UNKNOWN_OUTCOME)


def _tell(callbacks: list[Callback | None], reason: int) -> None:
    for callback in callbacks:
        if callback is not None:
            callback(None, reason)
