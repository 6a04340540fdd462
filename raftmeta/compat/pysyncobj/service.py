"""The second port of a member: readers get the log there, admins ask there (wire.py has the messages).

    reader -> "read", NAME              this is a reader; the member counts it
    reader -> "feed"                    send me the state, and then batch after batch
    reader -> "batch", BATCH            put this into the log
    member -> "state", POSITION, MEMBERS, DUMP      member -> "batch", REVISION, BATCH
    member -> "view", TERM, LEADER, IS_LIVE         with ticks: a member that is not ticked is silent
    admin  -> "ask", MESSAGE            member -> "answer", VALUE

Threads receive and send here. The thread that ticks answers: it takes what was asked, and leaves states and batches.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from raftmeta.compat.pysyncobj.config import FAIL_REASON
from raftmeta.compat.pysyncobj.files import Batch, Position
from raftmeta.compat.pysyncobj.link import View
from raftmeta.compat.pysyncobj.member import Member
from raftmeta.compat.pysyncobj.node import Node
from raftmeta.compat.pysyncobj.wire import Wire, WireClosed, service_address

__all__ = ["ReaderSession", "Service"]

TUNE_TELL_S = 0.1
TUNE_HELLO_S = 10.0  # for a first message, and for TLS
log = logging.getLogger(__name__)

Answer = Callable[[Any, Any], object]


class ReaderSession:
    """A reader that is connected. is_hungry: it waits for a state. is_fed: it has one, and gets batches."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.name = name
        self.is_hungry = False
        self.is_fed = False
        self._wire = wire
        self._outgoing: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="raftmeta-pysyncobj-reader", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (message := self._outgoing.get()) is not None:
                self._wire.send(*message)
        self._wire.end()

    def send(self, *message: Any) -> None:
        self._outgoing.put(message)

    def feed(self, position: Position, dump: bytes | None, members: list[str]) -> None:
        if dump is None:
            return  # the next tick tries again
        self.is_hungry, self.is_fed = False, True
        self.send("state", list(position), members, dump)

    def close(self) -> None:
        self._outgoing.put(None)
        self._wire.end()


class Service:
    """address: of the node, or the one to bind."""

    def __init__(self, address: str, member: Member) -> None:
        self._address = address
        self._member = member
        self._context = None if member.papers is None else member.papers.context(is_server=True)
        self._asked: queue.SimpleQueue[tuple[list[Any], Answer]] = queue.SimpleQueue()
        self._readers: set[ReaderSession] = set()
        self._open: set[Wire] = set()
        self._guard = threading.Lock()
        self._listener: socket.socket | None = None
        self._told_s = 0.0
        self._is_closed = False

    def begin(self) -> None:
        """Listen. A node whose second port is taken works without readers and admins."""
        host, port = service_address(self._address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.create_server((host, port), family=family)
        except OSError as error:
            log.warning("no readers and no admins: port %d cannot be bound: %s", port, error)
            return
        threading.Thread(
            target=self._accept, args=(self._listener,), name="raftmeta-pysyncobj-accept", daemon=True
        ).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                connection, _ = listener.accept()
                threading.Thread(
                    target=self._serve, args=(connection,), name="raftmeta-pysyncobj-serve", daemon=True
                ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(TUNE_HELLO_S)
            wire = Wire(connection, self._context, is_server=True, timeout_s=TUNE_HELLO_S)
        except OSError as error:
            log.info("connection refused error=%s", error)
            connection.close()
            return
        with self._guard:
            self._open.add(wire)
        try:
            kind, content = wire.receive()
            wire.wait_at_most(None)
            if kind == "ask" and isinstance(content, list):
                self._answer(wire, content)
            elif kind == "read":
                self._read(wire, str(content))
        except (OSError, WireClosed, ValueError, TypeError) as error:
            log.debug("connection ended error=%s", error)
        finally:
            with self._guard:
                self._open.discard(wire)
            wire.close()

    def _answer(self, wire: Wire, message: list[Any]) -> None:
        """Hand the question to the thread that ticks, and wait for its answer."""
        answered = threading.Event()
        values: list[Any] = []

        def answer(result: Any, error: Any) -> None:
            words = ["SUCCESS" if error == FAIL_REASON.SUCCESS else "FAIL", str(message[0]).upper(), *message[1:]]
            values.append(_plain(result) if error is None and result else " ".join(map(str, words)))
            answered.set()

        self._asked.put((message, answer))
        self._member.inbox.news.set()
        while not answered.wait(1.0):
            if self._is_closed:
                return
        wire.send("answer", values[0])

    def _read(self, wire: Wire, name: str) -> None:
        session = ReaderSession(name, wire)
        with self._guard:
            self._readers.add(session)
        try:
            while True:
                kind, *content = wire.receive()
                if kind == "feed":
                    session.is_hungry, session.is_fed = True, False
                elif kind == "batch":
                    self._member.outbox.relay(Batch.unpack(content[0]))
                self._member.inbox.news.set()
        finally:
            with self._guard:
                self._readers.discard(session)
            session.close()

    # --- for the thread that ticks ------------------------------------------------------------------------------------
    def asked(self) -> list[tuple[list[Any], Answer]]:
        """The questions of admins since the last tick."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._asked.get_nowait())
        return found

    def hungry(self) -> list[ReaderSession]:
        return [session for session in self._all() if session.is_hungry]

    def readers(self) -> list[str]:
        return [session.name for session in self._all()]

    def _all(self) -> list[ReaderSession]:
        with self._guard:
            return list(self._readers)

    def applied(self, revision: int, batch: Batch) -> None:
        for session in self._all():
            if session.is_fed:
                session.send("batch", revision, batch.pack())

    def forget(self) -> None:
        """The state was replaced: readers need it anew."""
        for session in self._all():
            if session.is_fed:
                session.is_hungry, session.is_fed = True, False

    def tell(self, view: View, leader: Node | None, *, is_live: bool) -> None:
        now = time.monotonic()
        if now - self._told_s >= TUNE_TELL_S:
            self._told_s = now
            for session in self._all():
                session.send("view", view.term, "" if leader is None else str(leader.id), is_live)

    def close(self) -> None:
        self._is_closed = True
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for session in self._all():
            session.close()
        with self._guard:
            for wire in self._open:
                wire.end()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bytes | None) else str(value)
