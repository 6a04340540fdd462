"""Workloads through the etcd door: an honest door passes, and each lie of tests/jepsen/lying_etcd.py is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jepsen.checker import Verdict
from jepsen.client import Doors
from jepsen.plan import Plan
from jepsen.workloads import WORKLOADS
from tests.etcd.gateway import doors
from tests.jepsen import lying_etcd, rounds
from tests.jepsen.lying_etcd import EtcdLie, LyingEtcd
from tests.jepsen.rounds import ROUNDS_MAX

THROUGH_DOOR = tuple(name for name, workload in WORKLOADS.items() if workload.protocol == "etcd")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of the door of a node."""
    with doors(tmp_path_factory.mktemp("door")) as (_, at):
        yield at["a"]


def judged(folder: Path, address: str, *workloads: str) -> tuple[Verdict, list[dict[str, Any]]]:
    return rounds.judged(folder, Doors("", is_local=False, etcd=[address]), *workloads)


def test_an_honest_door_passes(tmp_path: Path, port: int) -> None:
    """All workloads at once, with locks that are revoked, deleted and kept alive."""
    with LyingEtcd(port, EtcdLie) as door:
        verdict, observed = judged(tmp_path, door.address, *THROUGH_DOOR)
    assert verdict.is_ok, verdict.reasons
    assert all(history["operations"] > 100 for history in verdict.histories.values())
    kinds = {row["kind"] for row in observed}
    assert kinds >= {"lease_granted", "held", "fence_accepted", "fence_ended", "fence_refused"}, kinds
    assert kinds >= {"watch_open", "watch_event", "watch_progress"}, kinds


@pytest.mark.parametrize(
    ("lie", "workload", "reason"),
    [
        (lying_etcd.Stale, "etcd-register", "etcd-register: violation"),
        (lying_etcd.Unchecked, "etcd-register", "etcd-register: violation"),
        (lying_etcd.Unchecked, "etcd-txn", "etcd-txn: violation"),
        (lying_etcd.Half, "etcd-txn", "etcd-txn: violation"),
        (lying_etcd.Fenceless, "etcd-lock", "ended fence accepted"),
        (lying_etcd.Kept, "etcd-lock", "ended fence accepted"),
        (lying_etcd.Stale, "etcd-watch", "etcd-watch: violation"),
        (lying_etcd.Silent, "etcd-watch", "watch gap"),
        (lying_etcd.Twice, "etcd-watch", "watch order"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else value.replace(" ", "-"),
)
def test_a_lie_is_found(tmp_path: Path, port: int, lie: type[EtcdLie], workload: str, reason: str) -> None:
    """By its own rule, after so many rounds at most."""
    found: list[str] = []
    with LyingEtcd(port, lie) as door:
        for _ in range(ROUNDS_MAX):
            found += judged(tmp_path, door.address, workload)[0].reasons
            if any(reason in one for one in found):
                return
    raise AssertionError(found)


def test_etcd_names_all_workloads_through_the_door(tmp_path: Path) -> None:
    named: dict[str, Any] = {"nodes": 3, "nemesis": "none", "time_s": 9.0, "rate": 9.0, "seed": 1, "store": tmp_path}
    assert Plan.check(workload="etcd", **named).workloads == THROUGH_DOOR
    assert Plan.check(workload="register,etcd", **named).doors == {"etcd"}
    assert Plan.check(workload="register", **named).doors == frozenset()
