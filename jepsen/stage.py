"""What every run stands on: a network, a cluster of brokers, and processes that ask them. It leaves nothing behind.

It is taken down in the opposite order on every exit: the end, an error, Ctrl-C, SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jepsen import worker
from jepsen.broker import EXIT_NODE_STOPPED
from jepsen.db import CLUSTER, SETTINGS, Brokers
from jepsen.keeper import Keeper
from jepsen.network import Loopback, Namespaces, Network
from jepsen.plan import Plan
from jepsen.store import RunFolder
from jepsen.workers import Slot, stop_asking
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess

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


class Stage:
    """Makes the network and a cluster that does not run yet; start() brings brokers and clients to life."""

    def __init__(self, plan: Plan, folder: RunFolder, *, settings: Mapping[str, Any] = SETTINGS) -> None:
        self._plan = plan
        self._folder = folder
        self._settings = settings
        self._id = f"jep{os.getpid():x}"
        self._stack = contextlib.ExitStack()
        self.workers: list[RemoteProcess] = []

    def __enter__(self) -> Stage:
        with contextlib.ExitStack() as stack:
            stack.enter_context(terminated_in_order())
            keeper = stack.enter_context(Keeper())
            data = Path(tempfile.mkdtemp(prefix=f"{self._id}-"))
            keeper.announce("folder", data)
            network = self._network(keeper)
            network.make()
            self._outside, inside = self._plan.slots(self._folder.t0_ns)
            self.cluster = stack.enter_context(
                Brokers(
                    network,
                    keeper,
                    id=self._id,
                    run=self._folder.path,
                    founders=self._plan.founders,
                    spares=self._plan.spares,
                    data=data,
                    settings=self._settings,
                    slots=inside,
                    t0_ns=self._folder.t0_ns,
                    seed=self._plan.seed,
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        with undisturbed():
            self._stack.close()

    def _network(self, keeper: Keeper) -> Network:
        names = (*self._plan.founders, *self._plan.spares)
        missing = Namespaces.missing()
        return Namespaces(names, id=self._id, keeper=keeper) if missing is None else Loopback(names)

    @property
    def processes(self) -> list[RemoteProcess]:
        """Everything that has clients."""
        return [*self.workers, *self.cluster.nodes.values()]

    def start(self) -> None:
        """Found the cluster, then let the clients ask. Raises WaitFailed."""
        self.cluster.start_all()
        for number, slots in enumerate(self._outside, 1):
            self.workers.append(self._launch(f"c{number}", slots))

    def _launch(self, name: str, slots: Sequence[Slot]) -> RemoteProcess:
        network = self.cluster.network
        log = self._folder.path / "nodes" / f"{name}.log"
        settings = {
            "name": name,
            "url": "raft://" + ",".join(network.client_address(node) for node in self.cluster.nodes),
            "cluster": CLUSTER,
            "slots": [asdict(slot) for slot in slots],
            "spools": str(self._folder.spools),
            "t0_ns": self._folder.t0_ns,
            "seed": self._plan.seed,
            "life": 1,
        }
        process = RemoteProcess(worker.live, settings, log=log, launcher=network.launcher(""))
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
        gone = [*nodes, *(one for one in self.workers if not one.is_alive)]
        return [f"{one.name} ended by itself ({one.exit_code})\n{one.log_tail()}" for one in gone]

    def stop_asking(self) -> None:
        """Let what is under way end, and ask nothing new. Whoever does not answer is left to those who look for it."""
        for answer in [one.begin(stop_asking) for one in self.processes if one.is_alive]:
            with contextlib.suppress(ProcessGone, RemoteError, TimeoutError):
                answer.result(STOP_S)

    def kill_all(self) -> None:
        """End all processes; what they wrote down is complete then."""
        for one in self.processes:
            one.begin_kill()
        for one in self.processes:
            one.kill()
