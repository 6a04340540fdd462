"""Three servers that speak etcd's protocol on loopback: real ones of etcd 3.7, or nodes of raftmeta with etcd doors.

They are told apart only here, as those of ZooKeeper are in tests/doors/servers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.conformance.etcd_cluster import etcd_command, etcd_status
from tests.doors.servers import MEMBERS, START_S, NodeServers, ProgramServers, Servers
from tests.processes.program import Program
from tests.processes.waiting import wait_until


class _EtcdProtocol(Servers):
    def leader(self) -> int:
        def leading() -> list[int]:
            told = map(etcd_status, self.addresses)
            return [number for number, one in enumerate(told) if one and one["leader"] == one["header"]["member_id"]]

        return wait_until(leading, timeout_s=START_S, what="a leader", pause_s=0.1)[0]

    def wait_serving(self, numbers: Sequence[int]) -> None:
        """An open port is not enough: each of them knows a leader."""
        wait_until(
            lambda: all(etcd_status(self.addresses[number]).get("leader", "0") != "0" for number in numbers),
            timeout_s=START_S,
            what=lambda: f"servers {numbers} of {self.addresses} to serve\n{self.logs()}",
            pause_s=0.1,
        )


class EtcdServers(_EtcdProtocol, ProgramServers):
    """A real cluster."""

    name = "etcd"

    def __init__(self, folder: Path, *, members: int = MEMBERS) -> None:
        super().__init__(folder, members=members)
        folder.mkdir(parents=True)
        peers = {f"n{number}": f"127.0.0.1:{self.ports[members + number]}" for number in range(members)}
        self.programs = [
            Program(etcd_command(name, folder / name, address, peers), log=folder / f"{name}.log")
            for name, address in zip(peers, self.addresses, strict=True)
        ]


class EtcdNodes(NodeServers, _EtcdProtocol):
    """Nodes of raftmeta whose door for etcd's clients is open. settings: of Config."""

    door = "etcd_listen"
    defaults = {}
    leader = _EtcdProtocol.leader
    wait_serving = _EtcdProtocol.wait_serving


ETCD_KINDS: dict[str, type[EtcdServers] | type[EtcdNodes]] = {"etcd": EtcdServers, "door": EtcdNodes}
