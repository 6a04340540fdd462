from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.etcd.client import EtcdClient
from tests.processes.waiting import free_addresses

READY_S = 60.0


class Door:
    """A node of its own with a door for etcd's clients."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        peer, self.address = free_addresses(2)
        self.node = raftmeta.Node(
            "a",
            peers={"a": peer},
            data_dir=folder / "a",
            etcd_listen=self.address,
            config=raftmeta.Config(**settings),
        )
        self.node.start()
        self.node.ready(timeout_s=READY_S)

    def client(self) -> EtcdClient:
        return EtcdClient(self.address)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One node for all tests of a file; each test has a prefix of its own."""
    door = Door(tmp_path_factory.mktemp("etcd"))
    yield door
    door.node.close()


@pytest.fixture
def client(door: Door) -> Iterator[EtcdClient]:
    with door.client() as client:
        yield client


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> bytes:
    return f"{request.node.name}/".encode()
