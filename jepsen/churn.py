"""A worker group whose members come and go, and whose nodes fail: python -m jepsen churn --members 100 --time 600.

Strikes come one after the other, each on what the one before left whole:

    members    some are killed, or frozen or cut off for longer than their session, and come back
    nodes      the leader is killed or cut off from the others, a node is closed and started again, a host holds the GIL
               of the leader's process
    in a phase the same of members, and a kill of the leader, as soon as the group is seen to join or to sync

After each strike every resource has one owner, and each owner is a member that lives. A strike on nodes alone must not
make a new generation: no session ended, so nobody has a reason to rebalance. Members write to their resources all the
time, and a recorder in each of their processes writes down what the store accepted: jepsen/observed.py judges it.

Members are those of raftmeta.workers, or consumers of Kafka through the doors of the nodes (KafkaChurn).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from random import Random
from typing import Any

from rich.console import Console

from jepsen import worker
from jepsen.db import CLUSTER, WaitFailed
from jepsen.network import Direction, Namespaces
from jepsen.observed import broken_rules
from jepsen.plan import Plan
from jepsen.stage import Stage
from jepsen.store import RunFolder
from jepsen.workers import Slot
from jepsen.workloads import CHURNS
from jepsen.workloads.workers import Churn
from tests.processes.child import hold_gil
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess

PER_PROCESS = 10  # members
PROCESSES_MIN = 2  # one can be struck, and others take over
PERIOD_S = 2.0  # between two writes of one member
COMPLETE_S = 120.0
GIL_S = 3.0
LOOK_S = 0.2
ASK_S = 10.0
SETTLED_S = 2.0  # a group that stays in one generation for so long has no rebalance before it
CATCH_S = 3.0
CATCH_LOOK_S = 0.001
CATCHES = 10  # attempts to see the group in a phase
PHASES = {"join": "Preparing", "sync": "Completing"}


async def look(program: Any, kind: str) -> dict[str, Any]:
    """Called in a broker: the group of this workload as a quorum knows it, with the resources of each member."""
    found = await program.face.groups.describe(group_of(kind), timeout_s=ASK_S)
    if found is None:
        return {"state": "Dead", "generation": 0, "owners": {}}
    owners = {member.member_id: list(CHURNS[kind].owned(member.assignment)) for member in found.members}
    return {"state": found.state, "generation": found.generation, "owners": owners}


async def catch(program: Any, kind: str, state: str, timeout_s: float = CATCH_S) -> bool:
    """Called in a broker: whether the group is seen in this state within that time, as the node has applied it."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        counts = await program.face.groups.counts(group_of(kind), local=True, timeout_s=ASK_S)
        if counts.states.get(state):
            return True
        await asyncio.sleep(CATCH_LOOK_S)
    return False


async def rejoin(program: Any) -> None:
    """Called in a process with members: they ask for a new plan."""
    for workload in program.workers.workloads:
        workload.rejoin()


def group_of(kind: str) -> str:
    """The name of a workload's group."""
    return f"{kind}/0/group"


def incomplete(seen: dict[str, Any], members: int) -> str | None:
    """The fault of a group that look() saw; None: so many members own every resource, each resource once."""
    owned = [resource for owned in seen["owners"].values() for resource in owned]
    told = f"{seen['state']}, generation {seen['generation']}"
    if seen["state"] != "Stable":
        return told
    if len(seen["owners"]) != members:
        return f"{told}, {len(seen['owners'])} members instead of {members}"
    if sorted(owned) != list(Churn.resources):
        return f"{told}, {len(owned)} resources are owned, {len(set(owned))} of {len(Churn.resources)} different ones"
    return None


