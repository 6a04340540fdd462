"""Three real etcd servers on this machine, and the commands that crash, kill, freeze and heal them (real_servers)."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from typing import Any

from tests.conformance.real_servers import RealServers
from tests.doors.software import etcd

ASK_S = 2.0


class EtcdCluster(RealServers):
    """etcd 3.7; a port for clients and one for peers each."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.etcd_cluster"
    ports_each = 2

    def command(self, number: int, data: Path) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports[number])
        peers = {f"n{one}": f"http://127.0.0.1:{ports[1]}" for one, ports in self.ports.items()}
        told = {
            "name": f"n{number}",
            "data-dir": data / "data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{name}={url}" for name, url in peers.items()),
            "initial-cluster-token": self.folder.name,
            "log-level": "warn",
        }
        return [str(etcd()), *(f"--{name}={value}" for name, value in told.items())]

    def is_serving(self, number: int) -> bool:
        """It answers, and knows a leader."""
        return self._status(number).get("leader", "0") != "0"

    def is_leading(self, number: int) -> bool:
        status = self._status(number)
        return bool(status) and status.get("leader") == status["header"]["member_id"]

    def _status(self, number: int) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[number][0], timeout=ASK_S)
        try:
            connection.request("POST", "/v3/maintenance/status", body=b"{}")
            answer = connection.getresponse()
            body = answer.read()
            return dict(json.loads(body)) if answer.status == http.client.OK else {}
        except (OSError, http.client.HTTPException):
            return {}
        finally:
            connection.close()


if __name__ == "__main__":
    EtcdCluster(Path(sys.argv[1])).main(sys.argv[2])
