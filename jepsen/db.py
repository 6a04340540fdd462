"""The system under test: brokers (jepsen/broker.py) that form a cluster, each a process of its own where the network
puts it.

It starts, stops and kills, and tells how things stand. It never decides when (jepsen/nemesis.py) or whether that is
allowed (jepsen/atlas.py). Tools that stand between a broker and its world hook in before it starts:

    node.folder        where its data is: the mount point of a disk image, say
    node.environment   of its process: LD_PRELOAD and what a shim reads
    cluster.routes     {(source, target): "host:port"} where a source reaches a target, instead of directly: a proxy
    cluster.resource   something that several of them share; made once, and taken down with the cluster
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from jepsen import broker
from jepsen.cgroup import Group
from jepsen.keeper import Keeper
from jepsen.network import Direction, Network
from jepsen.papers import Papers
from jepsen.workers import Slot
from tests.processes.leading import leader_of
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess
from tests.processes.waiting import wait_until

CLUSTER = "jepsen"
WAIT_S = 30.0
END_S = 10.0
LOOK_S = 0.01
REPORT_FRESH_S = 1.0
# Small segments and snapshots, so that segments roll, the log is truncated and members are caught up by snapshot all
# the time; the time-outs are the defaults.
SETTINGS = {
    "segment_bytes": 256 * 1024,
    "wal_bytes_max": 64 * 1024 * 1024,
    "snapshot_log_bytes": 512 * 1024,
    "snapshot_entries": 2_000,
    "history_bytes_max": 8 * 1024 * 1024,
    "reserve_bytes": 1024 * 1024,
    "insecure": True,  # namespaces of the run are no loopback
}

Resource = TypeVar("Resource", bound=contextlib.AbstractContextManager[Any])


class WaitFailed(Exception):
    """Something that had to come about did not, within its time."""


class BrokerProcess(RemoteProcess):
    """One broker, over all its lives. folder: of its data. is_paused: stopped or frozen by a nemesis."""

    def __init__(self, name: str, *, run: Path, launcher: Sequence[str], data: Path) -> None:
        super().__init__(broker.live, log=run / "nodes" / f"{name}.log", launcher=launcher)
        self.folder = data / name

    @property
    def is_answering(self) -> bool:
        return self.is_alive and not self.is_paused and self.report_age_s < REPORT_FRESH_S

    def close(self, *, timeout_s: float = WAIT_S) -> None:
        """The quiet end: the node is closed, then its process ends."""
        self.is_ended = True
        with contextlib.suppress(ProcessGone, RemoteError, TimeoutError):
            self.call(broker.close, timeout_s=timeout_s)
        self.end(timeout_s=END_S)


class Brokers:
    """All brokers. As a context it leaves no process, control group or resource behind.

    keeper: takes away what is made. id: of the run, for the names of that. run: its folder. founders: the members that
    it begins with; spares: names that membership changes may add; observers: nodes without a place in the membership.
    data: where the brokers keep their folders.
    settings: of raftmeta.Config. slots: of the callers inside each broker. papers: of a secure run; None: it is plain.
    lies: mistakes that every broker makes (jepsen/broker.py). doors: protocols of the doors that each broker has.
    clients: processes that ask from outside.
    """

    def __init__(
        self,
        network: Network,
        keeper: Keeper,
        *,
        id: str,
        run: Path,
        founders: Sequence[str],
        spares: Sequence[str],
        data: Path,
        settings: Mapping[str, Any],
        slots: Mapping[str, Sequence[Slot]],
        t0_ns: int,
        seed: int,
        papers: Papers | None = None,
        lies: Sequence[str] = (),
        doors: Collection[str] = (),
        observers: Sequence[str] = (),
    ) -> None:
        self._doors = frozenset(doors)
        self.papers = papers
        self.clients: list[RemoteProcess] = []
        self._lies = list(lies)
        self.network = network
        self.keeper = keeper
        self.founders = tuple(founders)
        self.spares = tuple(spares)
        self.observers = tuple(observers)
        self.nodes = {
            name: BrokerProcess(name, run=run, launcher=network.launcher(name), data=data)
            for name in (*founders, *spares, *observers)
        }
        self.routes: dict[Direction, str] = {}
        self.id = id
        self._groups: dict[str, Group] = {}
        self._run = run
        self._settings = dict(settings)
        self._slots = slots
        self._t0_ns = t0_ns
        self._seed = seed
        self._stack = contextlib.ExitStack()
        self._resources: dict[Callable[..., Any], Any] = {}
        self._lock = threading.RLock()
        self._voters = self.founders

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_error: object) -> None:
        for group in self._groups.values():
            group.thaw()  # what is frozen does not even die
        for node in self.nodes.values():
            node.begin_kill()
        for node in self.nodes.values():
            node.kill()
        self._stack.close()

    def resource(self, make: Callable[[Brokers], Resource]) -> Resource:
        """What make(cluster) returns, entered as a context; made by the first call and left with the cluster."""
        with self._lock:
            if make not in self._resources:
                self._resources[make] = self._stack.enter_context(make(self))
            found: Resource = self._resources[make]
            return found

    def group(self, name: str) -> Group:
        """The control group of a broker; made by the first call and removed with the cluster."""
        with self._lock:
            if name not in self._groups:
                self._groups[name] = Group(f"{self.id}-{name}", self.keeper)
            return self._groups[name]

    # --- doing --------------------------------------------------------------------------------------------------------
    def start(self, name: str, *, peers: Iterable[str] | None = None) -> None:
        """Start a broker, for the first time or again. peers: those it is told of; by default the founders.

        A spare that is not one of them waits to be added. Returns before it is ready.
        """
        node = self.nodes[name]
        is_observer = name in self.observers
        known = {name, *(self.founders if peers is None else peers)}
        seeds = {*self.founders, *self.observers} - {name} if is_observer else set()
        node.arguments = (
            {
                "name": name,
                "role": "observer" if is_observer else "member",
                "peers": None if is_observer else {peer: self.reach(name, peer) for peer in sorted(known)},
                "seeds": [f"{seed}={self.reach(name, seed)}" for seed in sorted(seeds)],
                "listen": self.network.address(name),
                "client_listen": self.network.client_address(name),
                "doors": {f"{one}_listen": self.network.door_address(name, one) for one in sorted(self._doors)},
                "folder": str(node.folder),
                "cluster": CLUSTER,
                "config": self._settings,
                "tls": self.papers and self.papers.tls("node", name),
                "key_file": self.papers and str(self.papers.key_file),
                "lies": self._lies,
                "slots": [asdict(slot) for slot in self._slots.get(name, ())],
                "spools": str(self._run / "spools"),
                "t0_ns": self._t0_ns,
                "seed": self._seed,
                "life": node.life + 1,
            },
        )
        node.begin_start()

    def reach(self, source: str, target: str) -> str:
        """Where a source finds a target: "host:port"."""
        return self.routes.get((source, target), self.network.address(target))

    def start_all(self) -> None:
        """Start all founders and observers, and wait until the cluster is there."""
        for names in (self.founders, self.observers):
            for name in names:
                self.start(name)
            for name in names:
                self.wait_ready(name)

    def ask(self, verb: str, *, arguments: dict[str, Any], timeout_s: float = WAIT_S) -> Any:
        """Call a verb about members on the leader if there is one, else on any member that answers.

        Raises RemoteError, ProcessGone, TimeoutError; WaitFailed when nobody answers.
        """
        asked = self.leader() or next((name for name in self.answering() if name not in self.observers), None)
        if asked is None:
            raise WaitFailed(f"{verb}: no member answers")
        return self.nodes[asked].call(broker.ask, verb, arguments, timeout_s=timeout_s)

    # --- asking -------------------------------------------------------------------------------------------------------
    def answering(self) -> list[str]:
        """Brokers that run and have lately said something of themselves."""
        return [name for name, node in self.nodes.items() if node.is_answering]

    def voters(self) -> tuple[str, ...]:
        """The voting members, as the broker that has applied most knows them; before the first answer: the founders."""
        reports = [self.nodes[name].report for name in self.answering()]
        latest: dict[str, Any] = max(reports, key=lambda report: report["applied"], default={"members": []})
        found = tuple(member["name"] for member in latest["members"] if member["role"] == "voter")
        if found:
            self._voters = found
        return self._voters

    def leader(self) -> str | None:
        """The one that leads by its own word and that of a majority of the voters, in one term."""
        return leader_of({name: self.nodes[name].report for name in self.answering()}, self.voters())

    def leads(self, name: str) -> bool:
        """Whether that one is the leader."""
        return self.leader() == name

    def crashed(self) -> list[str]:
        """Brokers whose process ended although nobody ended it."""
        return [name for name, node in self.nodes.items() if node.has_crashed]

    # --- waiting ------------------------------------------------------------------------------------------------------
    def wait_for(
        self, condition: Callable[[], Any], what: str | Callable[[], str], *, timeout_s: float = WAIT_S
    ) -> Any:
        """The first true value of condition(). Raises WaitFailed, with how things stand, after timeout_s."""
        return wait_until(
            condition,
            timeout_s=timeout_s,
            what=lambda: f"{what() if callable(what) else what}\n{self.describe()}",
            failure=WaitFailed,
            pause_s=LOOK_S,
        )

    def wait_ready(self, name: str, *, timeout_s: float = WAIT_S) -> None:
        """Until a broker serves: it knows a leader and has caught up."""
        node = self.nodes[name]
        self.wait_for(lambda: node.is_answering and node.report["is_ready"], f"{name} to be ready", timeout_s=timeout_s)

    def wait_converged(self, *, timeout_s: float = WAIT_S) -> None:
        """Until all voters and observers answer, are ready and have applied the same, with the same state."""

        def is_converged() -> bool:
            names = (*self.voters(), *self.observers)
            reports = [self.nodes[name].report for name in names if self.nodes[name].is_answering]
            if len(reports) < len(names) or not all(report["is_ready"] for report in reports):
                return False
            return len({(report["applied"], report["state_hash"]) for report in reports}) == 1

        self.wait_for(is_converged, "all members to have the same state", timeout_s=timeout_s)

    def describe(self) -> str:
        """How every broker sees itself, for people."""
        words = ("state", "is_ready", "role", "term", "leader", "committed", "applied", "last", "state_hash")
        lines = []
        for name, node in self.nodes.items():
            if node.life == 0:
                continue
            stands = "paused" if node.is_paused else "runs" if node.is_alive else f"ended {node.exit_code}"
            told = " ".join(f"{word}={node.report.get(word)}" for word in words)
            lines.append(f"{name}: {stands}, life {node.life}, said {node.report_age_s:.1f} s ago: {told}")
        return "\n".join(lines)
