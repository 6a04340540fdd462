"""Nodes with a door for a foreign protocol, which tests of that protocol share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports


@contextlib.contextmanager
def nodes_with_doors(
    folder: Path,
    *,
    door: str,
    names: str,
    settings: Mapping[str, Any],
    of_node: Mapping[str, Mapping[str, Any]] | None = None,
    **named: Any,
) -> Iterator[tuple[dict[str, raftmeta.Node], dict[str, int]]]:
    """Ready nodes, one for each letter of names, and the ports of their doors.

    door: the argument of `Node` that opens the door. settings: of `Config`, beside those of QUICK. named: arguments of
    every `Node`; of_node: those of one, by its name.
    """
    ports = free_ports(2 * len(names))
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
    at = dict(zip(names, ports[len(names) :], strict=True))
    config = raftmeta.Config(**{**QUICK, **settings})
    with contextlib.ExitStack() as stack:
        nodes = {}
        for name in names:
            arguments = {**named, **(of_node or {}).get(name, {}), door: f"127.0.0.1:{at[name]}"}
            node = raftmeta.Node(name, peers=peers, data_dir=folder / name, config=config, **arguments)
            stack.callback(node.close, transfer=False)
            nodes[name] = node.start()
        for node in nodes.values():
            node.ready(30)
        yield nodes, at
