"""Hostile clients of a running door: its memory is bounded, they are closed, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.cluster import ready
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_ports, wait_until
from tests.zookeeper.nodes import CREATE, GET_DATA, OPEN_ACL, SET_DATA, RawClient, open_door, text

MIB = 1 << 20
FRAME_BYTES_MAX = MIB + 1024  # doors/zookeeper/state.pxd ZK_FRAME_BYTES_MAX
SETTINGS = {"client_bytes_max": 8 * MIB, "client_memory_bytes_max": 8 * MIB, "zookeeper_tick_s": 2.0}
LONGEST_MS = 40_000  # of a session; an honest client gives up after 20 s
DATA_BYTES = 200_000
PIPELINED = 1000
DEAF = 50  # more than there is room for answers

CONNECT = struct.pack(">iqiq", 0, 0, 10_000, 0) + text(bytes(16)) + b"\0"
REQUEST = struct.pack(">ii", 1, CREATE) + text(b"/cut") + text(b"data") + OPEN_ACL + struct.pack(">i", 0)
LENGTHS = (-1, -(2**31), 2**31 - 1, FRAME_BYTES_MAX + 1)


class Door:
    """A node in a process of its own."""

    def __init__(self, folder: Path) -> None:
        peer, self.port = free_ports(2)
        self.process = RemoteProcess(
            open_door,
            *("a", {"a": f"127.0.0.1:{peer}"}, str(folder / "a"), self.port, SETTINGS),
            log=folder / "a.log",
        )

    def metric(self, name: str) -> int:
        return int(self.process.call(metrics_of)[f"zookeeper_{name}"])

    def forget_highest(self) -> int:
        """Bytes of memory now, from which peak_bytes counts anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._bytes("VmRSS")

    def peak_bytes(self) -> int:
        return self._bytes("VmHWM")

    def _bytes(self, word: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(word))


def metrics_of(node: raftmeta.Node) -> dict[str, float]:
    return dict(node.metrics())


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    made = Door(tmp_path_factory.mktemp("hostile-door"))
    try:
        made.process.start()
        made.process.call(ready, 30)
        yield made
    finally:
        made.process.kill()


@pytest.fixture
def honest(door: Door) -> Iterator[RawClient]:
    """A client that was there before, and finds its session and all memory given back after."""
    with RawClient(door.port, timeout_ms=20_000) as client:
        yield client
        assert client.set_data(b"/", b"").error == 0
    wait_until(lambda: door.metric("connections") == 0, timeout_s=30, what="all connections to go")
    assert door.metric("memory_bytes") == 0 and door.metric("sessions") == 0


def is_served(client: RawClient, times: int = 50) -> bool:
    return all(
        client.set_data(b"/", b"%d" % number).error == 0 == client.get_data(b"/").error for number in range(times)
    )


def gets_in(port: int) -> bool:
    try:
        with RawClient(port) as client:
            return is_served(client, 5)
    except ConnectionError:
        return False


@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_that_no_frame_has_ends_the_connection(door: Door, honest: RawClient, length: int) -> None:
    """As the first word of a stranger, and of a client with a session. No memory is taken for it."""
    before, refused = door.forget_highest(), door.metric("connections_refused")
    with socket.create_connection(("127.0.0.1", door.port), timeout=20) as stranger:
        stranger.sendall(struct.pack(">i", length) + b"x" * 8)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    with RawClient(door.port) as client:
        client.socket.sendall(struct.pack(">i", length) + b"x" * 8)
        assert client.is_closed()
    assert is_served(honest)
    assert door.metric("connections_refused") == refused + 2
    assert door.peak_bytes() < before + 32 * MIB


def test_a_conversation_that_breaks_at_any_byte_does_nothing(door: Door, honest: RawClient) -> None:
    """A connect request and a request are cut; the whole request is carried out."""
    words = text(CONNECT), text(REQUEST)
    for cut in range(len(words[0])):
        with socket.create_connection(("127.0.0.1", door.port), timeout=20) as stranger:
            stranger.sendall(words[0][:cut])
    for cut in range(len(words[1])):
        with RawClient(door.port, timeout_ms=1) as client:
            client.socket.sendall(words[1][:cut])
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed()
    assert honest.exists(b"/cut").error != 0
    with RawClient(door.port) as client:
        client.socket.sendall(words[1])
        assert client.reply().error == 0
    assert honest.exists(b"/cut").error == 0
    assert is_served(honest)


