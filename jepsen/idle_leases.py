"""Leases on a cluster where nothing else happens, while its leader changes: each ends when its time is over.

    python -m jepsen leases --ttl 6 --changes 0.5

On a busy cluster every entry carries the lease clock to all members. On an idle one nobody writes; a new leader must
know from elsewhere how much time has passed. So this takes leases, kills their holder, and from then on only reads,
while the lead moves again and again. docs/jepsen.md "Idle leases" says what is right.

It measures and writes down (Sight); `judge` decides. Times are CLOCK_MONOTONIC of this machine, in nanoseconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import raftmeta
from jepsen.clock import NS_PER_S
from raftmeta.testing import Cluster
from raftmeta.testing.cluster import TEST_CONFIG

HOLDER = "holder"
ELECTION_S = TEST_CONFIG.election_timeout_s
TOLERANCE_S = 0.5  # beyond the promise: for one look, and for a machine that has other work
LEASES = 3
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Sight:
    """One lease as it was seen from outside.

    asked_ns: before its grant was asked for. silent_ns: its holder was dead. alive_ns: before the last look that found
    its key. gone_ns: behind the first look that did not; None: each look found it.
    """

    key: str
    ttl_s: float
    asked_ns: int
    silent_ns: int
    alive_ns: int
    gone_ns: int | None


def judge(sights: Iterable[Sight], *, election_s: float, tolerance_s: float) -> list[str]:
    """What is wrong, in words: a lease that ended before its time, or was there when it was long over."""
    wrong = []
    for sight in sights:
        first_ns = sight.asked_ns + round(sight.ttl_s * NS_PER_S)
        last_ns = sight.silent_ns + round((sight.ttl_s + election_s + tolerance_s) * NS_PER_S)
        if sight.gone_ns is not None and sight.gone_ns < first_ns:
            wrong.append(f"{sight.key} ended {(first_ns - sight.gone_ns) / NS_PER_S:.2f} s before its time")
        if sight.alive_ns > last_ns:
            alive_s = (sight.alive_ns - sight.silent_ns) / NS_PER_S
            wrong.append(
                f"{sight.key} lives {alive_s:.2f} s behind its last sign of life, with {sight.ttl_s:g} s to live"
            )
    return wrong


def watch_leases(
    folder: Path, *, ttl_s: float, change_s: float, leases: int = LEASES, is_holder_alive: bool = False
) -> tuple[list[Sight], int]:
    """Three nodes and a fourth that takes leases and dies. The lead moves every `change_s` until no lease is left.

    It ends early when a lease is overdue. is_holder_alive: a planted mistake: the holder does not die. Return also how
    often the lead moved.
    """
    config = replace(TEST_CONFIG, leases_end_with_process=False)  # the holder's death is proved otherwise
    with Cluster(["a", "b", "c", HOLDER], config=config, folder=folder) as cluster:
        keys = [f"lease/{number}" for number in range(leases)]
        asked_ns, held = {}, []
        for key in keys:
            asked_ns[key] = time.monotonic_ns()
            held.append(cluster.node(HOLDER).lease(ttl_s))  # the node keeps it alive as long as the object lives
            cluster.node(HOLDER).put(key, b"", lease=held[-1])
        if cluster.leader().status().name == HOLDER:
            _change(cluster)
        if not is_holder_alive:
            cluster.kill(HOLDER)
        silent_ns = time.monotonic_ns()
        over_ns = silent_ns + round((ttl_s + ELECTION_S + TOLERANCE_S) * NS_PER_S)
        alive, gone = dict.fromkeys(keys, silent_ns), dict[str, int]()
        changes, next_ns = 0, silent_ns + round(change_s * NS_PER_S)
        while len(gone) < len(keys) and min(alive[key] for key in keys if key not in gone) <= over_ns:
            if time.monotonic_ns() >= next_ns:
                changes += _change(cluster)
                next_ns = time.monotonic_ns() + round(change_s * NS_PER_S)
            for key in keys:
                if key not in gone:
                    _look(cluster, key, alive, gone)
            time.sleep(LOOK_S)
        return [Sight(key, ttl_s, asked_ns[key], silent_ns, alive[key], gone.get(key)) for key in keys], changes


def _look(cluster: Cluster, key: str, alive: dict[str, int], gone: dict[str, int]) -> None:
    """A linearizable read, which writes nothing; none when nobody leads just now."""
    before_ns = time.monotonic_ns()
    with contextlib.suppress(raftmeta.NotExecuted, raftmeta.OutcomeUnknown):
        if cluster.leader().get(key, timeout_s=1.0) is None:
            gone[key] = time.monotonic_ns()
        else:
            alive[key] = before_ns


def _change(cluster: Cluster) -> bool:
    """Move the lead to another node; whether it moved."""
    former = cluster.leader()
    with contextlib.suppress(raftmeta.RaftmetaError):
        former.transfer(timeout_s=1.0)
    return cluster.leader() is not former
