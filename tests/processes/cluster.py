"""Nodes as processes: a cluster on loopback with a folder for each member, to be killed, paused and started again.

with Cluster(tmp_path) as cluster:
    cluster.nodes["a"].call(put, "key", b"value")
    cluster.leader(timeout_s=20).kill()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import raftmeta
from raftmeta import faults
from tests.processes.leading import leader_of
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess
from tests.processes.waiting import free_addresses, wait_until

# --- in the process of the node -------------------------------------------------------------------------------------


def open_node(
    name: str,
    peers: dict[str, str],
    folder: str,
    settings: dict[str, Any],
    listen: str | None = None,
    client_listen: str | None = None,
) -> raftmeta.Node:
    key_file = settings.pop("encryption_key_file", None)
    pki_folder = settings.pop("pki_folder", None)
    audit = settings.pop("audit", None)
    doors = {
        name: settings.pop(name) for name in ("zookeeper_listen", "kafka_listen", "etcd_listen") if settings.get(name)
    }
    node = raftmeta.Node(
        name,
        peers=peers,
        data_dir=folder,
        listen=listen,
        client_listen=client_listen,
        config=raftmeta.Config(**settings),
        encryption=raftmeta.Encryption(key_file=key_file) if key_file else None,
        tls=tls_of(Path(pki_folder) / "node" / name) if pki_folder else None,
        audit=raftmeta.Audit(folder=f"{folder}.audit", **audit) if audit is not None else None,
        **doors,
    )
    return node.start()


def tls_of(place: Path) -> raftmeta.Tls:
    """The files of a node or client in a folder of raftmeta.security.pki."""
    return raftmeta.Tls(
        certificate=place / "certificate.pem",
        key=place / "key.pem",
        authorities=place / "authorities.pem",
        revoked=place / "revoked.pem",
    )


def ready(node: raftmeta.Node, timeout_s: float) -> None:
    node.ready(timeout_s=timeout_s)


def status(node: raftmeta.Node) -> dict[str, Any]:
    return dataclasses.asdict(node.status())


def put(node: raftmeta.Node, key: str, value: bytes) -> int:
    return int(node.put(key, value))


def get(node: raftmeta.Node, key: str) -> bytes | None:
    """The value under key, linearizable; None without one."""
    record = node.get(key)
    return None if record is None else record.value


def cut_off(node: raftmeta.Node, peers: list[str]) -> None:
    """From now on the node and these peers hear nothing of each other; [] heals."""
    cut = faults.LinkFault(cut_to=True, cut_from=True)
    faults.set_link_faults(node, dict.fromkeys(peers, cut))


def close(node: raftmeta.Node) -> None:
    node.close()


# --- here -----------------------------------------------------------------------------------------------------------


def key_file(path: Path) -> str:
    """Make a key file with one new key; its path."""
    path.write_text(raftmeta.Encryption.new_key().hex() + "\n")
    path.chmod(0o600)
    return str(path)


START_S = 60.0  # of a process, on a busy machine


class NodeProcess(RemoteProcess):
    """One member. The calls are the functions above, or any other function of a module that takes the node first.

    folder: the data is in a folder of the member's name below. logs: where its log is, by default there too. listen:
    where it listens, if not at its address among the peers. client_listen: for clients. environment: of the process.
    """

    def __init__(
        self,
        name: str,
        *,
        peers: Mapping[str, str],
        folder: Path,
        settings: Mapping[str, Any],
        logs: Path | None = None,
        listen: str | None = None,
        client_listen: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder / name
        super().__init__(
            open_node,
            *(name, dict(peers), str(self.folder), dict(settings), listen, client_listen),
            log=(logs or folder) / f"{name}.log",
            environment=environment,
        )

    def status(self) -> dict[str, Any] | None:
        """What the node says of itself; None when it does not answer."""
        try:
            found: dict[str, Any] = self.call(status, timeout_s=2)
        except (ProcessGone, RemoteError, TimeoutError):
            return None
        return found

    def close(self, *, timeout_s: float = 20.0) -> None:
        """The quiet end: the node is closed, then its process."""
        self.call(close, timeout_s=timeout_s)
        assert self.end(timeout_s=timeout_s) == 0, self.log_tail()


class Cluster:
    """Members that know each other, on free ports; the context starts them and leaves no process behind.

    clients: where each listens for clients, if serves_clients; url: of all of them. settings: of Config; and
    encryption_key_file, the path of a key file as text; pki_folder, where certificates of all members are; and audit,
    settings of Audit but for the folder, which is beside the data and ends with `.audit`.
    """

    def __init__(
        self, folder: Path, *, names: Sequence[str] = ("a", "b", "c"), serves_clients: bool = False, **settings: Any
    ) -> None:
        addresses = free_addresses(2 * len(names))
        self.peers = dict(zip(names, addresses, strict=False))
        self.clients = dict(zip(names, addresses[len(names) :], strict=True)) if serves_clients else {}
        self.url = "raft://" + ",".join(self.clients.values())
        self.nodes = {
            name: NodeProcess(
                name, peers=self.peers, folder=folder, settings=settings, client_listen=self.clients.get(name)
            )
            for name in names
        }

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start every member that does not run, all at once."""
        for begun in [node.begin_start() for node in self.nodes.values() if not node.is_alive]:
            begun.result(START_S)

    def wait_ready(self, *, timeout_s: float = 40.0) -> None:
        """Every running member is ready: it knows a leader and has caught up."""
        calls = [node.begin(ready, timeout_s) for node in self.nodes.values() if node.is_alive]
        for call in calls:
            call.result(timeout_s + 5)

    def kill(self) -> None:
        """SIGKILL for all, as a power cut that spares the disks."""
        for node in self.nodes.values():
            node.begin_kill()
        for node in self.nodes.values():
            node.kill()

    def leader(self, *, timeout_s: float = 30.0, other_than: str = "") -> NodeProcess:
        """The running member that leads and that a majority of members knows as the leader of its term."""

        def agreed() -> NodeProcess | None:
            told = {name: found for name, node in self.nodes.items() if node.is_alive and (found := node.status())}
            leader = leader_of(told, self.nodes)
            return None if leader in (None, other_than) else self.nodes[leader]

        return wait_until(agreed, timeout_s=timeout_s, what=lambda: f"a leader\n{self.logs()}")

    def followers(self, **options: Any) -> list[NodeProcess]:
        leader = self.leader(**options)
        return [node for node in self.nodes.values() if node is not leader and node.is_alive]

    def logs(self) -> str:
        """The end of each member's log, for a failure's message."""
        return "\n".join(f"--- {name}\n{node.log_tail()}" for name, node in self.nodes.items())
