"""Messages between this package's processes: a length of 4 bytes, then msgpack. No pickle is read here.

A node listens at a second port for readers and admins: the port of its address plus 10,000, or minus 10,000 where that
would be none. With a password the connection is TLS, and both sides prove that they know it.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgpack

__all__ = ["SERVICE_OFFSET", "Wire", "WireClosed", "service_address"]

SERVICE_OFFSET = 10_000
PORT_MAX = 65_535
FRAME_BYTES_MAX = 1 << 30
TUNE_PART_BYTES = 64 * 1024
_LENGTH = struct.Struct(">I")
Answer = TypeVar("Answer")


class WireClosed(Exception):
    """The other side has gone, or said nonsense."""


def service_address(address: str) -> tuple[str, int]:
    """Host and port of the service of the node at this address."""
    host, _, port = address.rpartition(":")
    above = int(port) + SERVICE_OFFSET
    return host.strip("[]"), above if above <= PORT_MAX else int(port) - SERVICE_OFFSET


class Wire:
    """One connection. One thread may send while another one receives: OpenSSL allows no two calls at once, so nobody
    waits inside of it."""

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext | None = None,
        *,
        is_server: bool,
        timeout_s: float | None = None,
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        if context is not None:
            self._socket = context.wrap_socket(connection, server_side=is_server)
        self._socket.setblocking(False)
        self._guard = threading.Lock()
        self._timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, context: ssl.SSLContext | None, timeout_s: float) -> Wire:
        """To the service of the node at this address. Raises OSError."""
        connection = socket.create_connection(service_address(address), timeout=timeout_s)
        try:
            return cls(connection, context, is_server=False, timeout_s=timeout_s)
        except BaseException:
            connection.close()
            raise

    def wait_at_most(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def send(self, *message: Any) -> None:
        """Raises OSError."""
        packed = msgpack.packb(message)
        left = memoryview(_LENGTH.pack(len(packed)) + packed)
        while left:
            sent: int | None = self._attempt(partial(self._socket.send, left[:TUNE_PART_BYTES]), select.POLLOUT)
            left = left[sent or 0 :]

    def receive(self) -> list[Any]:
        """Raises OSError, WireClosed."""
        (size,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
        if size > FRAME_BYTES_MAX:
            raise WireClosed(f"a message of {size} bytes")
        try:
            message = msgpack.unpackb(self._bytes(size), strict_map_key=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise WireClosed("no message") from error
        if not isinstance(message, list) or not message:
            raise WireClosed("no message")
        return message

    def _bytes(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            wanted = min(size - len(parts), TUNE_PART_BYTES)
            part: bytes | None = self._attempt(partial(self._socket.recv, wanted), select.POLLIN)
            if part == b"":
                raise WireClosed("the connection ended")
            parts += part or b""
        return bytes(parts)

    def _attempt(self, call: Callable[[], Answer], direction: int) -> Answer | None:
        """The result of a call; None after a wait, when the socket may be ready for it. Raises TimeoutError."""
        with self._guard:
            try:
                return call()
            except BlockingIOError:
                pass
            except ssl.SSLWantReadError:
                direction = select.POLLIN
            except ssl.SSLWantWriteError:
                direction = select.POLLOUT
            poller = select.poll()
            poller.register(self._socket, direction)
        if not poller.poll(None if self._timeout_s is None else self._timeout_s * 1000):
            raise TimeoutError("the other side is silent")
        return None

    def end(self) -> None:
        """Wake the threads that send or receive; they close."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()
