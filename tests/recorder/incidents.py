"""Incidents that are done to real processes on purpose, and whether `raftmeta explain` names their causes.

KINDS has ten of them. Each is done to the leader or to a follower of three members, and everything is whole again
afterwards. The records of all that happened then have to name the cause. One incident that is told is judged: of leader
changes that from the term in which the leader was struck, of others the longest one within the time of the strike. On a
busy machine more happens meanwhile. Of that too nothing may be called certain that is only ever done on purpose.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import raftmeta
from jepsen.faults import shim
from jepsen.faults.shim import Action, Calls
from raftmeta import explain as explaining
from raftmeta.explain import Explained, Incident
from raftmeta.explain import words as kinds
from raftmeta.explain.rings import read_ring
from tests.processes.cluster import Cluster, NodeProcess, close, cut_off, put
from tests.processes.remote import ProcessGone, RemoteError
from tests.processes.waiting import wait_until

WAIT_S = 40.0
SLOW_S = 0.6
PAUSE_NS = 200_000_000  # below the least election time-out: a pause that changed the leader was longer
STEP_S = 7.5
TTL_S = 60.0
LOOP, OWN = 0, 3  # parts of a ring: flight/ring FlightPart


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident. incident: as which kind it is told. text: in its cause, with {node} for who was struck.

    strike: do it to a node. heal: undo it; by then everybody must know. of_follower: who is struck. also: other deeds
    of DEEDS that strike and heal do to that node.
    """

    name: str
    incident: str
    text: str
    strike: Callable[[NodeProcess], None]
    heal: Callable[[NodeProcess], None]
    of_follower: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """judged: the incident that is judged, None: none is told. is_named: it names the cause.

    wrong: all that was called certain and is not true. is_void: the leader had changed before it was struck.
    """

    kind: str
    node: str
    judged: Incident | None
    is_named: bool
    wrong: tuple[Incident, ...]
    is_void: bool = False


# --- in the process of a node -----------------------------------------------------------------------------------------

HELD: list[raftmeta.Lease] = []  # as long as the process lives


def transfer(node: raftmeta.Node) -> None:
    node.transfer()


def hold_a_lease(node: raftmeta.Node) -> None:
    lease = node.lease(TTL_S)
    HELD.append(lease)
    node.put(f"held-by-{node.name}", b"", lease=lease)


def hold_the_gil(_node: raftmeta.Node, seconds: float) -> None:
    """One call into C after the other, each longer than the one before, until one took so long."""
    count, took_s = 5_000_000, 0.0
    while took_s < seconds:
        begun_s = time.monotonic()
        sum(range(count))
        took_s = time.monotonic() - begun_s
        count *= 2


# Words of a cause that nothing but a deed of these tests makes true.
DEEDS = (
    "{node}'s process was killed or crashed",
    "{node} was stopped in order",
    "{node} was asked to transfer",
    "{node} stopped by itself",
    "{node}'s process is gone",
    "the wall clock of {node}'s machine was set",
)
KILLED, STOPPED, _, _, GONE, _ = DEEDS


# --- the kinds --------------------------------------------------------------------------------------------------------


def page_of(node: NodeProcess) -> shim.Page:
    return shim.Page(node.folder.parent / f"{node.name}.page")


def nothing(_node: NodeProcess) -> None:
    pass


def resume(node: NodeProcess) -> None:
    """Its threads write the pause down as they go on."""
    begun_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    node.resume()

    def told() -> bool:
        pauses = [
            record.part
            for record in read_ring(node.folder).records
            if record.kind == kinds.PAUSE and record.b >= PAUSE_NS and record.wall_ns >= begun_ns
        ]
        return {LOOP, OWN} <= set(pauses)

    wait_until(told, timeout_s=WAIT_S, what="records of the pause")


def cut(node: NodeProcess) -> None:
    peers = node.arguments[1]
    node.call(cut_off, [name for name in peers if name != node.name])


def fail_disk(node: NodeProcess) -> None:
    page_of(node).strike(Calls.SYNC, Action.FAIL, path=".log", value=errno.EIO, count=1)
    with suppress(RemoteError, ProcessGone):
        node.call(put, "k", b"v")


def heal_disk(node: NodeProcess) -> None:
    page_of(node).end_all()
    node.call(close)
    node.end()


def slow_disk(node: NodeProcess) -> None:
    rule = page_of(node).strike(Calls.SYNC, Action.DELAY, path=".log", value=round(SLOW_S * 1e9))
    node.call(put, "k", b"v", timeout_s=WAIT_S)
    rule.end()


def seen_step(node: NodeProcess, step_s: float) -> None:
    """Set the clock; its recorder notices."""
    begun = sum(record.kind == kinds.CLOCK for record in read_ring(node.folder).records)
    page_of(node).set_wall_offset(step_s)
    wait_until(
        lambda: sum(record.kind == kinds.CLOCK for record in read_ring(node.folder).records) > begun,
        timeout_s=WAIT_S,
        what="the step of the clock",
    )


