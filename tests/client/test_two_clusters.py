"""Nodes of two clusters of the same name among a client's addresses: it works with one of them, and never with both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta.client import channel
from tests.client.nodes import serving
from tests.processes.waiting import wait_until


@pytest.fixture(autouse=True)
def in_the_order_of_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client tries its addresses in a random order, so that many clients do not all come to one node."""
    monkeypatch.setattr(channel.random, "shuffle", lambda endpoints: None)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Of the old cluster and of the new one."""
    folders = tmp_path / "old", tmp_path / "new"
    for folder in folders:
        folder.mkdir()
    return folders


@contextlib.contextmanager
def left_over(folder: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    """A node as an old disk brings it back: of a cluster whose others are gone, so that it knows no leader."""
    with serving(folder, names="abc") as (nodes, url):
        url = url.split(",")[-1]
        with raftmeta.Client(f"raft://{url}") as client:
            client.put("old", "1", timeout_s=20)
        for name in "ab":
            nodes[name].close(transfer=False)
        wait_until(lambda: not nodes["c"].status().leader, timeout_s=20, what="the last node to notice")
        yield nodes["c"], url


def why_not(client: raftmeta.Client) -> str:
    with pytest.raises(raftmeta.ReadyTimeout) as raised:
        client.ready(0.1)
    return str(raised.value)


def test_a_client_leaves_a_node_of_another_cluster_that_has_no_leader(folders: tuple[Path, Path]) -> None:
    """Operations, "Restore": a disk of the old cluster turns up again, at an address that clients have.

    Init: a node of a cluster that is gone, a whole one of a cluster that serves. Act: a client meets the first of them
    before the second. Check: it reads and writes in the cluster that serves.
    """
    with (
        left_over(folders[0]) as (old, place),
        serving(folders[1]) as (nodes, url),
        raftmeta.Client(f"raft://{place},{url.removeprefix('raft://')}") as client,
    ):
        client.ready(20)
        client.put("k", "1", timeout_s=20)
        assert nodes["a"].get("k") is not None
        assert client.get("old", timeout_s=20) is None
        assert client.status(timeout_s=20).cluster_id == nodes["a"].status().cluster_id != old.status().cluster_id


def test_a_client_that_was_answered_asks_no_other_cluster(folders: tuple[Path, Path]) -> None:
    """What it read, and what it has under way, holds in the cluster that answered: it waits, and says for what."""
    with (
        serving(folders[1]) as (nodes, url),
        left_over(folders[0]) as (_, place),
        raftmeta.Client(f"raft://{place},{url.removeprefix('raft://')}") as client,
    ):
        assert client.get("old", local=True, timeout_s=20) is not None
        wait_until(lambda: "belongs to another cluster" in why_not(client), timeout_s=20, what="the reason")
        assert f"c at {place} knows no leader" in why_not(client)
        with pytest.raises(raftmeta.NotExecuted):
            client.put("k", "1", timeout_s=0.5)
        assert nodes["a"].get("k") is None
