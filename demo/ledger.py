"""The ledger: a process that knows nothing of raftmeta and keeps on disk what clients were promised.

It listens on a loopback port, which it tells: the path of a socket in the folder could be too long for one.
A client sends a line for each write that was acknowledged to it. The ledger appends the lines of all clients to its
file, syncs once for all of them, and answers each client with how many of its lines are on disk by now. It never judges
a line.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import selectors
import socket
from collections import deque
from pathlib import Path
from typing import NamedTuple

from tests.processes.child import Parent

READ_BYTES = 1 << 16


class Acknowledgement(NamedTuple):
    """One write that a client was told to be done. Times are of CLOCK_MONOTONIC, one clock for the whole machine."""

    key: str
    digest: str
    revision: int
    begun_ns: int
    acknowledged_ns: int

    @property
    def owner(self) -> str:
        """The member whose client it is: keys are load/<member>/<life>/<writer>/<number>."""
        return self.key.split("/", 2)[1]

    def line(self) -> bytes:
        return f"{self.key} {self.digest} {self.revision} {self.begun_ns} {self.acknowledged_ns}\n".encode()

    @classmethod
    def parse(cls, line: str) -> Acknowledgement:
        key, digest, *numbers = line.split()
        return cls(key, digest, *map(int, numbers))


def digest_of(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=8).hexdigest()


class LedgerClient:
    """A connection to the ledger, for those who are promised something."""

    @classmethod
    async def connect(cls, port: int) -> LedgerClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._kept = 0

    async def record(self, acknowledgement: Acknowledgement) -> None:
        """On return it is on the ledger's disk."""
        kept = asyncio.get_running_loop().create_future()
        self._waiting.append(kept)
        self._writer.write(acknowledgement.line())
        await kept

    async def listen(self) -> None:
        while line := await self._reader.readline():
            while self._kept < int(line):
                self._waiting.popleft().set_result(None)
                self._kept += 1


class Client:
    """A connection, with the part of a line that came so far and the number of whole lines."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rest = b""
        self.lines = 0

    def read(self) -> bytes | None:
        """The whole lines that came; None at the end. Half a line of a killed client promised nothing."""
        try:
            received = self.connection.recv(READ_BYTES)
        except ConnectionResetError:
            received = b""
        if not received:
            return None
        whole, newline, self.rest = (self.rest + received).rpartition(b"\n")
        self.lines += whole.count(b"\n") + len(newline)
        return whole + newline

    def answer(self) -> None:
        try:
            self.connection.sendall(b"%d\n" % self.lines)
        except (BrokenPipeError, ConnectionResetError):
            return  # killed meanwhile; its end will be read


def serve(listener: socket.socket, file: int) -> None:
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        heard: list[Client] = []
        for key, _ in selector.select():
            if key.fileobj is listener:
                client = Client(listener.accept()[0])
                client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(client.connection, selectors.EVENT_READ, client)
            elif (lines := key.data.read()) is not None:
                os.write(file, lines)
                heard.append(key.data)
            else:
                selector.unregister(key.fileobj)
                key.data.connection.close()
        if heard:
            os.fsync(file)
        for client in heard:
            client.answer()


async def keep(parent: Parent, path: str) -> None:
    """The life of the process: acknowledgements go to the file at this path, which is a new one."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    folder = os.open(Path(path).parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parent.serve(listener.getsockname()[1])
        await asyncio.to_thread(serve, listener, file)


def port(port: int) -> int:
    """Where it listens, for who calls into the process."""
    return port
