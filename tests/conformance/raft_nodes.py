"""Three nodes of raftmeta as processes, each with a port for clients and a REST server (real_servers)."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.conformance.real_servers import RealServers

PYTHON = "import sys; from raftmeta.cli import main; sys.exit(main())"
ASK_S = 2.0


class RaftNodes(RealServers):
    """Ports for clients, for peers and for HTTP each."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.raft_nodes"
    ports_each = 3

    @property
    def http_addresses(self) -> str:
        return ",".join(f"127.0.0.1:{ports[2]}" for ports in self.ports.values())

    def command(self, number: int, data: Path) -> list[str]:
        client, peer, http = (f"127.0.0.1:{port}" for port in self.ports[number])
        peers = [f"--peer=n{one}=127.0.0.1:{ports[1]}" for one, ports in self.ports.items()]
        own = [f"--name=n{number}", f"--data={data / 'data'}", f"--listen={peer}", f"--clients={client}"]
        return [sys.executable, "-c", PYTHON, "serve", *own, f"--http={http}", *peers]

    def is_serving(self, number: int) -> bool:
        return bool(self._status(number).get("is_ready"))

    def is_leading(self, number: int) -> bool:
        return bool(self._status(number).get("leader") == f"n{number}")

    def _status(self, number: int) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[number][2]}/v1/status", timeout=ASK_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}


if __name__ == "__main__":
    RaftNodes(Path(sys.argv[1])).main(sys.argv[2])
