"""What the clients of the peers have in common: requests of one turn of the event loop leave in one write."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import cast


class Pipelined(asyncio.Protocol, ABC):
    """One connection. Subclasses say what is sent when it is made, and what becomes of answers."""

    def __init__(self) -> None:
        self._received = b""
        self._unsent: list[bytes] = []

    @abstractmethod
    def greeting(self) -> bytes:
        """What this side says first."""

    @abstractmethod
    def take(self, received: bytes) -> int:
        """Look at the answers that have come whole; how many bytes those were."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self.transport.write(self.greeting())

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        self._received = received[self.take(received) :]

    def send(self, request: bytes) -> None:
        """With all others of this turn of the event loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(request)

    def _flush(self) -> None:
        self.transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def close(self) -> None:
        self.transport.close()
