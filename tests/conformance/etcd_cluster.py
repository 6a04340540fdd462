"""Three real etcd servers on this machine, and the commands that crash, kill, freeze and heal them (real_servers)."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Mapping
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
        client = f"127.0.0.1:{self.ports[number][0]}"
        peers = {f"n{one}": f"127.0.0.1:{ports[1]}" for one, ports in self.ports.items()}
        return etcd_command(f"n{number}", data / "data", client, peers)

    def is_serving(self, number: int) -> bool:
        """It answers, and knows a leader."""
        return self._status(number).get("leader", "0") != "0"

    def is_leading(self, number: int) -> bool:
        status = self._status(number)
        return bool(status) and status.get("leader") == status["header"]["member_id"]

    def _status(self, number: int) -> dict[str, Any]:
        return etcd_status(f"127.0.0.1:{self.ports[number][0]}")


def etcd_command(name: str, data: Path, client: str, peers: Mapping[str, str]) -> list[str]:
    """The program of one server. client: the address for clients. peers: of all members, by name."""
    told = {
        "name": name,
        "data-dir": data,
        "listen-client-urls": f"http://{client}",
        "advertise-client-urls": f"http://{client}",
        "listen-peer-urls": f"http://{peers[name]}",
        "initial-advertise-peer-urls": f"http://{peers[name]}",
        "initial-cluster": ",".join(f"{one}=http://{address}" for one, address in peers.items()),
        "initial-cluster-token": "-".join(sorted(peers.values())),
        "log-level": "warn",
    }
    return [str(etcd()), *(f"--{setting}={value}" for setting, value in told.items())]


def etcd_status(address: str) -> dict[str, Any]:
    """The status that a server tells; empty while it does not answer."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ASK_S)
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
