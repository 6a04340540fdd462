"""Memory of what clients do not read: bounded for all of them together, given back, and nobody else waits for it."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

import raftmeta
from raftmeta.operations import Range
from tests.client.nodes import serving
from tests.client.raw import ANSWER, EVENTS, RawClient, frame
from tests.processes.waiting import wait_until

MIB = 1 << 20
RANGE, WATCH = 3, 4
VALUE = b"x" * 10_000
KEYS = 500


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    """A node with 5 MB of state and history; clients may leave 8 MiB unread."""
    with serving(tmp_path, client_memory_bytes_max=8 * MIB, client_idle_s=30.0) as (nodes, url):
        nodes["a"].put_many({f"k{number:03d}": VALUE for number in range(KEYS)})
        yield nodes["a"], url


def waiting(node: raftmeta.Node) -> int:
    return node.metrics()["client_memory_bytes"]


def ask_ranges(client: RawClient, count: int) -> None:
    for number in range(1, count + 1):
        client.send(frame(msgpack.packb([RANGE, number, 0, 0, 0, b"", b""])))


def open_watches(client: RawClient, count: int) -> None:
    """In one write: a connection whose events fill its socket is not read on."""
    requests = [frame(msgpack.packb([WATCH, number, 0, 1, b"", b""])) for number in range(1, count + 1)]
    client.send(b"".join(requests))


def stays_below(node: raftmeta.Node, most: int, url: str) -> None:
    """Another client works all the time, and sees the bound hold."""
    with raftmeta.Client(url) as client:
        for number in range(60):
            client.put("other", str(number), timeout_s=10)
            assert waiting(node) <= most


def test_ranges_that_nobody_reads_are_bounded_over_all_connections(served: tuple[raftmeta.Node, str]) -> None:
    """100 connections took 7.5 GB, and another client was not served."""
    node, url = served
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            ask_ranges(stack.enter_context(RawClient(url)), 100)
        stays_below(node, 8 * MIB, url)
    wait_until(lambda: waiting(node) < MIB, timeout_s=30, what="the memory to be free")


def test_answers_that_waited_all_come_once_they_are_read(served: tuple[raftmeta.Node, str]) -> None:
    node, url = served
    with RawClient(url) as client:
        ask_ranges(client, 50)
        wait_until(lambda: waiting(node) > 100_000, timeout_s=30, what="answers to wait")
        answered = set()
        while len(answered) < 50:
            message = client.next()
            if message[0] == ANSWER:
                assert message[2] == 0
                answered.add(message[1])
        assert answered == set(range(1, 51))
    with raftmeta.Client(url) as reader:
        assert len(reader.range(prefix="k").records) == KEYS


def test_commands_whose_results_are_long_are_answered_too(served: tuple[raftmeta.Node, str]) -> None:
    """A result is there when its command was applied. It waits in line, and nothing is lost."""
    _node, url = served
    with raftmeta.Client(url) as client:
        replies = [client.txn([], [Range.prefix("k", limit=40)]) for _ in range(30)]
        assert all(len(reply.results[0].records) == 40 for reply in replies)


def test_watches_of_one_connection_that_does_not_read_are_bounded(served: tuple[raftmeta.Node, str]) -> None:
    """1,024 of them took 4.9 GB within six seconds."""
    node, url = served
    with RawClient(url) as greedy:
        open_watches(greedy, 500)
        wait_until(lambda: node.metrics()["watches"] == 500, timeout_s=30, what="the watches")
        wait_until(lambda: waiting(node) > MIB, timeout_s=30, what="events to wait")
        stays_below(node, 8 * MIB, url)
        assert node.metrics()["watches"] == 500
    wait_until(lambda: node.metrics()["watches"] == 0, timeout_s=30, what="the watches to be gone")
    wait_until(lambda: waiting(node) < MIB, timeout_s=30, what="the memory to be free")


def test_watches_of_one_connection_that_reads_take_turns(served: tuple[raftmeta.Node, str]) -> None:
    """None waits for another one's replay to end, and each gets everything."""
    _node, url = served
    with RawClient(url) as client:
        open_watches(client, 8)
        events = dict.fromkeys(range(1, 9), 0)
        first_end = 0
        while min(events.values()) < KEYS:
            message = client.next()
            if message[0] == EVENTS:
                for item in msgpack.Unpacker(io.BytesIO(message[5])):
                    events[message[1]] += len(item[3])
            if not first_end and max(events.values()) == KEYS:
                first_end = min(events.values())
        assert set(events.values()) == {KEYS}
        assert first_end > 0


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def test_memory_goes_back_to_the_system(tmp_path: Path) -> None:
    """The allocator keeps what it once had: the peak stayed for the life of the process."""
    with serving(tmp_path, client_memory_bytes_max=128 * MIB, client_idle_s=4.0) as (nodes, url):
        node = nodes["a"]
        node.put_many({f"k{number:03d}": VALUE for number in range(KEYS)})
        before = anonymous_bytes()
        with RawClient(url) as greedy:
            open_watches(greedy, 100)
            wait_until(lambda: waiting(node) > 24 * MIB, timeout_s=30, what="events to wait")
        wait_until(lambda: anonymous_bytes() < before + 12 * MIB, timeout_s=30, what="the memory to go back")


def test_connections_take_turns(served: tuple[raftmeta.Node, str]) -> None:
    """A client that reads as fast as it is answered does not keep the others waiting."""
    _node, url = served
    with RawClient(url) as busy, raftmeta.Client(url) as other:
        ask_ranges(busy, 60)
        began = time.monotonic()
        other.put("x", b"1", timeout_s=10)
        assert time.monotonic() - began < 10
        answers = 0
        while answers < 60:
            answers += busy.next()[0] == ANSWER
