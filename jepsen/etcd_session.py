"""A client of the brokers' etcd doors: one connection of HTTP/1.1, and one request of the JSON gateway at a time.
A watch has a connection of its own.

Its requests end in the words of jepsen/client.py: an answer; EtcdRefused, which says why nothing was done; NotExecuted
while there is no connection or no leader; OutcomeUnknown when the connection or the time was lost under the request.
After either of the last two the next request goes to the next door.

It never decides what is asked, and never asks again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import Any

import raftmeta
from jepsen.client import TIMEOUT_S, Doors

CONNECT_S = 1.0
HEAD_BYTES_MAX = 1 << 14
WATCH_BYTES_MAX = 1 << 24  # of one answer of a watch
PROGRESS_S = 0.5
SILENT_MAX = 6  # questions for progress without any answer

# Texts of etcd's refusals (api/v3rpc/rpctypes/error.go) that say that nothing was done, and that asking again may help.
NOT_DONE = (
    "etcdserver: no leader",
    "etcdserver: too many requests",
    "etcdserver: mvcc: database space exceeded",
)
# Those that are an answer.
NO_LEASE = "etcdserver: requested lease not found"
LEASE_EXISTS = "etcdserver: lease already exists"
REFUSALS = (NO_LEASE, LEASE_EXISTS)


class EtcdRefused(raftmeta.Refused):
    """The door said no, in these words."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class EtcdSession:
    """first: the number of the door that is asked first."""

    def __init__(self, doors: Doors, *, first: int) -> None:
        self._doors = doors
        self._next = first
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, path: str, **fields: Any) -> dict[str, Any]:
        """POST /v3/<path>; of a stream of answers the first one. Raises NotExecuted, OutcomeUnknown, EtcdRefused."""
        await self._connect()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status, body = await self._exchange(path, json.dumps(fields).encode())
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError) as error:
            self.move()
            raise raftmeta.OutcomeUnknown(f"no answer: {type(error).__name__}") from None
        except asyncio.CancelledError:
            self.move()
            raise
        if status == HTTPStatus.OK:
            return dict(json.loads(body.partition(b"\n")[0]))
        raise self._error_of(status, body)

    def _error_of(self, status: int, body: bytes) -> Exception:
        told = json.loads(body)
        text = str(told.get("error", told).get("message", ""))
        if text in REFUSALS:
            return EtcdRefused(text)
        self.move()
        if text in NOT_DONE:
            return raftmeta.NotExecuted(text)
        if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT):
            return raftmeta.OutcomeUnknown(text)
        return AssertionError(f"a door answered {status} {text}, for which no client gave a reason")

    async def watch(self, key: str, end: str, start: int) -> AsyncGenerator[dict[str, Any], None]:
        """All that a watch tells, on a connection of its own. It asks for progress while nothing comes.

        It ends with the stream, which the door ends when it knows no leader. Raises NotExecuted, OutcomeUnknown.
        """
        reader, writer = await self._opened(WATCH_BYTES_MAX)
        try:
            writer.write(b"POST /v3/watch HTTP/1.1\r\nHost: door\r\nTransfer-Encoding: chunked\r\n\r\n")
            create = {"key": b64(key), "range_end": b64(end), "start_revision": str(start), "prev_kv": True}
            _chunk(writer, {"create_request": create})
            waited = 0
            while waited < SILENT_MAX:
                try:
                    async with asyncio.timeout(PROGRESS_S):
                        line = await reader.readuntil(b"\n")
                except TimeoutError:
                    waited += 1
                    _chunk(writer, {"progress_request": {}})
                    continue
                if line.startswith(b"{"):  # and not the head, or the length of a chunk
                    waited = 0
                    told = json.loads(line)
                    if "result" not in told:
                        return
                    yield told["result"]
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise raftmeta.OutcomeUnknown(f"the watch is lost: {type(error).__name__}") from None
        finally:
            self._next += 1
            writer.transport.abort()

    async def _connect(self) -> None:
        if self._writer is None:
            self._reader, self._writer = await self._opened(HEAD_BYTES_MAX)

    async def _opened(self, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._doors.etcd[self._next % len(self._doors.etcd)]
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(host, int(port), limit=limit, ssl=_context_of(self._doors.tls))
        except (OSError, TimeoutError) as error:
            self._next += 1
            raise raftmeta.NotExecuted(f"no connection with {address}: {type(error).__name__}") from None

    async def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        assert self._reader is not None and self._writer is not None
        head = f"POST /v3/{path} HTTP/1.1\r\nHost: door\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if fields.get("transfer-encoding", "").lower() == "chunked":
            answer = await self._chunks(self._reader)
        else:
            answer = await self._reader.readexactly(int(fields["content-length"]))
        if fields.get("connection", "").lower() == "close":
            self._drop()
        return int(first.split()[1]), answer

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        parts = []
        while length := int(await reader.readuntil(b"\r\n"), 16):
            parts.append(await reader.readexactly(length))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return b"".join(parts)

    def move(self) -> None:
        """The next request goes to the next door."""
        self._next += 1
        self._drop()

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def close(self) -> None:
        self._drop()


def _context_of(tls: Mapping[str, str] | None) -> ssl.SSLContext | None:
    """The files are read for each connection, so new ones are found. Certificates of nodes have no host's name."""
    if tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls["authorities"])
    context.check_hostname = False
    context.load_cert_chain(tls["certificate"], tls["key"])
    return context


def _chunk(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """One message of a stream, as a chunk."""
    text = json.dumps(message).encode()
    writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")


def b64(text: str | bytes) -> str:
    """Bytes as the gateway has them."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def revision_of(answer: Mapping[str, Any]) -> int:
    return int(answer["header"]["revision"])
