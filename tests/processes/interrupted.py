"""A process whose main thread blocks in one call of a node until somebody presses Ctrl-C.

    python -m tests.processes.interrupted <folder> <call>

It says "blocked" before the call and, when KeyboardInterrupt came, the time of CLOCK_MONOTONIC; then it closes the
node.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import raftmeta
from tests.processes.waiting import free_ports

CALLS: dict[str, Callable[[raftmeta.Node], object]] = {
    "watch": lambda node: next(iter(node.watch(prefix="nothing/"))),
    "events": lambda node: [None for _ in node.events()],
    "lease": lambda node: node.lease(60).wait_lost(),
    "ready": lambda node: node.ready(None),
}


def main() -> None:
    folder, call = sys.argv[1:]
    names = "abc" if call == "ready" else "a"  # alone of three, nobody is ever ready
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    with raftmeta.Node("a", peers=peers, data_dir=folder) as node:
        if call != "ready":
            node.ready(20)
        print("blocked", flush=True)
        try:
            CALLS[call](node)
        except KeyboardInterrupt:
            print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
