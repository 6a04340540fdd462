"""The client protocol by hand: a socket that says what it likes, and a node that is none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import msgpack

from raftmeta.bindings.requests import MessageDecoder, RequestEncoder, hello_frame
from raftmeta.native.native_handle import crc32c
from tests.faces.client_messages import client_frame_decode, client_message_encode, client_request_decode

HEADER_BYTES = 8
SESSION = 1 << 63 | 7
ANSWER, EVENTS, PING, LEADER, REFUSED = 1, 2, 3, 4, 5
COMMAND = 1


def frame(body: bytes) -> bytes:
    """A sound frame around any body."""
    length = len(body).to_bytes(4, "little")
    return length + crc32c(body, seed=crc32c(length)).to_bytes(4, "little") + body


def is_read_whole(connection: socket.socket) -> bool:
    """Whether the process at the other end, on this machine and by IPv4, has read all that was sent to it."""
    ends = {f"{connection.getsockname()[1]:04X}", f"{connection.getpeername()[1]:04X}"}
    waiting = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()  # number, local, remote, state, bytes to send and bytes to read
        if {fields[1][-4:], fields[2][-4:]} == ends:
            waiting.append(fields[4])
    return waiting == ["00000000:00000000"] * 2


class RawClient:
    """A socket to a node, an encoder for what it may say, and the messages that came."""

    def __init__(self, url: str, *, greets: bool = True, over: socket.socket | None = None) -> None:
        """over: a connection that is there already, as one with TLS."""
        host, port = url.removeprefix("raft://").split(",")[0].split(":")
        self.socket = over or socket.create_connection((host, int(port)), timeout=10)
        self.encoder = RequestEncoder(1 << 20)
        self._decoder = MessageDecoder()
        self._messages: list[Any] = []
        if greets:
            self.send(hello_frame("default", "raw"))
            assert self.next()[0] == LEADER

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def next(self) -> Any:
        """The next message; ConnectionError: the node closed the connection."""
        while not self._messages:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self._messages += self._decoder.feed(data)
        return self._messages.pop(0)

    def ask(self, data: bytes) -> Any:
        """Send a request and return its answer: (status, revision, index, body)."""
        self.send(data)
        while True:
            message = self.next()
            if message[:2] == (ANSWER, self.encoder.id):
                return message[2:]

    def answer(self) -> Any:
        """The next answer, whatever it answers: (id, status, body)."""
        while True:
            message = self.next()
            if message[0] == ANSWER:
                return message[1], message[2], message[5]

    def open_session(self, session: int = SESSION) -> None:
        assert self.ask(self.encoder.open_session(session, 60_000, 1000))[0] == 0
        self.encoder.session = session

    def is_closed(self) -> bool:
        """Wait until the node closes the connection; False: it did not for ten seconds."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.socket.close()


class FakeNode:
    """Listens like a node and answers commands by a script: (this, request, answer) for each; sessions are opened.

    answer(status, revision, body); drop() ends every connection. The commands that came are kept. other: the script of
    all requests that are no commands.
    """

    def __init__(
        self,
        script: Callable[[FakeNode, dict[str, Any], Callable[..., None]], None],
        other: Callable[[FakeNode, dict[str, Any], Callable[..., None]], None] | None = None,
    ) -> None:
        self._script = script
        self._other = other
        self._writers: list[asyncio.StreamWriter] = []
        self.commands: list[bytes] = []
        self.sessions = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"raft://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        self.drop()
        await self._server.wait_closed()

    def drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        is_greeted = False
        received = b""
        while data := await _read(reader):
            received += data
            while received:
                status, total = client_frame_decode(received, 1 << 23)
                if status:
                    break
                body, received = received[HEADER_BYTES:total], received[total:]
                if not is_greeted:
                    is_greeted = True
                    writer.write(frame(msgpack.packb([1, 1, 1, 3, 1, 1, 9, 1, 1, b"a", b"default", b"127.0.0.1:1", 0])))
                    limits = msgpack.packb([b"a", 100, 1 << 20])
                    writer.write(client_message_encode((LEADER, 0, 0, 0, 0, limits))[1])
                else:
                    self._take(writer, client_request_decode(body)[1])
        writer.close()

    def _take(self, writer: asyncio.StreamWriter, request: dict[str, Any] | None) -> None:
        assert request is not None

        def answer(status: int, revision: int = 0, body: bytes = b"") -> None:
            assert request is not None
            writer.write(client_message_encode((ANSWER, request["id"], status, revision, 1, body))[1])

        if request["kind"] != COMMAND:
            if self._other is not None:
                self._other(self, request, answer)
            return
        if msgpack.unpackb(request["key"])[0] == 6:  # SESSION_OPEN
            self.sessions += 1
            answer(0, 0, msgpack.packb([0, 0, None]))
            return
        self.commands.append(request["key"])
        self._script(self, request, answer)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1 << 16)
    except ConnectionError:
        return b""
