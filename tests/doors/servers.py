"""Three servers that speak ZooKeeper's protocol on loopback: a real ensemble, or nodes of raftmeta with their door.

Every acceptance program runs on both: on the ensemble it proves itself, on the nodes it proves the door. The servers
are told apart only here.
"""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.doors.software import ZOOKEEPER, java
from tests.processes.cluster import Cluster, cut_off
from tests.processes.program import Program
from tests.processes.waiting import free_ports, wait_until

MEMBERS = 3
START_S = 90.0
ASK_S = 2.0
READ_ONLY = "read-only"
TICK_MS = 1000  # granted time-outs are 2 to 20 s
JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")


def four_letter(address: str, word: str) -> str:
    """What a server answers to a four-letter word; empty while it does not listen."""
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=ASK_S) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    except OSError:
        return ""


def mode_of(address: str) -> str:
    """leader, follower, observer, standalone, read-only (of a minority); empty while the server does not serve."""
    lines = four_letter(address, "srvr").splitlines()
    return next((line.split()[1] for line in lines if line.startswith("Mode:")), "")


class Servers(ABC):
    """A context of running servers, which leaves no process behind.

    addresses: where each serves ZooKeeper's clients. folder: of all that they write. can_be_cut_off: whether cut_off
    is known.
    """

    name: str
    can_be_cut_off = False

    def __init__(self, folder: Path, *, members: int = MEMBERS) -> None:
        self.folder = folder
        self.ports = free_ports(3 * members)
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports[:members]]

    @property
    def connect(self) -> str:
        """For clients: all addresses."""
        return ",".join(self.addresses)

    @abstractmethod
    def start_all(self) -> None: ...

    @abstractmethod
    def kill(self, number: int) -> None:
        """SIGKILL of one."""

    @abstractmethod
    def begin_restart(self, number: int) -> None:
        """Start one that was killed, without waiting until it serves."""

    def restart(self, number: int) -> None:
        """Start one that was killed; returns when it serves."""
        self.begin_restart(number)
        self.wait_serving([number])

    @abstractmethod
    def pause(self, number: int) -> None:
        """SIGSTOP of one."""

    @abstractmethod
    def resume(self, number: int) -> None: ...

    def cut_off(self, number: int) -> None:
        """One and the others hear nothing of each other. Clients still reach it. Raises NotImplementedError."""
        raise NotImplementedError(f"{self.name}: its servers cannot be cut off from each other")

    def heal(self, number: int) -> None:
        """Undo cut_off."""
        raise NotImplementedError(f"{self.name}: its servers cannot be cut off from each other")

    @abstractmethod
    def kill_all(self) -> None: ...

    @abstractmethod
    def pids(self) -> list[int]:
        """Of all servers that run."""

    def leader(self) -> int:
        """The number of the one that leads."""

        def leading() -> list[int]:
            modes = [mode_of(address) for address in self.addresses]
            return [number for number, mode in enumerate(modes) if mode in ("leader", "standalone")]

        return wait_until(leading, timeout_s=START_S, what="a leader", pause_s=0.1)[0]

    def wait_serving(self, numbers: Sequence[int]) -> None:
        """An open port is not enough: each of them says that it leads or follows."""
        wait_until(
            lambda: not {mode_of(self.addresses[number]) for number in numbers} & {"", READ_ONLY},
            timeout_s=START_S,
            what=lambda: f"servers {numbers} of {self.addresses} to serve\n{self.logs()}",
            pause_s=0.1,
        )

    @abstractmethod
    def logs(self) -> str:
        """The ends of the servers' logs."""

    def __enter__(self) -> Self:
        try:
            self.start_all()
            self.wait_serving(range(len(self.addresses)))
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_all()