def kill_holder(node: NodeProcess) -> None:
    node.call(hold_a_lease, timeout_s=WAIT_S)
    node.kill()


KINDS = (
    Kind("kill", "leader_change", KILLED, NodeProcess.kill, nothing, also=(GONE,)),
    Kind("pause", "leader_change", "{node} was paused", NodeProcess.pause, resume),
    Kind("cut", "leader_change", "{node} heard no majority", cut, lambda node: node.call(cut_off, [])),
    Kind("transfer", "leader_change", "{node} was asked to transfer", lambda node: node.call(transfer), nothing),
    Kind("stop", "leader_change", STOPPED, NodeProcess.close, nothing, also=(GONE,)),
    Kind(
        "disk-error",
        "leader_change",
        "{node} stopped by itself: its disk failed (sync",
        fail_disk,
        heal_disk,
        also=(STOPPED, GONE),
    ),
    Kind("slow-disk", "slow_write", "{node}'s disk: fdatasync", slow_disk, nothing),
    Kind(
        "gil",
        "gil",
        "hold_the_gil (recorder/incidents.py",
        lambda node: node.call(hold_the_gil, 0.4, timeout_s=60),
        nothing,
        of_follower=True,
    ),
    Kind(
        "clock",
        "clock",
        "the wall clock of {node}'s machine was set",
        lambda node: seen_step(node, -STEP_S),
        lambda node: seen_step(node, 0.0),
        of_follower=True,
    ),
    Kind("dead-holder", "leases_lost", GONE, kill_holder, nothing, of_follower=True, also=(KILLED,)),
)


# --- doing them -------------------------------------------------------------------------------------------------------


@contextmanager
def cluster_under_shims(folder: Path) -> Iterator[Cluster]:
    """Three members, each under a shim of its own."""
    running = Cluster(folder)
    for name, node in running.nodes.items():
        node.environment.update(shim.Page.make(folder / f"{name}.page").environment())
    with running:
        yield running


def explained(cluster: Cluster, since_s: float = 0.0) -> Explained:
    return explaining.explain([node.folder for node in cluster.nodes.values()], since_s=since_s)


def healthy(cluster: Cluster) -> None:
    """Every member runs, is not cut off, and knows the leader."""
    for node in cluster.nodes.values():
        if not node.is_alive:
            node.start()
        node.call(cut_off, [])
    cluster.wait_ready()


def done(cluster: Cluster, kind: Kind) -> Verdict:
    """Do one of that kind, make everything whole again, and judge what is told of it."""
    leader = cluster.leader(timeout_s=WAIT_S)
    node = cluster.followers(timeout_s=WAIT_S)[0] if kind.of_follower else leader
    term = (node.status() or {}).get("term", 0)
    begun_s = time.time()
    kind.strike(node)
    if kind.incident == "leader_change":
        cluster.leader(timeout_s=WAIT_S, other_than=node.name)
    if kind.incident == "leases_lost":
        with suppress(AssertionError):
            wait_until(lambda: _named(cluster, kind, node, begun_s), timeout_s=WAIT_S, what="the end of its leases")
    kind.heal(node)
    healthy(cluster)
    told = [one for one in explained(cluster, begun_s).incidents if one.begun_s < time.time()]
    mine = [one for one in told if _is_about(one, kind, node)]
    if kind.incident == "leader_change":
        mine = [one for one in mine if one.terms[0] == term]
    judged = max(mine, key=lambda one: one.ended_s - one.begun_s, default=None)
    is_named = judged is not None and kind.text.format(node=node.name) in judged.cause.text
    wrong = [one for one in told if one.cause.confidence == "certain" and _is_wrong(one, kind, node)]
    if judged is not None and not is_named and judged.cause.confidence == "certain" and judged not in wrong:
        wrong.append(judged)
    is_void = kind.incident == "leader_change" and (judged is None or judged.begun_s < begun_s)
    return Verdict(kind.name, node.name, judged, is_named, () if is_void else tuple(wrong), is_void)


def _is_about(incident: Incident, kind: Kind, node: NodeProcess) -> bool:
    return incident.kind == kind.incident and node.name in incident.nodes[:1]


def _is_wrong(incident: Incident, kind: Kind, node: NodeProcess) -> bool:
    """It names a deed that was not done to that node."""
    did = {deed.format(node=node.name) for deed in (kind.text, *kind.also)}
    deeds = [deed.format(node=name) for name in ("a", "b", "c") for deed in DEEDS]
    named = [deed for deed in deeds if deed in incident.cause.text]
    return any(not any(one.startswith(deed) for one in did) for deed in named)


def _named(cluster: Cluster, kind: Kind, node: NodeProcess, begun_s: float) -> bool:
    return any(_is_about(one, kind, node) for one in explained(cluster, begun_s).incidents)
