"""The reference server of the REST protocol (tests/doors/programs/rest_server.mjs), and its commands (real_servers)."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

from tests.conformance.real_servers import RealServers
from tests.doors.software import PROGRAMS, node

ASK_S = 2.0


class RestReference(RealServers):
    """One process of Node.js, whose state is one file."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.rest_reference"
    ports_each = 1
    members = (1,)

    def command(self, number: int, data: Path) -> list[str]:
        (port,) = self.ports[number]
        return [node(), str(PROGRAMS / "rest_server.mjs"), f"127.0.0.1:{port}", str(data / "revisions")]

    def is_serving(self, number: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[number][0]}/v1/status", timeout=ASK_S) as answer:
                return bool(json.load(answer)["is_ready"])
        except OSError:
            return False

    def is_leading(self, number: int) -> bool:
        return self.is_serving(number)


if __name__ == "__main__":
    RestReference(Path(sys.argv[1])).main(sys.argv[2])
