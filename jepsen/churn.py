"""A worker group whose members come and go, and whose nodes fail: python -m jepsen churn --members 100 --time 600.

Strikes come one after the other, each on what the one before left whole:

    members    some are killed, or frozen for longer than their session, and come back
    nodes      the leader is killed, a node is closed and started again, a host holds the GIL of the leader's process

After each strike every resource has one owner, and each owner is a member that lives. A strike on nodes alone must not
make a new generation: no session ended, so nobody has a reason to rebalance. Members write to their resources all the
time, and a recorder in each of their processes writes down what the store accepted: jepsen/observed.py judges it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from rich.console import Console

from jepsen import worker
from jepsen.db import CLUSTER, WaitFailed
from jepsen.observed import broken_rules
from jepsen.plan import Plan
from jepsen.stage import Stage
from jepsen.store import RunFolder
from jepsen.workers import Slot
from jepsen.workloads.workers import Churn
from raftmeta.assignors import OwnCodec
from tests.processes.child import hold_gil
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess

PER_PROCESS = 5  # members
PERIOD_S = 2.0  # between two writes of one member
COMPLETE_S = 90.0
GIL_S = 3.0
LOOK_S = 0.2
ASK_S = 10.0
GROUP = f"{Churn.name}/0/group"
CODEC = OwnCodec()


async def look(program: Any, group: str) -> dict[str, Any]:
    """Called in a broker: the group as a quorum knows it, with the resources of each member."""
    found = await program.face.groups.describe(group, timeout_s=ASK_S)
    if found is None:
        return {"state": "Dead", "generation": 0, "owners": {}}
    owners = {
        member.member_id: CODEC.decode_assignment(member.assignment)[0] if member.assignment else ()
        for member in found.members
    }
    return {"state": found.state, "generation": found.generation, "owners": {id: list(owners[id]) for id in owners}}


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
    """The findings of a run. times_s: until the group was complete after each kind of strike."""

    strikes: int = 0
    generations: int = 0
    spurious: int = 0
    times_s: dict[str, list[float]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class _Churn:
    def __init__(
        self, stage: Stage, folder: RunFolder, members: int, random: Random, say: Callable[[str], None]
    ) -> None:
        self._stage = stage
        self._folder = folder
        self._random = random
        self._say = say
        self.found = Churned()
        count = -(-members // PER_PROCESS)
        self._processes = [self._process(f"m{number + 1}", [*range(members)][number::count]) for number in range(count)]
        self._slots = {one.name: len(one.arguments[0]["slots"]) for one in self._processes}
        self._strikes: dict[str, Callable[[], None]] = {
            "kill-members": self._kill_members,
            "kill-leader": self._kill_leader,
            "freeze-members": self._freeze_members,
            "hold-gil": self._hold_gil,
            "restart-node": self._restart_node,
        }

    def _process(self, name: str, numbers: Sequence[int]) -> RemoteProcess:
        network = self._stage.cluster.network
        settings = {
            "name": name,
            "url": "raft://" + ",".join(network.client_address(node) for node in self._stage.cluster.founders),
            "doors": None,
            "cluster": CLUSTER,
            "tls": None,
            "password_file": None,
            "slots": [asdict(Slot(Churn.name, number, 0, PERIOD_S, 60.0)) for number in numbers],
            "spools": str(self._folder.spools),
            "t0_ns": self._folder.t0_ns,
            "seed": 1,
            "life": 1,
        }
        log = self._folder.path / "nodes" / f"{name}.log"
        return RemoteProcess(worker.live, settings, log=log, launcher=network.launcher(""))

    # --- what is seen -------------------------------------------------------------------------------------------------
    def look(self) -> dict[str, Any]:
        """The group by the word of any broker that can be asked. Raises WaitFailed."""

        def asked() -> dict[str, Any] | None:
            for name in self._stage.cluster.answering():
                try:
                    found: dict[str, Any] = self._stage.cluster.nodes[name].call(look, GROUP, timeout_s=2 * ASK_S)
                    return found
                except (ProcessGone, RemoteError, TimeoutError):
                    continue
            return None

        found: dict[str, Any] = self._stage.cluster.wait_for(asked, "somebody who knows the group")
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
            time.sleep(LOOK_S)

    @property
    def _alive(self) -> list[RemoteProcess]:
        return [one for one in self._processes if one.is_alive]

    def _members(self) -> int:
        return sum(self._slots[one.name] for one in self._alive)

    # --- strikes ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        for process in self._processes:
            process.begin_start()
        self.complete(self._members())

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

    def _kill_members(self) -> None:
        struck = self._some()
        for process in struck:
            process.kill()
        self.complete(self._members())
        for process in struck:
            process.arguments[0]["life"] += 1
            process.begin_start()
        self.complete(self._members())

    def _freeze_members(self) -> None:
        struck = self._some()
        gone = sum(self._slots[one.name] for one in struck)
        for process in struck:
            process.pause()
        try:
            self.complete(self._members() - gone)
        finally:
            for process in struck:
                process.resume()
        self.complete(self._members())

    def _kill_leader(self) -> None:
        cluster = self._stage.cluster
        leader = cluster.wait_for(cluster.leader, "a leader")
        with _Quiet(self, f"{leader} was killed"):
            cluster.nodes[leader].kill()
            cluster.wait_for(cluster.leader, "another leader")
            cluster.start(leader)
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
        self._before = self._churn.complete(self._churn._members())

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None:
            return
        after = self._churn.complete(self._churn._members())
        if after["generation"] != self._before["generation"]:
            self._churn.found.spurious += 1
            self._churn.found.reasons.append(
                f"spurious rebalance: {self._what}, and generation {self._before['generation']} became "
                f"{after['generation']}"
            )


def churn(plan: Plan, console: Console, *, members: int) -> tuple[RunFolder, Churned]:
    """Let members and nodes of one group fail for plan.time_s; what was found is also kept in the run's folder."""
    folder = RunFolder(plan.store, workload=Churn.name, nemesis="churn", seed=plan.seed)
    with Stage(plan, folder) as stage:
        stage.cluster.start_all()
        run = _Churn(
            stage, folder, members, Random(f"{plan.seed} churn"), lambda line: console.print(line, markup=False)
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
    facts = {"members": members, "accepted_writes": accepted, **asdict(run.found)}
    (folder.path / "churn.json").write_text(json.dumps(facts, indent=2) + "\n")
    return folder, run.found
