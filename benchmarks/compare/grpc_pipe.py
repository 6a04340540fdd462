"""Unary gRPC calls on one connection, pipelined: a client so thin that it takes little of the machine from the server.

It knows as much of HTTP/2 (RFC 9113) as one method called over and over needs: constant header blocks, frames by
length, the server's flow control, PING. Headers of answers are decoded by the hpack package, once for each
block that is seen again and again. It never retries: anything unexpected ends the connection with GrpcError.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque

from hpack import Decoder

from benchmarks.compare.pipelined import Pipelined

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
INITIAL_WINDOW = 65535
WIDE_WINDOW = 0x7FFFFFFF
SETTINGS_INITIAL_WINDOW_SIZE = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER = struct.Struct(">HBBBI")  # length (upper 16, lower 8 bits), type, flags, stream


class GrpcError(Exception):
    """The call, or the whole connection, failed."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return FRAME_HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def text(value: bytes) -> bytes:
    """A string literal without Huffman coding (RFC 7541 5.2), shorter than 127 bytes."""
    assert len(value) < 127
    return bytes([len(value)]) + value


def header_block(path: str, authority: str) -> bytes:
    """A request's headers, never put into the dynamic table, so that the block is the same for each call."""
    return b"".join(
        [
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + text(path.encode()),
            b"\x01" + text(authority.encode()),
            b"\x0f\x10" + text(b"application/grpc"),
            b"\x00" + text(b"te") + text(b"trailers"),
        ]
    )


class GrpcPipe(Pipelined):
    """One connection; call() from the event loop of `connect`."""

    def __init__(self, path: str, authority: str) -> None:
        super().__init__()
        self._block = header_block(path, authority)
        self._next_stream = 1
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._decoder = Decoder()
        self._known: dict[bytes, dict[str, str]] = {}
        self._window = INITIAL_WINDOW
        self._held: deque[bytes] = deque()  # DATA frames for which the server has no window yet

    @classmethod
    async def connect(cls, address: str, path: str) -> GrpcPipe:
        host, _, port = address.partition(":")
        loop = asyncio.get_running_loop()
        _, pipe = await loop.create_connection(lambda: cls(path, address), host, int(port))
        return pipe

    def greeting(self) -> bytes:
        windows = struct.pack(">HI", SETTINGS_INITIAL_WINDOW_SIZE, WIDE_WINDOW)
        wider = struct.pack(">I", WIDE_WINDOW - INITIAL_WINDOW)
        return PREFACE + frame(SETTINGS, 0, 0, windows) + frame(WINDOW_UPDATE, 0, 0, wider)

    def call(self, message: bytes) -> asyncio.Future[None]:
        """Send a request; done when its answer came with status 0. What the answer says is not looked at."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        future = self._waiting[stream] = asyncio.get_running_loop().create_future()
        self.send(frame(HEADERS, END_HEADERS, stream, self._block))
        data = frame(DATA, END_STREAM, stream, struct.pack(">BI", 0, len(message)) + message)
        if self._held or len(data) > self._window:
            self._held.append(data)
        else:
            self._window -= len(data) - FRAME_HEADER.size
            self.send(data)
        return future

    def take(self, received: bytes) -> int:
        at, end = 0, len(received)
        unpack = FRAME_HEADER.unpack_from
        while end - at >= FRAME_HEADER.size:
            high, low, kind, flags, stream = unpack(received, at)
            next_at = at + FRAME_HEADER.size + (high << 8 | low)
            if next_at > end:
                break
            if kind == HEADERS:
                self._on_headers(stream, flags, received[at + FRAME_HEADER.size : next_at])
            elif kind != DATA:
                self._on_control(kind, flags, stream, received[at + FRAME_HEADER.size : next_at])
            at = next_at
        return at

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        headers = self._known.get(block) or self._decode(block)
        if flags & END_STREAM:
            future = self._waiting.pop(stream)
            if headers.get("grpc-status") == "0":
                if not future.done():
                    future.set_result(None)
            elif not future.done():
                future.set_exception(GrpcError(str(headers)))

    def _decode(self, block: bytes) -> dict[str, str]:
        """Blocks of indexed fields alone mean the same until another block changes the dynamic table."""
        headers = {str(name): str(value) for name, value in self._decoder.decode(block)}
        if all(0x80 < byte < 0xFF for byte in block):
            self._known[block] = headers
        else:
            self._known.clear()
        return headers

    def _on_control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload, "big")
            while self._held and len(self._held[0]) <= self._window:
                data = self._held.popleft()
                self._window -= len(data) - FRAME_HEADER.size
                self.transport.write(data)
        elif kind == SETTINGS and not flags & ACK:
            self.transport.write(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.transport.write(frame(PING, ACK, 0, payload))
        elif kind in (RST_STREAM, GOAWAY):
            self._fail(GrpcError(f"the server sent frame {kind}: {payload!r}"))
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(GrpcError(f"the connection was lost: {error}"))

    def _fail(self, error: GrpcError) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
