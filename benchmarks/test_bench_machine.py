"""What this machine can do at best: the floor under every number of a durable, replicated write."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

ENTRY_BYTES = 512  # one 256-byte value with key, record and batch header
FILE_BYTES = 16 << 20


@pytest.fixture
def written_file(tmp_path: Path) -> Iterator[int]:
    """A file whose blocks are allocated and written, as a segment of the log is."""
    descriptor = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    os.write(descriptor, bytes(FILE_BYTES))
    os.fsync(descriptor)
    yield descriptor
    os.close(descriptor)


def test_one_synced_write(benchmark: BenchmarkFixture, written_file: int) -> None:
    """pwrite and fdatasync of one entry into preallocated space."""
    offset = 0

    def write() -> None:
        nonlocal offset
        os.pwrite(written_file, bytes(ENTRY_BYTES), offset)
        os.fdatasync(written_file)
        offset = (offset + ENTRY_BYTES) % FILE_BYTES

    benchmark.extra_info["operations"] = 1
    benchmark.pedantic(write, rounds=500, warmup_rounds=20)


def test_one_round_trip_over_loopback(benchmark: BenchmarkFixture) -> None:
    """A frame's worth of bytes there and back between two threads, over TCP without delay."""
    here, there = tcp_pair()

    def echo() -> None:
        while received := there.recv(65536):
            there.sendall(received)

    echoing = threading.Thread(target=echo)
    echoing.start()

    def round_trip() -> None:
        here.sendall(bytes(ENTRY_BYTES))
        missing = ENTRY_BYTES
        while missing:
            missing -= len(here.recv(missing))

    benchmark.extra_info["operations"] = 1
    try:
        benchmark.pedantic(round_trip, rounds=2000, warmup_rounds=50)
    finally:
        here.close()
        echoing.join()
        there.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    for end in (here, there):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return here, there
