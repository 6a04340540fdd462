"""Nodes inside the test's own process: on free ports, with small files and short time-outs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import raftmeta
from tests.processes.waiting import free_ports, wait_until

LEVEL_OF_PROCESSES = 7

MIB = 1024 * 1024
QUICK: dict[str, Any] = {
    "heartbeat_s": 0.03,
    "election_timeout_s": 0.15,
    "segment_bytes": MIB,
    "wal_bytes_max": 64 * MIB,
    "reserve_bytes": 0,
    "close_timeout_s": 5.0,
    "checks": True,
}


def make_nodes(
    folder: Path, *, names: str = "abc", encryption: raftmeta.Encryption | None = None, **settings: Any
) -> dict[str, raftmeta.Node]:
    """One Node for each letter, not started."""
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    config = raftmeta.Config(**{**QUICK, **settings})
    return {
        name: raftmeta.Node(name, peers=peers, data_dir=folder / name, config=config, encryption=encryption)
        for name in names
    }


@contextlib.contextmanager
def all_ready(nodes: dict[str, raftmeta.Node]) -> Iterator[dict[str, raftmeta.Node]]:
    """These nodes, started and ready, until the end of the block."""
    with contextlib.ExitStack() as stack:
        for node in nodes.values():
            stack.callback(node.close, transfer=False)
            node.start()
        for node in nodes.values():
            node.ready(30)
        yield nodes


@contextlib.contextmanager
def running(folder: Path, *, names: str = "abc", **settings: Any) -> Iterator[dict[str, raftmeta.Node]]:
    """A cluster of one node for each letter, all ready."""
    with all_ready(make_nodes(folder, names=names, **settings)) as nodes:
        yield nodes


@contextlib.contextmanager
def one_node(folder: Path, **settings: Any) -> Iterator[raftmeta.Node]:
    """A cluster of one."""
    with running(folder, names="a", **settings) as nodes:
        yield nodes["a"]


@contextlib.contextmanager
def without_quorum(folder: Path, **settings: Any) -> Iterator[raftmeta.Node]:
    """A member of three that was ready once; the other two are closed since: no command can be decided any more."""
    with running(folder, **settings) as nodes:
        nodes["b"].close(transfer=False)
        nodes["c"].close(transfer=False)
        wait_until(lambda: not nodes["a"].status().leader, timeout_s=30, what="the last member to notice")
        yield nodes["a"]


def settle(nodes: dict[str, raftmeta.Node]) -> None:
    """Until the log has whose the session of each node is: from then on its commands are proposed at once."""
    for name, node in nodes.items():
        wait_until(lambda: node.status().feature_level >= LEVEL_OF_PROCESSES, timeout_s=30, what="the level")  # noqa: B023
        node.put(f"settled/{name}", b"")


def agree(nodes: dict[str, raftmeta.Node]) -> bool:
    """Whether all have one state, when all have applied the same entries. Those without a revision count, too."""

    def told() -> set[str] | None:
        found = [node.status() for node in nodes.values()]
        return {one.state_hash for one in found} if len({one.applied for one in found}) == 1 else None

    return len(wait_until(told, timeout_s=20, what="all to have applied the same")) == 1


def leader_of(nodes: dict[str, raftmeta.Node]) -> raftmeta.Node:
    """The node that leads and that all running ones follow."""

    def agreed() -> raftmeta.Node | None:
        told = {name: node.status() for name, node in nodes.items() if node.is_running}
        names = {status.leader for status in told.values()}
        return nodes[names.pop()] if len(names) == 1 and names != {""} else None

    return wait_until(agreed, timeout_s=30, what="a leader that all follow")