class ProgramServers(Servers):
    """Servers that are programs of others. programs: one for each, by number."""

    programs: list[Program]

    def start_all(self) -> None:
        for program in self.programs:
            program.start()

    def kill(self, number: int) -> None:
        self.programs[number].kill()

    def begin_restart(self, number: int) -> None:
        self.programs[number].start()

    def pause(self, number: int) -> None:
        self.programs[number].pause()

    def resume(self, number: int) -> None:
        self.programs[number].resume()

    def kill_all(self) -> None:
        for program in self.programs:
            program.kill()

    def pids(self) -> list[int]:
        return [program.pid for program in self.programs if program.is_alive]

    def logs(self) -> str:
        return "\n".join(f"--- {program.log.name}\n{program.log_tail()}" for program in self.programs)


class ZooKeeperServers(ProgramServers):
    """A real ensemble; with one member a stand-alone server.

    settings: lines of zoo.cfg. properties: Java system properties. class_path: of the server, by default from Maven.
    """

    name = "zookeeper"

    def __init__(
        self,
        folder: Path,
        *,
        members: int = MEMBERS,
        settings: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        class_path: str | None = None,
        heap: str = "256m",
        java_options: Sequence[str] = JAVA,
    ) -> None:
        super().__init__(folder, members=members)
        shared = {
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 10,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            "extendedTypesEnabled": "true",
            "reconfigEnabled": "true",  # as kazoo's own suite has it; without it every reconfig is "disabled"
            **(settings or {}),
        }
        for number in range(members if members > 1 else 0):
            ports = self.ports[members + number], self.ports[2 * members + number]
            shared[f"server.{number + 1}"] = f"127.0.0.1:{ports[0]}:{ports[1]}"
        options = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        options.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        self.programs = []
        for number, port in enumerate(self.ports[:members]):
            data = folder / f"zookeeper{number}"
            data.mkdir(parents=True)
            (data / "myid").write_text(str(number + 1))
            own = {"dataDir": data, "clientPort": port, "clientPortAddress": "127.0.0.1"}
            configuration = data / "zoo.cfg"
            configuration.write_text("".join(f"{name}={value}\n" for name, value in {**shared, **own}.items()))
            command = [java(), f"-Xmx{heap}", *java_options, *options, "-cp", class_path or ZOOKEEPER.class_path()]
            command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)]
            self.programs.append(Program(command, log=folder / f"zookeeper{number}.log"))


class NodeServers(Servers):
    """Nodes of raftmeta whose door for ZooKeeper's clients is open. settings: of Config.

    door: the setting of a node that opens its door. defaults: settings of Config for it.
    """

    name = "door"
    can_be_cut_off = True
    door = "zookeeper_listen"
    defaults: Mapping[str, Any] = {"zookeeper_tick_s": TICK_MS / 1000, "zookeeper_extended_types": True}

    def __init__(self, folder: Path, *, members: int = MEMBERS, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, members=members)
        names = [f"n{number}" for number in range(members)]
        self.cluster = Cluster(folder, names=names, **{**self.defaults, **(settings or {})})
        self.nodes = list(self.cluster.nodes.values())
        for node, address in zip(self.nodes, self.addresses, strict=True):
            name, peers, place, config, *listens = node.arguments
            node.arguments = (name, peers, place, {**config, self.door: address}, *listens)

    def start_all(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cluster.start()
        self.cluster.wait_ready()

    def kill(self, number: int) -> None:
        self.nodes[number].kill()

    def begin_restart(self, number: int) -> None:
        self.nodes[number].begin_start()

    def pause(self, number: int) -> None:
        self.nodes[number].pause()

    def resume(self, number: int) -> None:
        self.nodes[number].resume()

    def cut_off(self, number: int) -> None:
        self.nodes[number].call(cut_off, [node.name for node in self.nodes if node is not self.nodes[number]])

    def heal(self, number: int) -> None:
        self.nodes[number].call(cut_off, [])

    def kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.cluster.kill()

    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes if node.is_alive]

    def logs(self) -> str:
        return self.cluster.logs()


KINDS: dict[str, type[ZooKeeperServers] | type[NodeServers]] = {"zookeeper": ZooKeeperServers, "door": NodeServers}
