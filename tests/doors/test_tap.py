"""The tap passes bytes on as they are, cuts connections, and takes new ones again."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from tests.doors.raw import RawSession, data, look, number
from tests.doors.tap import Tap
from tests.processes.waiting import wait_until

SESSION = 0x55


class Server:
    """A ZooKeeper that grants every session and answers everything with "no node"."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve_until_it_ends, args=(connection,), daemon=True).start()

    def _serve_until_it_ends(self, connection: socket.socket) -> None:
        """A tap that is cut resets the connection."""
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            self._serve(connection, stream)

    def _serve(self, connection: socket.socket, stream: BinaryIO) -> None:
        answer = struct.pack(">iiq", 0, 6000, SESSION) + data(bytes(16)) + b"\0"
        while len(head := stream.read(4)) == 4:
            if len(answer) < 30:
                (xid,) = struct.unpack_from(">i", stream.read(struct.unpack(">i", head)[0]))
                answer = struct.pack(">iqi", xid, 1, -101)
            else:
                stream.read(struct.unpack(">i", head)[0])
            connection.sendall(number(len(answer)) + answer)
            answer = b""

    def close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()


@pytest.fixture
def tap() -> Iterator[Tap]:
    server = Server()
    with Tap(server.address) as tap:
        yield tap
    server.close()


def test_what_is_said_through_a_tap_is_kept(tap: Tap) -> None:
    """Two connections, in their order."""
    for path in ("/a", "/b"):
        with RawSession(tap.address) as session:
            assert session.session == SESSION
            assert session.ask("exists", look(path))[0] == -101
    kept = [lines[2:] for lines in tap.trace()]
    assert kept == [["> exists /a -", "< exists -101"], ["> exists /b -", "< exists -101"]]
    assert not tap.order_faults()


def test_a_cut_ends_connections_and_takes_none_until_it_opens(tap: Tap) -> None:
    session = RawSession(tap.address)
    tap.cut()
    with pytest.raises((EOFError, ConnectionError)):
        session.ask("exists", look("/a"))
    session.drop()
    with pytest.raises(OSError):
        RawSession(tap.address)
    tap.open()
    with RawSession(tap.address) as again:
        assert again.ask("exists", look("/a"))[0] == -101


def test_held_bytes_are_passed_on_later(tap: Tap) -> None:
    """A client behind a network that loses everything: its connection stays, and nothing is answered."""
    with RawSession(tap.address) as session:
        tap.hold()
        xid = session.send("exists", look("/a"))
        host, _, port = tap.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as other:
            other.sendall(b"ruok")
            wait_until(lambda: len(tap.conversations) == 2, timeout_s=20, what="a new connection to be taken")
            assert not tap.trace()[0][2:], tap.trace()
            assert not tap.conversations[1].lines
        tap.pass_on()
        assert session.answer(xid)[0] == -101
    assert tap.trace()[0][2:] == ["> exists /a -", "< exists -101"]


def test_what_is_no_frame_is_passed_on_too(tap: Tap) -> None:
    """A four-letter word is said in the trace; the server sees it."""
    host, _, port = tap.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"ruok")
        wait_until(lambda: tap.conversations and tap.conversations[0].lines, timeout_s=20, what="the word to be kept")
    assert tap.conversations[0].lines == ["> four letters ruok"]
