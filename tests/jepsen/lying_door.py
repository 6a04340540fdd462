"""A proxy before a ZooKeeper door that tells lies: each is a mistake that a server could make, and a run must find.

Clients speak to it as to the door. It changes single requests or answers and passes on the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from types import TracebackType
from typing import Self

from tests.processes.waiting import free_ports

CREATE, GET_DATA, SET_DATA, CHECK, MULTI, CREATE2 = 1, 4, 5, 13, 14, 15
SET_WATCHES = (101, 105)
EPHEMERAL = 1
EVENT_XID, SET_WATCHES_XID = -1, -8
START_S = 10.0
STALE_EVERY = 3


class Lie:
    """None: the proxy is honest. One object for one connection."""

    def request(self, opcode: int, body: bytes) -> bytes:
        """The body that the door is sent."""
        return body

    def reply(self, xid: int, opcode: int, asked: bytes, frame: bytes) -> bytes | None:
        """The frame that the client is sent, header included; None: none. asked: the body of the request."""
        return frame

    def times(self, xid: int) -> int:
        """How often the client is sent the frame."""
        return 1


class Stale(Lie):
    """A read is answered with what the first read of the node found, every third time."""

    def __init__(self) -> None:
        self._first: dict[bytes, bytes] = {}
        self._reads = 0

    def reply(self, xid: int, opcode: int, asked: bytes, frame: bytes) -> bytes | None:
        if opcode != GET_DATA or error_of(frame):
            return frame
        self._reads += 1
        first = self._first.setdefault(asked, frame[16:])
        return frame[:16] + first if self._reads % STALE_EVERY == 0 else frame


class Unchecked(Lie):
    """The version of a setData is not looked at."""

    def request(self, opcode: int, body: bytes) -> bytes:
        return body[:-4] + struct.pack(">i", -1) if opcode == SET_DATA else body


class Half(Lie):
    """Of two changes of data in a multi the second is left out."""

    def request(self, opcode: int, body: bytes) -> bytes:
        if opcode != MULTI:
            return body
        parts = operations(body)
        changes = [at for at, (kind, _) in enumerate(parts) if kind == SET_DATA]
        if len(changes) == 2:
            _, change = parts[changes[1]]
            length = struct.unpack_from(">i", change)[0]
            parts[changes[1]] = (CHECK, change[: 4 + length] + change[-4:])
        return joined(parts)


class Fenceless(Lie):
    """A check in a multi always succeeds."""

    def request(self, opcode: int, body: bytes) -> bytes:
        if opcode != MULTI:
            return body
        always = struct.pack(">i", 1) + b"/" + struct.pack(">i", -1)
        return joined([(kind, always if kind == CHECK else part) for kind, part in operations(body)])


class Kept(Lie):
    """An ephemeral node outlives its session."""

    def request(self, opcode: int, body: bytes) -> bytes:
        if opcode not in (CREATE, CREATE2):
            return body
        return body[:-4] + struct.pack(">i", struct.unpack(">i", body[-4:])[0] & ~EPHEMERAL)


class Silent(Lie):
    """Watches are not told."""

    def reply(self, xid: int, opcode: int, asked: bytes, frame: bytes) -> bytes | None:
        return None if xid == EVENT_XID else frame


class Forgotten(Lie):
    """What a session missed while it moved is not told when its watches are set again."""

    is_setting = False

    def request(self, opcode: int, body: bytes) -> bytes:
        self.is_setting |= opcode in SET_WATCHES
        return body

    def reply(self, xid: int, opcode: int, asked: bytes, frame: bytes) -> bytes | None:
        self.is_setting &= xid != SET_WATCHES_XID
        return None if self.is_setting and xid == EVENT_XID else frame


class Twice(Lie):
    """Every event is told twice."""

    def times(self, xid: int) -> int:
        return 2 if xid == EVENT_XID else 1


class Repeated(Lie):
    """Every sequential node gets the number of the first one."""

    def reply(self, xid: int, opcode: int, asked: bytes, frame: bytes) -> bytes | None:
        if opcode != CREATE2 or error_of(frame) or asked[-4:] != struct.pack(">i", 3):
            return frame
        length = struct.unpack_from(">i", frame, 16)[0]
        return frame[: 20 + length - 10] + b"%010d" % 0 + frame[20 + length :]


def error_of(frame: bytes) -> int:
    return int(struct.unpack_from(">i", frame, 12)[0])


def operations(body: bytes) -> list[tuple[int, bytes]]:
    """Kind and body of each operation of a multi."""
    parts, at = [], 0
    while True:
        kind, is_end = struct.unpack_from(">i?", body, at)
        at += 9
        if is_end:
            return parts
        end = after_text(body, at)
        if kind in (CREATE, SET_DATA):
            end = after_text(body, end)
        if kind == CREATE:
            count, end = struct.unpack_from(">i", body, end)[0], end + 4
            for _ in range(count):
                end = after_text(body, after_text(body, end + 4))
        end += 4
        parts.append((kind, body[at:end]))
        at = end


def after_text(body: bytes, at: int) -> int:
    return at + 4 + int(struct.unpack_from(">i", body, at)[0])


def joined(parts: list[tuple[int, bytes]]) -> bytes:
    """The body of a multi."""
    whole = b"".join(struct.pack(">i?i", kind, False, -1) + part for kind, part in parts)
    return whole + struct.pack(">i?i", -1, True, -1)


class LyingDoor:
    """A context: its address leads to the door on this port of the loopback."""

    def __init__(self, port: int, lie: type[Lie] = Lie) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._port = port
        self._lie = lie
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lying-door", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(START_S)
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        host, _, port = self.address.partition(":")
        self._server = await asyncio.start_server(self._serve, host, int(port))

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        door_reader, door_writer = await asyncio.open_connection("127.0.0.1", self._port)
        lie, asked = self._lie(), dict[int, tuple[int, bytes]]()
        ways = (self._requests(reader, door_writer, lie, asked), self._replies(door_reader, writer, lie, asked))
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for end in (writer, door_writer):
                end.close()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lie: Lie,
        asked: dict[int, tuple[int, bytes]],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            send(writer, await receive(reader))  # the connect request
            while True:
                frame = await receive(reader)
                xid, opcode = struct.unpack_from(">ii", frame)
                asked[xid] = opcode, frame[8:]
                send(writer, frame[:8] + lie.request(opcode, frame[8:]))

    async def _replies(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lie: Lie,
        asked: dict[int, tuple[int, bytes]],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            send(writer, await receive(reader))
            while True:
                frame = await receive(reader)
                xid = struct.unpack_from(">i", frame)[0]
                told = lie.reply(xid, *asked.pop(xid, (0, b"")), frame)
                if told is not None:
                    for _ in range(lie.times(xid)):
                        send(writer, told)


async def receive(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