@dataclass(slots=True)
class Churned:
    """The findings of a run. times_s: until the group was complete after each kind of strike. left_out: kinds of
    strikes that this machine does not allow. missed: times that a group passed a phase unseen.
    """

    strikes: int = 0
    generations: int = 0
    spurious: int = 0
    missed: int = 0
    left_out: list[str] = field(default_factory=list)
    times_s: dict[str, list[float]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class _Churn:
    def __init__(
        self,
        stage: Stage,
        folder: RunFolder,
        names: Sequence[str],
        kind: type[Churn],
        members: int,
        random: Random,
        environment: Mapping[str, str],
        strikes: Collection[str],
        say: Callable[[str], None],
    ) -> None:
        """names: of the processes that have the members."""
        self._stage = stage
        self._folder = folder
        self._kind = kind
        self._environment = environment
        self._random = random
        self._say = say
        self.found = Churned()
        self._processes = [
            self._process(name, [*range(members)][number :: len(names)]) for number, name in enumerate(names)
        ]
        self._slots = {one.name: len(one.arguments[0]["slots"]) for one in self._processes}
        ways = ("kill", "freeze", "cut")
        self._strikes: dict[str, Callable[[], None]] = {
            **{f"{way}-members": partial(self._strike_members, way) for way in ways},
            "kill-leader": self._kill_leader,
            "cut-leader": self._cut_leader,
            "hold-gil": self._hold_gil,
            "restart-node": self._restart_node,
            **{f"{way}-in-{phase}": partial(self._strike_members, way, phase) for phase in PHASES for way in ways},
            **{f"kill-leader-in-{phase}": partial(self._kill_leader_in, phase) for phase in PHASES},
        }
        self._strikes = {name: one for name, one in self._strikes.items() if not strikes or name in strikes}
        if not isinstance(stage.cluster.network, Namespaces):
            self.found.left_out = [name for name in self._strikes if name.startswith("cut-")]
            self._strikes = {name: one for name, one in self._strikes.items() if name not in self.found.left_out}

    def _process(self, name: str, numbers: Sequence[int]) -> RemoteProcess:
        cluster = self._stage.cluster
        network = cluster.network
        doors = {
            "hosts": "",
            "is_local": True,
            "kafka": [network.door_address(one, "kafka") for one in cluster.founders],
        }
        settings = {
            "name": name,
            "url": "raft://" + ",".join(network.client_address(node) for node in cluster.founders),
            "doors": doors if self._kind.protocol else None,
            "cluster": CLUSTER,
            "tls": None,
            "password_file": None,
            "slots": [asdict(Slot(self._kind.name, number, 0, PERIOD_S, 60.0)) for number in numbers],
            "spools": str(self._folder.spools),
            "t0_ns": self._folder.t0_ns,
            "seed": 1,
            "life": 1,
        }
        log = self._folder.path / "nodes" / f"{name}.log"
        return RemoteProcess(
            worker.live, settings, log=log, launcher=network.launcher(name), environment=self._environment
        )

    # --- what is seen -------------------------------------------------------------------------------------------------
    def look(self) -> dict[str, Any]:
        """The group by the word of any broker that can be asked. Raises WaitFailed."""

        def asked() -> dict[str, Any] | None:
            for name in self._stage.cluster.answering():
                try:
                    node = self._stage.cluster.nodes[name]
                    found: dict[str, Any] = node.call(look, self._kind.name, timeout_s=2 * ASK_S)
                    return found
                except (ProcessGone, RemoteError, TimeoutError) as error:
                    refusals[name] = f"{type(error).__name__}: {error}"
            return None

        refusals: dict[str, str] = {}
        try:
            found: dict[str, Any] = self._stage.cluster.wait_for(
                asked, "somebody who knows the group", timeout_s=COMPLETE_S
            )
        except WaitFailed as error:
            raise WaitFailed(f"{error}\n{refusals}") from None
        return found

    def complete(self, members: int) -> dict[str, Any]:
        """Wait until so many members own every resource once. Raises WaitFailed: the last sight of the group."""
        end_s = time.monotonic() + COMPLETE_S
        while True:
            seen = self.look()
            if (lacking := incomplete(seen, members)) is None:
                return seen
            if time.monotonic() > end_s:
                raise WaitFailed(f"within {COMPLETE_S:g} s the group was not complete: {lacking}")
            self._check_members()
            time.sleep(LOOK_S)

    def settled(self) -> dict[str, Any]:
        """The same, and the group has stayed in one generation for a while. Raises WaitFailed."""
        end_s = time.monotonic() + COMPLETE_S
        seen = self.complete(self.members)
        while time.monotonic() < end_s:
            time.sleep(SETTLED_S)
            before, seen = seen, self.complete(self.members)
            if seen["generation"] == before["generation"]:
                return seen
        raise WaitFailed(f"within {COMPLETE_S:g} s the group did not stay in one generation: {seen['generation']}")

    def _catch(self, name: str) -> None:
        """Begin a new generation, and return when the group is seen in this phase of it. Raises WaitFailed."""
        cluster = self._stage.cluster
        for _ in range(CATCHES):
            self.complete(self.members)
            node = cluster.nodes[cluster.wait_for(lambda: next(iter(cluster.answering()), None), "a node")]
            caught = node.begin(catch, self._kind.name, PHASES[name])
            for process in self._alive:
                process.begin(rejoin)
            if caught.result(CATCH_S + ASK_S):
                return
            self.found.missed += 1
        raise WaitFailed(f"the group was never seen to {name}")

    def _check_members(self) -> None:
        """Raises WaitFailed when a process with members ended by itself."""
        for process in self._processes:
            if process.has_crashed:
                raise WaitFailed(f"{process.name} ended by itself ({process.exit_code})\n{process.log_tail()}")

    @property
    def _alive(self) -> list[RemoteProcess]:
        return [one for one in self._processes if one.is_alive]

    @property
    def members(self) -> int:
        """How many have a process that runs."""
        return sum(self._slots[one.name] for one in self._alive)

    # --- strikes ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        for process in self._processes:
            process.begin_start()
        self.complete(self.members)

    def run(self, time_s: float) -> None:
        """One strike after the other until the time is over."""
        end_s = time.monotonic() + time_s
        first = self.look()["generation"]
        while time.monotonic() < end_s:
            for name, strike in self._strikes.items():
                if time.monotonic() >= end_s and self.found.times_s.get(name):
                    continue  # each kind once at least
                begun_s = time.monotonic()
                strike()
                took_s = time.monotonic() - begun_s
                self.found.strikes += 1
                self.found.times_s.setdefault(name, []).append(took_s)
                self._say(f"{name}: complete after {took_s:.1f} s")
        self.found.generations = self.look()["generation"] - first

    def _some(self) -> list[RemoteProcess]:
        """A tenth of the processes with members, one at least, and never all."""
        count = min(max(1, len(self._processes) // 10), len(self._processes) - 1)
        return self._random.sample(self._processes, count)

    def _strike_members(self, way: str, phase: str = "") -> None:
        """Some are struck for longer than their session, and come back. phase: of a rebalance that is under way."""
        struck = self._some()
        left = self.members - sum(self._slots[one.name] for one in struck)
        if phase:
            self._catch(phase)
        try:
            self._hit(way, struck)
            self.complete(left)
        finally:
            self._mend(way, struck)
        self.complete(self.members)

    def _hit(self, way: str, struck: Sequence[RemoteProcess]) -> None:
        if way == "cut":
            nodes = self._stage.cluster.founders
            pairs = [(process.name, node) for process in struck for node in nodes]
            self._cut([*pairs, *((node, name) for name, node in pairs)])
        for process in struck:
            if way == "kill":
                process.begin_kill()
            elif way == "freeze":
                process.pause()

    def _mend(self, way: str, struck: Sequence[RemoteProcess]) -> None:
        if way == "cut":
            self._cut(())
        for process in struck:
            if way == "kill":
                process.kill()
                process.arguments[0]["life"] += 1
                process.begin_start()
            elif way == "freeze":
                process.resume()

    def _cut(self, directions: Sequence[Direction]) -> None:
        network = self._stage.cluster.network
        assert isinstance(network, Namespaces)
        network.cut(self, directions)

    def _kill_leader(self) -> None:
        with _Quiet(self, "the leader was killed"):
            self._replace_leader()

    def _replace_leader(self) -> None:
        cluster = self._stage.cluster
        leader = cluster.wait_for(cluster.leader, "a leader")
        cluster.nodes[leader].kill()
        cluster.wait_for(cluster.leader, "another leader")
        cluster.start(leader)
        cluster.wait_ready(leader)

    def _kill_leader_in(self, phase: str) -> None:
        self._catch(phase)
        self._replace_leader()
        self.complete(self.members)

    def _cut_leader(self) -> None:
        """Its members still reach it, and it reaches no other node."""
        cluster = self._stage.cluster
        leader = cluster.wait_for(cluster.leader, "a leader")
        others = [name for name in cluster.founders if name != leader]
        with _Quiet(self, f"{leader} was cut off from the other nodes"):
            self._cut([pair for other in others for pair in ((leader, other), (other, leader))])
            try:
                cluster.wait_for(lambda: cluster.leader() in others, "another leader")
            finally:
                self._cut(())
            cluster.wait_ready(leader)

    def _restart_node(self) -> None:
        cluster = self._stage.cluster
        name = self._random.choice(cluster.founders)
        with _Quiet(self, f"{name} was restarted"):
            cluster.nodes[name].close()
            cluster.start(name)
            cluster.wait_ready(name)

    def _hold_gil(self) -> None:
        cluster = self._stage.cluster
        leader = cluster.wait_for(cluster.leader, "a leader")
        with _Quiet(self, f"the GIL of {leader} was held for {GIL_S:g} s"):
            cluster.nodes[leader].begin(hold_gil, GIL_S).result(GIL_S + ASK_S)

    def end(self) -> None:
        for process in self._processes:
            process.begin_kill()
        for process in self._processes:
            process.kill()


class _Quiet:
    """A strike that is no reason to rebalance: the group is complete before and after it, in one generation."""

    def __init__(self, churn: _Churn, what: str) -> None:
        self._churn = churn
        self._what = what

    def __enter__(self) -> None:
        self._before = self._churn.settled()

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None:
            return
        after = self._churn.complete(self._churn.members)
        if after["generation"] != self._before["generation"]:
            self._churn.found.spurious += 1
            self._churn.found.reasons.append(
                f"spurious rebalance: {self._what}, and generation {self._before['generation']} became "
                f"{after['generation']}"
            )


def churn(
    plan: Plan,
    console: Console,
    *,
    members: int,
    kind: type[Churn] = Churn,
    strikes: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[RunFolder, Churned]:
    """Let members and nodes of one group fail for plan.time_s; what was found is also kept in the run's folder.

    kind: of the members (CHURNS). strikes: only these kinds; none: all. environment: variables of their processes.
    """
    folder = RunFolder(plan.store, workload=kind.name, nemesis="churn", seed=plan.seed)
    names = [f"m{number + 1}" for number in range(max(PROCESSES_MIN, -(-members // PER_PROCESS)))]
    doors = [kind.protocol] if kind.protocol else []
    with Stage(plan, folder, doors=doors, places=names) as stage:
        stage.cluster.start_all()
        run = _Churn(
            stage,
            folder,
            names,
            kind,
            members,
            Random(f"{plan.seed} churn"),
            environment or {},
            strikes,
            lambda line: console.print(line, markup=False),
        )
        try:
            run.start()
            run.run(plan.time_s)
        except WaitFailed as error:
            run.found.reasons.append(str(error))
        finally:
            stage.stop_asking()
            run.end()
            stage.kill_all()
    histories, observed = folder.gather(plan.models(), [])
    accepted = sum(row["kind"] == "fence_accepted" for row in observed)
    run.found.reasons += broken_rules(observed, histories)
    if not accepted:
        run.found.reasons.append("no member wrote anything")
    facts = {"kind": kind.name, "members": members, "accepted_writes": accepted, **asdict(run.found)}
    (folder.path / "churn.json").write_text(json.dumps(facts, indent=2) + "\n")
    return folder, run.found
