"""One connection to a node: bytes to messages, frames to bytes, and whether the other side still lives.

It decides when a silent node is given up. It never decides what a message means or where to connect next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftmeta.bindings.requests import (
    ANSWER,
    AUTHENTICATE_ID,
    REFUSED,
    VALUES,
    MessageDecoder,
    ServerHello,
    answer_value,
    authenticate_frame,
    hello_frame,
)
from raftmeta.bindings.scram import Credentials, Exchange
from raftmeta.client.endpoints import Endpoint
from raftmeta.common import statuses
from raftmeta.errors import RaftmetaError, error_from_status

if TYPE_CHECKING:
    from raftmeta.client.secure import Security

Message = tuple[int, int, int, int, int, bytes]

TLS_ALERT = b"\x15\x03"  # a record of TLS that ends a connection begins so (RFC 8446 5.1)
PING_S = 5.0  # a node that is silent for so long is asked whether it lives, and given up after as long again


class NodeRefused(ConnectionRefusedError):
    """The node ended the connection and said why. status: of raftmeta/status.pxd."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Connection(asyncio.Protocol):
    """From connect() on: on_messages is called with what came, on_lost once at the end, both on the event loop.

    in_flight counts the requests sent here and not answered; the channel keeps it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        on_messages: Callable[[Connection, list[Message]], None],
        on_lost: Callable[[Connection], None],
        ping: Callable[[], bytes],
        security: Security | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._security = security
        self._node = ""  # whose certificate it is
        self.in_flight = 0
        self.is_draining = False
        self.leader: str | None = None  # as the node said last; "": it knows none
        self._leader_told = asyncio.Event()
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._ping = ping
        self._loop = asyncio.get_running_loop()
        self._decoder = MessageDecoder()
        self._greeted: asyncio.Future[ServerHello] = self._loop.create_future()
        self._authenticating: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._heard_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(
        cls,
        endpoint: Endpoint,
        *,
        cluster: str,
        name: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_lost: Callable[[Connection], None],
        ping: Callable[[], bytes],
        credentials: Credentials | None = None,
        security: Security | None = None,
    ) -> Connection:
        """Connect, exchange HELLOs, and prove to be the user of the credentials, if there are any.

        Raises OSError (also for what is no node), the node's refusal, or AuthenticationFailed.
        """
        connection = cls(endpoint, on_messages=on_messages, on_lost=on_lost, ping=ping, security=security)
        await connection._open()
        try:
            connection._check_certificate()
            connection._write(hello_frame(cluster, name))
            await connection._greeted
            if credentials is not None:
                await connection._authenticate(Exchange(credentials))
        except BaseException:
            connection.abort()
            raise
        connection._watch_silence()
        return connection

    async def _open(self) -> None:
        if self.endpoint.address is None:
            await self._loop.create_unix_connection(lambda: self, self.endpoint.path)
            return
        host, port = self.endpoint.address.host, self.endpoint.address.port
        if self._security is None:
            await self._loop.create_connection(lambda: self, host, port)
            return
        try:
            await self._loop.create_connection(
                lambda: self, host, port, ssl=self._security.context(), server_hostname=""
            )
        except OSError as error:
            raise self._explained(error) from None

    def _check_certificate(self) -> None:
        if self._security is None or self._transport is None:
            return
        try:
            self._node = self._security.node_of(self._transport.get_extra_info("ssl_object"))
        except ConnectionError as error:
            raise ConnectionError(f"{self.endpoint}: {error}") from None

    def _explained(self, error: Exception) -> Exception:
        """The error; one of TLS in words that say what to do."""
        if self._security is None or not isinstance(error, OSError):
            return error
        from raftmeta.client.secure import explained, is_of_tls

        return ConnectionError(f"{self.endpoint}: {explained(error)}") if is_of_tls(error) else error

    async def _authenticate(self, exchange: Exchange) -> None:
        answer = await self._asked(authenticate_frame(exchange.name, exchange.nonce, proves=False))
        nonce, salt, iterations = answer_value(VALUES, 0, 0, answer)[0]
        # The derivation takes a while, and the event loop goes on meanwhile.
        proof = await self._loop.run_in_executor(None, exchange.proof_for, answer, nonce, salt, iterations)
        answer = await self._asked(authenticate_frame(nonce, proof, proves=True))
        exchange.check(answer_value(VALUES, 0, 0, answer)[0][0])

    async def _asked(self, frame: bytes) -> bytes:
        self._authenticating = self._loop.create_future()
        self._write(frame)
        return await self._authenticating

    def _end_asked(self, outcome: bytes | Exception) -> None:
        if self._authenticating is not None and not self._authenticating.done():
            if isinstance(outcome, Exception):
                self._authenticating.set_exception(outcome)
                self._authenticating.exception()  # who waited for it may have gone
            else:
                self._authenticating.set_result(outcome)

    @property
    def hello(self) -> ServerHello:
        """The node's words about itself."""
        return self._greeted.result()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def tell_leader(self, name: str) -> None:
        """The node said who leads."""
        self.leader = name
        self._leader_told.set()

    async def first_leader(self) -> str:
        """The leader's name, as soon as the node has told it; "" also when the connection ended before."""
        await self._leader_told.wait()
        return self.leader or ""

    def send(self, frame: bytes) -> None:
        """Queue a frame; all that is queued in one turn of the event loop leaves in one write."""
        self._unsent.append(frame)
        if len(self._unsent) == 1:
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Send what is queued, then end."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """End now. The stream is shut down, so that the node hears of it even where a fork child has a copy."""
        if self._transport is not None:
            found = self._transport.get_extra_info("socket")  # None: TLS has ended by itself
            with contextlib.suppress(OSError):  # so may the stream have
                descriptor = os.dup(found.fileno() if found is not None else -1)
                with socket.socket(fileno=descriptor) as copy:  # a transport's own socket cannot be shut down
                    copy.shutdown(socket.SHUT_RDWR)
            self._transport.abort()

    def _flush(self) -> None:
        if self._unsent and self.is_open:
            self._write(b"".join(self._unsent))
        self._unsent.clear()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _watch_silence(self) -> None:
        if not self.is_open:
            return
        silent_s = self._loop.time() - self._heard_s
        if silent_s > 2 * PING_S:
            self.abort()
            return
        if silent_s > PING_S:
            self.send(self._ping())
        self._timer = self._loop.call_later(PING_S / 2, self._watch_silence)

    # --- asyncio.Protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no subclass
        found = transport.get_extra_info("socket")
        if found is not None and found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        if self._greeted.cancelled():  # the client was closed while it connected
            return
        if not self._greeted.done() and self._security is None and bytes(data[:2]) == TLS_ALERT:
            self._fail(ConnectionError(f"{self.endpoint} wants TLS: give this client the setting tls"))
            return
        try:
            messages = self._decoder.feed(bytes(data))
        except ConnectionError as error:
            self._fail(error)
            return
        if not self._greeted.done() and self._decoder.hello is not None:
            if self._node and self._decoder.hello.name != self._node:
                who = f"{self._decoder.hello.name!r} with the certificate of {self._node!r}"
                self._fail(ConnectionError(f"{self.endpoint}: it says that it is {who}"))
                return
            self._greeted.set_result(self._decoder.hello)
        for message in messages:
            if message[0] == REFUSED:
                text = message[5].decode(errors="replace")
                self._fail(self._refusal(text, message[2]))
                return
            if message[0] == ANSWER and message[1] == AUTHENTICATE_ID:
                self._end_asked(message[5] if message[2] == statuses.OK else error_from_status(message[2]))
        if messages:
            self._on_messages(self, messages)

    def _refusal(self, text: str, status: int) -> NodeRefused | RaftmetaError:
        if status == statuses.AUTHENTICATION_FAILED:
            return error_from_status(status, detail=text)
        return NodeRefused(f"{self.endpoint} refuses: {text} (status {status})", status)

    def _fail(self, error: Exception) -> None:
        if not self._greeted.done():
            self._greeted.set_exception(error)
        self._end_asked(error)
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        ended = ConnectionResetError(f"{self.endpoint} closed the connection")
        why = ended if error is None else self._explained(error)
        if not self._greeted.done():
            self._greeted.set_exception(why)
            self._greeted.exception()  # who waited for it may have gone
        self._end_asked(why)
        self._leader_told.set()
        self._on_lost(self)
