"""Names and addresses that peers and clients tell: what is no text is refused, and nobody's view of the node breaks."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

import raftmeta
from raftmeta.native.native_handle import crc32c
from tests.client.nodes import serving
from tests.client.raw import RawClient, frame
from tests.node.nodes import running
from tests.processes.waiting import wait_until

OVERLOADED, BAD_FIELD = 34, 69
HELLO, HEADER_BYTES = 1, 96
PEER, CLIENT = 1, 2
MEET, CHANGE = 11, 10
STRANGER, BOOT = 77, 1
BAD_TEXTS = [b"\xff\xfe", b"x\0y", b"line\nbreak", b"\x7f", b"\xed\xa0\x80", b"caf\xe9", "\u2028".encode(), b"\xc2\x85"]


def packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value, use_bin_type=True))


def hello_of(
    name: bytes,
    address: bytes,
    *,
    id: int = STRANGER,
    boot: int = BOOT,
    purpose: int = PEER,
    version: int = 1,
    level: int = 2,
) -> bytes:
    """The first frame of a peer that belongs to no cluster yet."""
    state = 1 if purpose == PEER else 0
    body = packed([purpose, version, version, state, 0, 0, id, boot, level, name, b"default", address, 0])
    header = bytearray(HEADER_BYTES)
    header[:4] = b"RFTM"
    header[8:10] = bytes([1, HELLO])
    struct.pack_into("<IIQQQQQQQ", header, 16, len(body), 0, 0, 0, id, 0, boot, 1, 0)
    header[92:96] = struct.pack("<I", crc32c(bytes(header[8:92])))
    header[4:8] = struct.pack("<I", crc32c(bytes(header[8:]) + body))
    return bytes(header) + body


def connect(node: raftmeta.Node) -> socket.socket:
    address = node.identity.listen
    return socket.create_connection((address.host, address.port), timeout=10)


def say(node: raftmeta.Node, data: bytes) -> None:
    """Send these bytes to the port for peers and wait until the node has read and answered or closed."""
    with connect(node) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            pass


def look_everywhere(node: raftmeta.Node) -> None:
    """All that shows names; none of it may raise."""
    assert node.status().name == node.name
    assert [member.name for member in node.members()] == [node.name]
    assert node.metrics()["turns"] > 0
    assert all(str(event) for event in node.events(timeout_s=0))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    with serving(tmp_path) as (nodes, url):
        yield nodes["a"], url


def names_shown(node: raftmeta.Node) -> set[str]:
    return {member.name for member in node.status().members}


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_a_hello_whose_name_or_address_is_no_text_is_refused(served: tuple[raftmeta.Node, str], text: bytes) -> None:
    """One such frame made status(), members() and close() raise UnicodeDecodeError until a restart."""
    node, url = served
    before = node.metrics()["connections_refused"]
    say(node, hello_of(text, b"127.0.0.1:9"))
    say(node, hello_of(b"fine", text))
    wait_until(lambda: node.metrics()["connections_refused"] >= before + 2, timeout_s=20, what="both refusals")
    assert names_shown(node) == {"a"}
    look_everywhere(node)
    with raftmeta.Client(url) as client:
        assert client.status().name == "a"
    node.close()
    assert not node.is_running


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_a_client_that_names_a_peer_by_no_text_is_refused(served: tuple[raftmeta.Node, str], text: bytes) -> None:
    node, url = served
    with RawClient(url) as client:
        for number, meet in enumerate([[text, b"127.0.0.1:9"], [b"fine", text]], start=1):
            client.send(frame(packed([MEET, number, *meet])))
            assert client.next()[:3] == (1, number, BAD_FIELD)
    assert names_shown(node) == {"a"}
    look_everywhere(node)
    node.close()
    assert not node.is_running


def test_names_in_other_writings_are_welcome(served: tuple[raftmeta.Node, str]) -> None:
    node, url = served
    with RawClient(url) as client:
        client.send(frame(packed([MEET, 1, "Köln-東京".encode(), b"127.0.0.1:9"])))
        assert client.next()[:3] == (1, 1, 0)
    wait_until(lambda: names_shown(node) == {"a", "Köln-東京"}, timeout_s=20, what="the name to be shown")
    look_everywhere(node)


def test_a_change_of_members_whose_name_is_no_text_is_refused(served: tuple[raftmeta.Node, str]) -> None:
    """A name in a committed membership could never be taken back by its name."""
    node, url = served
    me = node.status()
    head = bytes([1, 2, 0]) + bytes(5)
    own = struct.pack("<QBBBx", me.id, 1, 1, 0) + b"a"
    other = struct.pack("<QBBBx", 5, 4, 2, 0) + b"\xff\xfe"
    with RawClient(url) as client:
        client.send(frame(packed([CHANGE, 1, 1, head + own + other])))
        assert client.next()[:3] == (1, 1, BAD_FIELD)
    look_everywhere(node)


def test_mutated_greetings_and_meetings_break_no_view(served: tuple[raftmeta.Node, str]) -> None:
    """A small fuzz: bytes of names and addresses are replaced, checksums are right."""
    node, url = served
    source = random.Random(5)
    for _ in range(150):
        name, address = bytearray(b"stranger-%d" % source.randrange(9)), bytearray(b"127.0.0.1:9")
        for target in (name, address):
            for _ in range(source.randrange(3)):
                target[source.randrange(len(target))] = source.randrange(256)
        say(node, hello_of(bytes(name), bytes(address), id=100 + source.randrange(9), boot=source.getrandbits(63)))
        with RawClient(url) as client:
            client.send(frame(packed([MEET, 1, bytes(name), bytes(address)])))
            assert client.next()[2] in (0, BAD_FIELD, OVERLOADED)
        assert node.status().is_ready
    look_everywhere(node)
    with raftmeta.Client(url) as client:
        assert client.members()[0].name == "a"
        assert client.status().name == "a"
    node.close()
    assert not node.is_running


def test_whatever_a_hand_over_meets_with_the_node_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that leaves asks for a successor first. An error there left the node running."""

    class Node(raftmeta.Node):
        def transfer(self, to: str | None = None, *, timeout_s: float = 5.0) -> None:
            raise ZeroDivisionError

    with running(tmp_path, names="a") as nodes:
        address = str(nodes["a"].identity.advertise)
        nodes["a"].close()
        node = Node("a", peers={"a": address}, data_dir=tmp_path / "a").start()
        node.ready(30)
        with pytest.raises(ZeroDivisionError):
            node.close()
        assert not node.is_running
