"""The network of a run: one namespace for each node, joined by a bridge in a namespace of its own. Nothing of it is the
machine's: no interface, address or rule of the machine itself is made or changed.

    hub ─ br0 ─┬─ veth ─ n1 (10.73.0.1)      clients run in the hub (10.73.0.254)
               ├─ veth ─ n2 (10.73.0.2)
               └─ ...

A direction is cut where it arrives, by a routing rule (`ip rule from <source> blackhole`) in the namespace of the
target, so that a cut is really one-way; the kernel counts what it throws away, which proves that a cut acted.
Connections that are open stay open, as over a cable that was pulled. Clients are never cut off.

Without root, or without iproute2, all nodes share the machine's loopback (Loopback), where nothing can be cut off; what
happens to frames there, the proxy of jepsen/faults does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from jepsen.keeper import Keeper
from tests.processes.waiting import free_ports

SUBNET = "10.73.0"
HUB_HOST = 254
PEER_PORT, CLIENT_PORT = 7000, 7100
DOOR_PORTS = {"zookeeper": 7200, "etcd": 7300, "kafka": 7400}  # by protocol
CUT_PREFERENCE = 10
LOCAL_PREFERENCE = 100  # of the rule that delivers to this host; the kernel's own stands in front of every other

Direction = tuple[str, str]  # (source, target), names of nodes


class NetworkError(Exception):
    """`ip` refused; the message says which command, and what it said."""


class Network(ABC):
    """Where the nodes of a run live."""

    @abstractmethod
    def address(self, name: str) -> str:
        """Where a node listens for peers: "host:port"."""

    @abstractmethod
    def client_address(self, name: str) -> str:
        """Where a node listens for clients: "host:port"."""

    @abstractmethod
    def door_address(self, name: str, protocol: str) -> str:
        """Where a node listens for clients of this protocol (DOOR_PORTS): "host:port"."""

    @abstractmethod
    def launcher(self, name: str) -> Sequence[str]:
        """What starts a process where a node lives; "" for the clients."""

    def make(self) -> None:  # noqa: B027  # the loopback is there
        """Make what is not there yet. Raises NetworkError."""


class Loopback(Network):
    """All nodes on 127.0.0.1, on free ports."""

    def __init__(self, names: Sequence[str]) -> None:
        each = 2 + len(DOOR_PORTS)
        ports = free_ports(each * len(names))
        self._peers = dict(zip(names, ports[::each], strict=True))
        self._clients = dict(zip(names, ports[1::each], strict=True))
        self._doors = {
            (name, protocol): port
            for place, protocol in enumerate(DOOR_PORTS, 2)
            for name, port in zip(names, ports[place::each], strict=True)
        }

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._peers[name]}"

    def client_address(self, name: str) -> str:
        return f"127.0.0.1:{self._clients[name]}"

    def door_address(self, name: str, protocol: str) -> str:
        return f"127.0.0.1:{self._doors[name, protocol]}"

    def launcher(self, name: str) -> Sequence[str]:
        return ()


class Namespaces(Network):
    """A namespace for each node. id: of the run; all names begin with it. Needs root and `ip`; goes with the keeper."""

    def __init__(self, names: Sequence[str], *, id: str, keeper: Keeper) -> None:
        self._id = id
        self._keeper = keeper
        self._hosts = {name: number for number, name in enumerate(names, 1)}
        self._lock = threading.Lock()
        self._cuts: set[Direction] = set()
        self._wanted: dict[object, frozenset[Direction]] = {}

    @staticmethod
    def missing() -> str | None:
        """Why namespaces cannot be made here, None if they can."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        if shutil.which("ip") is None:
            return "network namespaces need the command `ip` (Debian: apt-get install iproute2)"
        return None

    def address(self, name: str) -> str:
        return f"{self._host(name)}:{PEER_PORT}"

    def client_address(self, name: str) -> str:
        return f"{self._host(name)}:{CLIENT_PORT}"

    def door_address(self, name: str, protocol: str) -> str:
        return f"{self._host(name)}:{DOOR_PORTS[protocol]}"

    def launcher(self, name: str) -> Sequence[str]:
        return ("ip", "netns", "exec", self.namespace(name or "hub"))

    def namespace(self, name: str) -> str:
        """Of a node; "hub" is where the bridge and the clients are."""
        return f"{self._id}-{name}"

    def _host(self, name: str) -> str:
        return f"{SUBNET}.{self._hosts[name]}"

    def _mac(self, name: str) -> str:
        return f"02:72:61:66:74:{self._hosts[name]:02x}"

    def make(self) -> None:
        hub = self.namespace("hub")
        for name in ("hub", *self._hosts):
            self._keeper.announce("netns", self.namespace(name))
            run_ip("netns", "add", self.namespace(name))
        lines = [
            "link add br0 type bridge",
            "link set br0 up",
            "link set lo up",
            f"addr add {SUBNET}.{HUB_HOST}/24 dev br0",
        ]
        for name in self._hosts:
            lines += [
                f"link add v-{name} type veth peer name eth0 netns {self.namespace(name)} address {self._mac(name)}",
                f"link set v-{name} master br0 up",
            ]
        run_batch(hub, lines)
        for name in self._hosts:
            lines = ["link set lo up", f"addr add {self._host(name)}/24 dev eth0", "link set eth0 up"]
            # Known for good, so that a cut loses packets and not the question where to send them.
            others = [other for other in self._hosts if other != name]
            lines += [f"neigh add {self._host(one)} lladdr {self._mac(one)} dev eth0" for one in others]
            lines += [f"rule add preference {LOCAL_PREFERENCE} lookup local", "rule delete preference 0"]
            run_batch(self.namespace(name), lines)

    def cut(self, owner: object, directions: Iterable[Direction]) -> None:
        """Lose everything that these sources send to these targets; replaces what this owner had cut before.

        Several may cut at the same time: what any of them cuts is cut. Any thread may call it.
        """
        with self._lock:
            self._wanted[owner] = frozenset(directions)
            wanted = set().union(*self._wanted.values())
            lines: dict[str, list[str]] = {}
            for verb, changed in (("delete", self._cuts - wanted), ("add", wanted - self._cuts)):
                for source, target in sorted(changed):
                    rule = f"rule {verb} preference {CUT_PREFERENCE} from {self._host(source)} blackhole"
                    lines.setdefault(target, []).append(rule)
            for target, rules in lines.items():
                run_batch(self.namespace(target), rules)
            self._cuts = wanted

    def lost(self) -> int:
        """Packets thrown away by cuts since the beginning."""
        return sum(self._lost_at(name) for name in self._hosts)

    def _lost_at(self, name: str) -> int:
        """Ip InAddrErrors: packets that no route took in, which here are those of a blackhole rule."""
        found = subprocess.run(
            [*self.launcher(name), "cat", "/proc/net/snmp"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        words, numbers = (line.split() for line in found if line.startswith("Ip:"))
        return int(numbers[words.index("InAddrErrors")])


def run_ip(*arguments: str, input: str | None = None) -> None:
    """Run `ip`. Raises NetworkError."""
    done = subprocess.run(["ip", *arguments], input=input, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}\n{input or ''}")


def run_batch(namespace: str, lines: Sequence[str]) -> None:
    """Several commands of `ip` in one namespace."""
    run_ip("-n", namespace, "-batch", "-", input="\n".join(lines) + "\n")