def test_two_thousand_slow_strangers_keep_nobody_out(door: Door, honest: RawClient) -> None:
    """Each says one byte after the other. Few have a place at a time, and each soon gives way to who comes later."""
    before = door.forget_highest()
    with contextlib.ExitStack() as stack:
        strangers = []
        for number in range(2000):
            strangers.append(stack.enter_context(socket.create_connection(("127.0.0.1", door.port), timeout=20)))
            if number % 100 == 0:
                for each in strangers:
                    with contextlib.suppress(OSError):
                        each.send(b"\0")
                assert is_served(honest, 5)
        wait_until(lambda: gets_in(door.port), timeout_s=20, what="a client of the same address to get in")
        assert door.metric("connections") < 300
        assert door.peak_bytes() < before + 32 * MIB


def test_those_who_do_not_read_cost_little(door: Door, honest: RawClient) -> None:
    """Fifty ask a thousand times for 200 kB each, all at once, and read nothing: 10 GB would wait for them. They are
    closed when they take the room of others; who reads gets every answer.
    """
    honest.create(b"/large", bytes(DATA_BYTES))
    before = door.forget_highest()
    asked = b"".join(text(struct.pack(">ii", n, GET_DATA) + text(b"/large") + b"\0") for n in range(1, PIPELINED + 1))
    with contextlib.ExitStack() as stack:
        deaf = [stack.enter_context(RawClient(door.port, timeout_ms=LONGEST_MS)) for _ in range(DEAF)]
        for client in deaf:
            client.socket.sendall(asked)
        assert is_served(honest)
        honest.socket.sendall(asked)
        for number in range(1, PIPELINED + 1):
            reply = honest.reply()
            assert (reply.xid, reply.error) == (number, 0)
        assert door.peak_bytes() < before + 64 * MIB


def test_an_answer_that_waits_for_room_comes(door: Door, honest: RawClient) -> None:
    """Between the requests of those who do not read stands a write of one who does: some are taken while there is
    room, and carried out when there is none. All are answered once the others are closed.
    """
    honest.create(b"/large", bytes(DATA_BYTES))
    asked = b"".join(text(struct.pack(">ii", n, GET_DATA) + text(b"/large") + b"\0") for n in range(1, PIPELINED + 1))
    with contextlib.ExitStack() as stack:
        deaf = [stack.enter_context(RawClient(door.port, timeout_ms=LONGEST_MS)) for _ in range(DEAF)]
        xids = []
        for client in deaf:
            xids.append(honest.ask(SET_DATA, text(b"/") + text(b"x") + struct.pack(">i", -1)))
            client.socket.sendall(asked)
        for xid in xids:
            reply = honest.reply()
            assert (reply.xid, reply.error) == (xid, 0)
        assert is_served(honest)


def test_half_frames_take_no_room_of_others(door: Door, honest: RawClient) -> None:
    """Sixteen say all but the last byte of a frame of a megabyte: twice what all requests may have. They are closed."""
    before = door.forget_highest()
    half = struct.pack(">i", MIB) + bytes(MIB - 1)
    with contextlib.ExitStack() as stack:
        halves = [stack.enter_context(RawClient(door.port, timeout_ms=LONGEST_MS)) for _ in range(16)]
        for client in halves:
            with contextlib.suppress(ConnectionError):
                client.socket.sendall(half)
        assert is_served(honest)
        assert door.peak_bytes() < before + 64 * MIB
        wait_until(lambda: door.metric("memory_bytes") < 5 * MIB, timeout_s=10, what="the half frames to go")
        assert is_served(honest)
        large = text(struct.pack(">ii", 7, CREATE) + text(b"/half") + text(bytes(MIB - 200)) + OPEN_ACL + bytes(4))
        honest.socket.sendall(large)
        assert honest.reply().error == 0
