"""What every run stands on: a network, a cluster of brokers, and processes that ask them. It leaves nothing behind.

It is taken down in the opposite order on every exit: the end, an error, Ctrl-C, SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jepsen import broker, stranger, worker
from jepsen.broker import EXIT_NODE_STOPPED
from jepsen.db import CLUSTER, SETTINGS, Brokers
from jepsen.door_session import TICK_S
from jepsen.keeper import Keeper
from jepsen.network import Loopback, Namespaces, Network
from jepsen.papers import STRANGER, Papers
from jepsen.plan import ETCD, ZOOKEEPER, Plan
from jepsen.store import RunFolder
from jepsen.workers import Slot, stop_asking
from jepsen.workloads import WORKLOADS
from tests.processes.remote import Function, ProcessGone, RemoteError, RemoteProcess

RIGHTS_S = 60.0
STOP_S = 30.0  # for what is under way when clients are told to stop


@contextlib.contextmanager
def terminated_in_order() -> Iterator[None]:
    """SIGTERM ends the block as an exception, so that everything is taken down; as Ctrl-C does anyway."""

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C or SIGTERM does not keep the block, which is bounded in time, from its end."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _of_plan(plan: Plan) -> dict[str, Any]:
    """The settings of each broker that the plan asks for. Sessions with ZooKeeper doors are short."""
    secure = {"insecure": False} if plan.is_secure else {}
    doors = {"zookeeper_tick_s": TICK_S, "zookeeper_linearizable_reads": not plan.has_local_reads}
    return {**secure, **(doors if ZOOKEEPER in plan.doors else {})}


class Stage:
    """Makes the network and a cluster that does not run yet; start() brings brokers and clients to life.

    doors: of the brokers, beside those that the plan asks for. places: names beside those of the brokers, each with a
    network of its own where the machine allows it, for processes that may be cut off.
    """

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        *,
        settings: Mapping[str, Any] = SETTINGS,
        doors: Collection[str] = (),
        places: Sequence[str] = (),
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._doors = plan.doors | set(doors)
        self._places = tuple(places)
        self._settings = {**settings, **_of_plan(plan)}
        self._id = f"jep{os.getpid():x}"
        self._stack = contextlib.ExitStack()
        self.workers: list[RemoteProcess] = []
        self.stranger: RemoteProcess | None = None

    def __enter__(self) -> Stage:
        with contextlib.ExitStack() as stack:
            stack.enter_context(terminated_in_order())
            keeper = stack.enter_context(Keeper())
            data = Path(tempfile.mkdtemp(prefix=f"{self._id}-"))
            keeper.announce("folder", data)
            network = self._network(keeper)
            network.make()
            self._outside, inside = self._plan.slots(self._folder.t0_ns)
            papers = self._papers(data) if self._plan.is_secure else None
            self.cluster = stack.enter_context(
                Brokers(
                    network,
                    keeper,
                    id=self._id,
                    run=self._folder.path,
                    founders=self._plan.founders,
                    spares=self._plan.spares,
                    data=data,
                    settings={**self._settings, **self._of_doors(papers)},
                    slots=inside,
                    t0_ns=self._folder.t0_ns,
                    seed=self._plan.seed,
                    papers=papers,
                    lies=[self._plan.plant] if self._plan.plant else [],
                    doors=self._doors,
                    observers=self._plan.observing,
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        with undisturbed():
            self._stack.close()

    def _papers(self, data: Path) -> Papers:
        place = data / "papers"
        place.mkdir(mode=0o700)
        names = self._names
        clients = (*self._plan.clients, STRANGER)
        return Papers(
            place, cluster=CLUSTER, nodes=names, clients=clients, users=self._plan.workloads, seed=self._plan.seed
        )

    def _of_doors(self, papers: Papers | None) -> dict[str, Any]:
        """Who may prove a name by SASL, in a secure run."""
        has_login = papers is not None and ZOOKEEPER in self._plan.doors
        return {"zookeeper_users_file": str(papers.login_file)} if papers is not None and has_login else {}

    def _network(self, keeper: Keeper) -> Network:
        names = (*self._names, *self._places)
        missing = Namespaces.missing()
        return Namespaces(names, id=self._id, keeper=keeper) if missing is None else Loopback(names)

    @property
    def _names(self) -> tuple[str, ...]:
        """Of all brokers."""
        return (*self._plan.founders, *self._plan.spares, *self._plan.observing)

    @property
    def processes(self) -> list[RemoteProcess]:
        """Everything that has clients."""
        return [*self.workers, *self.cluster.nodes.values()]

    def start(self) -> None:
        """Found the cluster, then let the clients ask. Raises WaitFailed."""
        self.cluster.start_all()
        if self.cluster.papers is not None:
            self._set_rights(self.cluster.papers)
            self.stranger = self._launch(STRANGER, (), live=stranger.live)
        for name, slots in zip(self._plan.clients, self._outside, strict=True):
            self.workers.append(self._launch(name, slots))
        self.cluster.clients = self.workers

    def _set_rights(self, papers: Papers) -> None:
        """One user and one role for each workload, of its name. Returns when all members know.

        Doors ask for the user of a client's certificate, so each client process is one as well.
        """
        grants = {name: WORKLOADS[name].grants() for name in self._plan.workloads}
        certified = self._plan.clients if self._plan.doors else ()
        leader = self.cluster.wait_for(self.cluster.leader, "a leader")
        self.cluster.nodes[leader].call(broker.set_rights, papers.passwords, grants, certified, timeout_s=RIGHTS_S)
        for name in self.cluster.voters():  # which write already, so that reports of one moment seldom are alike
            self.cluster.nodes[name].call(broker.catch_up, timeout_s=RIGHTS_S)

    def _launch(self, name: str, slots: Sequence[Slot], *, live: Function = worker.live) -> RemoteProcess:
        network, papers = self.cluster.network, self.cluster.papers
        log = self._folder.path / "nodes" / f"{name}.log"
        settings = {
            "name": name,
            "url": "raft://" + ",".join(network.client_address(node) for node in self.cluster.nodes),
            "doors": {
                "hosts": ",".join(network.door_address(node, ZOOKEEPER) for node in self.cluster.nodes),
                "etcd": [network.door_address(node, ETCD) for node in self.cluster.nodes],
                "is_local": self._plan.has_local_reads,
                "tls": papers and papers.tls("client", name),
                "login": papers.login if papers else (),
            }
            if self._plan.doors
            else None,
            "cluster": CLUSTER,
            "tls": papers and papers.tls("client", name),
            "password_file": papers and str(papers.password_file),
            "slots": [asdict(slot) for slot in slots],
            "spools": str(self._folder.spools),
            "t0_ns": self._folder.t0_ns,
            "seed": self._plan.seed,
            "life": 1,
        }
        process = RemoteProcess(live, settings, log=log, launcher=network.launcher(""))
        self._stack.callback(process.kill)
        process.begin_start()
        return process

    def ended(self, *, may_halt: bool = False) -> list[str]:
        """Processes that ended although nobody ended them, with the end of their logs.

        may_halt: a broker may end because its node stopped, and keeps its files.
        """
        nodes = [self.cluster.nodes[name] for name in self.cluster.crashed()]
        if may_halt:
            nodes = [node for node in nodes if node.exit_code != EXIT_NODE_STOPPED]
        outside = [*self.workers, *([self.stranger] if self.stranger else [])]
        gone = [*nodes, *(one for one in outside if not one.is_alive)]
        return [f"{one.name} ended by itself ({one.exit_code})\n{one.log_tail()}" for one in gone]

    def stop_asking(self) -> None:
        """Let what is under way end, and ask nothing new. Whoever does not answer is left to those who look for it."""
        for answer in [one.begin(stop_asking) for one in self.processes if one.is_alive]:
            with contextlib.suppress(ProcessGone, RemoteError, TimeoutError):
                answer.result(STOP_S)

    def told_by_stranger(self) -> list[str]:
        """Answers that the client without rights got, keys that it left behind, and verbs that it never tried."""
        if self.stranger is None:
            return []
        denied = self.stranger.report.get("denied", {})
        reasons = [f"{STRANGER}: was never refused: {word}" for word, count in denied.items() if not count]
        reasons += [] if denied else [f"{STRANGER}: said nothing"]
        asked = next(iter(self.cluster.answering()), None)
        if asked is not None:
            found = self.cluster.nodes[asked].call(broker.find, STRANGER)
            reasons += [f"{STRANGER}: was refused, and wrote {key}" for key in found]
        return reasons

    def kill_all(self) -> None:
        """End all processes; what they wrote down is complete then."""
        ending = [*self.processes, *([self.stranger] if self.stranger else [])]
        for one in ending:
            one.begin_kill()
        for one in ending:
            one.kill()
