"""Three real ZooKeeper servers on this machine, and commands that crash, kill, freeze and heal them (real_servers)."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

from tests.conformance.real_servers import RealServers
from tests.migrate.zookeeper_server import JAVA, classpath, logging_folder

TICK_MS = 1000  # a session may last 2 to 20 s
ASK_S = 2.0


class Ensemble(RealServers):
    """ZooKeeper as PySpark brings it; ports for clients, for followers and for elections each."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.zookeeper_ensemble"
    ports_each = 3

    def command(self, number: int, data: Path) -> list[str]:
        (data / "myid").write_text(str(number))
        lines = {
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 5,
            "dataDir": data,
            "clientPort": self.ports[number][0],
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            **{f"server.{other}": f"127.0.0.1:{ports[1]}:{ports[2]}" for other, ports in self.ports.items()},
        }
        configuration = data / "zoo.cfg"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)]
        return ["java", *JAVA, "-Xmx192m", "-cp", classpath(logging_folder(self.folder)), *main]

    def is_serving(self, number: int) -> bool:
        return bool(self._mode(number))

    def is_leading(self, number: int) -> bool:
        return self._mode(number) == "leader"

    def _mode(self, number: int) -> str:
        """leader or follower; empty while it does not serve."""
        address = ("127.0.0.1", self.ports[number][0])
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=ASK_S) as connection:
            connection.sendall(b"srvr")
            told = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
            return next((line.split()[1] for line in told.splitlines() if line.startswith("Mode:")), "")
        return ""


if __name__ == "__main__":
    Ensemble(Path(sys.argv[1])).main(sys.argv[2])
