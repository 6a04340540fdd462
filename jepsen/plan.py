"""What a run shall do: its parameters, checked, and the clients that follow from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jepsen.generator import GROUP, Rotation
from jepsen.nemeses import NEMESES
from jepsen.nemesis import Harm
from jepsen.workers import Slot
from jepsen.workloads import WORKLOADS

ALL, ZOOKEEPER, ETCD = "all", "zookeeper", "etcd"
CLIENT_PROCESSES = 2
CLIENTS = 6  # in client processes, of one workload that runs alone; the mix has half of it for each
SPARES = 2
OBSERVERS_MAX = 4
TIME_MAX_S = 24 * 3600.0
RATE_MAX = 100_000.0
PLANTED_IN_SECURE = ("deaf", "lenient", "keyless", "open")  # jepsen/broker.py
PLANTED_IN_OBSERVERS = ("stale", "gap")  # jepsen/observing.py
PLANTED = (*PLANTED_IN_SECURE, *PLANTED_IN_OBSERVERS)
RUIN = ("kill", *(name for name, nemesis in NEMESES.items() if nemesis.harm is Harm.STORAGE))


class PlanError(Exception):
    """A parameter is wrong; the message says which, and what may stand there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """nodes: founders. observers: nodes beside them that hold no place. time_s: of harm and quiet together. rate:
    operations per second of all clients together.

    is_secure: with TLS, rights and encryption at rest. plant: a mistake that the run must find (PLANTED); "": none.
    nemeses: names that can run here. left_out: those of `all` that cannot, each with its reason. is_ruin: storage is
    lost without regard for what a cluster can survive: it must halt rather than lie, and owes nothing else.
    has_local_reads: ZooKeeper doors serve reads as ZooKeeper does, out of what the node has; else every read asks the
    leader first.
    """

    nodes: int
    workloads: tuple[str, ...]
    nemeses: tuple[str, ...]
    left_out: dict[str, str]
    is_ruin: bool
    is_secure: bool
    plant: str
    time_s: float
    rate: float
    seed: int
    store: Path
    has_local_reads: bool = True
    observers: int = 0

    @classmethod
    def check(
        cls,
        *,
        nodes: int,
        workload: str,
        nemesis: str,
        time_s: float,
        rate: float,
        seed: int,
        store: Path,
        is_secure: bool = False,
        plant: str = "",
        has_local_reads: bool = True,
        observers: int = 0,
    ) -> Plan:
        """From what the command line says. Raises PlanError."""
        if not 1 <= time_s <= TIME_MAX_S:
            raise PlanError(f"--time: from 1 to {TIME_MAX_S:g} seconds, not {time_s:g}")
        if not 1 <= rate <= RATE_MAX:
            raise PlanError(f"--rate: from 1 to {RATE_MAX:g} operations per second, not {rate:g}")
        if (lacking := _unwritable(store)) is not None:
            raise PlanError(f"--store: {lacking}; name another folder")
        wanted = RUIN if nemesis == "ruin" else _named(nemesis, NEMESES, "--nemesis") if nemesis != "none" else ()
        if not 0 <= observers <= OBSERVERS_MAX:
            raise PlanError(f"--observers: from 0 to {OBSERVERS_MAX}, not {observers}")
        reasons = {
            name: reason
            for name in wanted
            if (reason := _lacking(name, is_secure=is_secure, observers=observers)) is not None
        }
        if plant in PLANTED_IN_SECURE and not is_secure:
            raise PlanError(f"--plant {plant}: a mistake of a secure run; add --secure")
        if plant in PLANTED_IN_OBSERVERS and not observers:
            raise PlanError(f"--plant {plant}: a mistake of an observer; add --observers")
        if reasons and nemesis != ALL:
            raise PlanError("\n".join(f"--nemesis {name} cannot run here: {why}" for name, why in reasons.items()))
        return cls(
            nodes=nodes,
            workloads=_asked(workload),
            nemeses=tuple(name for name in wanted if name not in reasons),
            left_out=reasons,
            is_ruin=nemesis == "ruin",
            is_secure=is_secure,
            plant=plant,
            time_s=time_s,
            rate=rate,
            seed=seed,
            store=store,
            has_local_reads=has_local_reads,
            observers=observers,
        )

    @property
    def doors(self) -> frozenset[str]:
        """The protocols of the doors by which some clients ask."""
        return frozenset(protocol for name in self.workloads if (protocol := WORKLOADS[name].protocol))

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the client processes."""
        return tuple(f"c{number}" for number in range(1, CLIENT_PROCESSES + 1))

    @property
    def founders(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    @property
    def spares(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(self.nodes + 1, self.nodes + 1 + SPARES))

    @property
    def observing(self) -> tuple[str, ...]:
        """Names of the observers."""
        return tuple(f"o{number}" for number in range(1, self.observers + 1))

    def models(self) -> dict[str, str]:
        """Of the workloads that have a history."""
        return {name: model for name in self.workloads if (model := WORKLOADS[name].model) is not None}

    def slots(self, t0_ns: int) -> tuple[list[list[Slot]], dict[str, list[Slot]]]:
        """The clients of each client process, and of each broker."""
        clients = CLIENTS if len(self.workloads) == 1 else CLIENTS // 2
        outside: list[list[Slot]] = [[] for _ in range(CLIENT_PROCESSES)]
        inside: dict[str, list[Slot]] = {name: [] for name in (*self.founders, *self.observing)}
        number = 0
        for workload in self.workloads:
            places = [outside[one % CLIENT_PROCESSES] for one in range(clients)]
            places += [] if WORKLOADS[workload].protocol else inside.values()
            period_s = len(self.workloads) * len(places) / self.rate
            per_group = min(GROUP, len(places))
            rotation_s = Rotation.of(t0_ns, per_group / period_s).period_s
            for place, one in enumerate(places):
                one.append(Slot(workload, number, place // GROUP, period_s, rotation_s))
                number += 1
        return outside, inside


def _asked(text: str) -> tuple[str, ...]:
    """The workloads. ZOOKEEPER and ETCD stand for all through doors of this protocol."""
    through = {
        protocol: ",".join(name for name, workload in WORKLOADS.items() if workload.protocol == protocol)
        for protocol in (ZOOKEEPER, ETCD)
    }
    words = [through.get(word.strip(), word) for word in text.split(",")]
    return _named(",".join(words), WORKLOADS, "--workload")


def _lacking(name: str, *, is_secure: bool, observers: int) -> str | None:
    """Why a nemesis cannot strike in this run; None: it can."""
    if NEMESES[name].needs_papers and not is_secure:
        return "it strikes certificates and keys: add --secure"
    if NEMESES[name].needs_observers and not observers:
        return "it strikes observers: add --observers"
    return NEMESES[name].requires()


def _unwritable(store: Path) -> str | None:
    """Why runs cannot be kept there, None if they can."""
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return str(error)
    return None if os.access(store, os.W_OK | os.X_OK) else f"{store} cannot be written by this user"


def _named(text: str, known: Sequence[str] | dict[str, type], option: str) -> tuple[str, ...]:
    """The names of a comma-separated list; `all` stands for every one."""
    if text == ALL:
        return tuple(known)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if unknown := [name for name in names if name not in known]:
        raise PlanError(f"{option}: there is no {', '.join(unknown)}; there are: {', '.join(known)}, all")
    return names
