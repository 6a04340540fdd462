"""Three real Consul servers on this machine, and the commands that crash, kill, freeze and heal them (real_servers)."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from typing import Any

from tests.conformance.real_servers import RealServers
from tests.doors.software import consul

ASK_S = 2.0


class ConsulCluster(RealServers):
    """Consul 1.22; ports for clients, for servers and for gossip each."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.consul_cluster"
    ports_each = 3
    settings: tuple[str, ...] = ()

    def command(self, number: int, data: Path) -> list[str]:
        http_port, server_port, gossip_port = self.ports[number]
        settings = (
            "disable_update_check=true",
            "performance{raft_multiplier=1}",
            "limits{http_max_conns_per_client=1000}",
            *self.settings,
        )
        return [
            *(str(consul()), "agent", "-server", f"-bootstrap-expect={len(self.members)}", f"-node=s{number}"),
            *("-client=127.0.0.1", "-bind=127.0.0.1", "-advertise=127.0.0.1", "-log-level=warn"),
            *("-disable-host-node-id", "-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1"),
            *(f"-http-port={http_port}", f"-server-port={server_port}", f"-serf-lan-port={gossip_port}"),
            *(f"-data-dir={data / 'data'}", *(f"-hcl={setting}" for setting in settings)),
            *(f"-retry-join=127.0.0.1:{ports[2]}" for ports in self.ports.values()),
            "-retry-interval=1s",
        ]

    def is_serving(self, number: int) -> bool:
        """It answers a consistent read."""
        return self._ask(number, "/v1/kv/probe?consistent") is not None

    def is_leading(self, number: int) -> bool:
        told = self._ask(number, "/v1/status/leader")
        return told == f"127.0.0.1:{self.ports[number][1]}"

    def _ask(self, number: int, path: str) -> Any:
        """None: no answer of a cluster with a leader."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[number][0], timeout=ASK_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == http.client.NOT_FOUND:
                return []
            return json.loads(body) if answer.status == http.client.OK else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


if __name__ == "__main__":
    ConsulCluster(Path(sys.argv[1])).main(sys.argv[2])
