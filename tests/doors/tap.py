"""A proxy between clients and one server of a protocol, which keeps what was said on each connection.

It passes bytes on untouched, whatever they mean. It can cut all connections and refuse new ones for a while. It can
also hold back all bytes, as a network does that loses everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from tests.doors.jute import Conversation
from tests.processes.waiting import free_ports

READ_BYTES = 65_536
ANSWER_S = 30.0


class Kept(Protocol):
    """What was said on one connection. lines: as text. unanswered: requests without an answer. order_faults: words."""

    lines: list[str]
    order_faults: list[str]

    @property
    def unanswered(self) -> list[str]: ...

    def feed(self, data: bytes, *, is_request: bool) -> None: ...


K = TypeVar("K", bound=Kept)


class AnyTap(Generic[K]):
    """A context: its address leads to `server`. conversations: one for each connection, in order.

    kept: makes one of them.
    """

    def __init__(self, server: str, kept: Callable[[], K]) -> None:
        self.server = server
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.conversations: list[K] = []
        self._kept = kept
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tap", daemon=True)
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._is_passing = asyncio.Event()
        self._is_passing.set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self) -> None:
        """Take connections, for the first time or again after cut()."""
        self._do(self._open())

    def cut(self) -> None:
        """Close all connections and take no new ones."""
        self._do(self._cut())

    def hold(self) -> None:
        """Pass nothing on. Connections stay open, and new ones are taken."""
        self._loop.call_soon_threadsafe(self._is_passing.clear)

    def pass_on(self) -> None:
        """Pass on what was held back, and all that comes."""
        self._loop.call_soon_threadsafe(self._is_passing.set)

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(ANSWER_S)

    async def _open(self) -> None:
        host, _, port = self.address.partition(":")
        self._listener = await asyncio.start_server(self._accept, host, int(port))

    async def _cut(self) -> None:
        self._is_passing.set()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for writer in self._writers:
            writer.transport.abort()
        if self._passing:
            await asyncio.wait(self._passing)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            await self._pass_on(reader, writer)
        finally:
            self._passing.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = self._kept()
        self.conversations.append(conversation)
        host, _, port = self.server.partition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        self._writers |= {writer, server_writer}
        try:
            await asyncio.gather(
                self._one_way(reader, server_writer, conversation, is_request=True),
                self._one_way(server_reader, writer, conversation, is_request=False),
            )
        finally:
            self._writers -= {writer, server_writer}

    async def _one_way(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: K,
        *,
        is_request: bool,
    ) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            while data := await reader.read(READ_BYTES):
                await self._is_passing.wait()
                conversation.feed(data, is_request=is_request)
                writer.write(data)
                await writer.drain()
        writer.close()

    def trace(self) -> list[list[str]]:
        """The lines of each conversation that was more than an attempt."""
        met = [conversation for conversation in self.conversations if len(conversation.lines) > 1]
        return [[*conversation.lines, *conversation.unanswered] for conversation in met]

    def order_faults(self) -> list[str]:
        return [fault for conversation in self.conversations for fault in conversation.order_faults]


class Tap(AnyTap[Conversation]):
    """In front of a server of ZooKeeper's protocol."""

    def __init__(self, server: str) -> None:
        super().__init__(server, Conversation)
