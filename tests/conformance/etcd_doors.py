"""Three nodes of raftmeta with etcd doors as processes, in the place of three real etcd servers (etcd_cluster)."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.etcd_cluster import EtcdCluster

PYTHON = "import sys; from raftmeta.cli import main; sys.exit(main())"


class EtcdDoors(EtcdCluster):
    """A port for clients and one for peers each, as EtcdCluster."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.etcd_doors"

    def command(self, number: int, data: Path) -> list[str]:
        client, peer = (f"127.0.0.1:{port}" for port in self.ports[number])
        peers = [f"--peer=n{one}=127.0.0.1:{ports[1]}" for one, ports in self.ports.items()]
        own = [f"--name=n{number}", f"--data={data / 'data'}", f"--listen={peer}", f"--etcd={client}"]
        return [sys.executable, "-c", PYTHON, "serve", *own, *peers]


if __name__ == "__main__":
    EtcdDoors(Path(sys.argv[1])).main(sys.argv[2])
