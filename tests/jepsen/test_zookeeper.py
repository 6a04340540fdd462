"""Workloads through the ZooKeeper door: an honest door passes, and each lie of tests/jepsen/lying_door.py is found."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jepsen.checker import Verdict
from jepsen.client import Client, Doors
from jepsen.door_session import Reply
from jepsen.observed import broken_rules
from jepsen.plan import Plan
from jepsen.workloads import WORKLOADS
from jepsen.workloads import doors as workload_doors
from jepsen.workloads.door_registers import ZookeeperWatch
from tests.jepsen import lying_door, rounds
from tests.jepsen.lying_door import Lie, LyingDoor
from tests.jepsen.rounds import ROUNDS_MAX
from tests.spark.observed import told, whole
from tests.zookeeper.nodes import doors

THROUGH_DOOR = tuple(name for name, workload in WORKLOADS.items() if workload.protocol == "zookeeper")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of the door of a node. Sessions are of 1 to 10 s."""
    with doors(tmp_path_factory.mktemp("door"), zookeeper_tick_s=0.5) as (_, at):
        yield at["a"]


def judged(folder: Path, address: str, *workloads: str) -> tuple[Verdict, list[dict[str, Any]]]:
    return rounds.judged(folder, Doors(address, is_local=True), *workloads)


def test_an_honest_door_passes(tmp_path: Path, port: int) -> None:
    """All workloads at once, with sessions that move, are closed and left."""
    with LyingDoor(port) as door:
        verdict, _ = judged(tmp_path, door.address, *THROUGH_DOOR)
    assert verdict.is_ok, verdict.reasons
    assert all(history["operations"] > 100 for history in verdict.histories.values())


def test_sessions_move_with_their_watches_and_hear_what_they_missed(tmp_path: Path, port: int) -> None:
    """By either request that sets watches again, and each event once, before any reply that shows its change."""
    wanted = {str(opcode) for opcode in lying_door.SET_WATCHES}
    told: Counter[str] = Counter()
    with LyingDoor(port) as door:
        for _ in range(ROUNDS_MAX):
            verdict, observed = judged(tmp_path, door.address, "zookeeper-watch")
            assert verdict.is_ok, verdict.reasons
            for row in observed:
                if row["kind"] == "zookeeper_watches_set":
                    told[row["value"]] += row["token"]
            if all(told[opcode] for opcode in wanted):
                return
    raise AssertionError(told)


@pytest.mark.parametrize(
    ("lie", "workload", "reason"),
    [
        (lying_door.Stale, "zookeeper-register", "zookeeper-register: violation"),
        (lying_door.Stale, "zookeeper-watch", "session went back"),
        (lying_door.Unchecked, "zookeeper-register", "zookeeper-register: violation"),
        (lying_door.Half, "zookeeper-multi", "zookeeper-multi: violation"),
        (lying_door.Half, "zookeeper-multi", "total differs"),
        (lying_door.Fenceless, "zookeeper-lock", "ended fence accepted"),
        (lying_door.Kept, "zookeeper-lock", "ended fence accepted"),
        (lying_door.Silent, "zookeeper-watch", "shown before told"),
        (lying_door.Forgotten, "zookeeper-watch", "shown before told"),
        (lying_door.Twice, "zookeeper-watch", "told unasked"),
        (lying_door.Repeated, "zookeeper-lock", "sequence order"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else value.replace(" ", "-"),
)
def test_a_lie_is_found(tmp_path: Path, port: int, lie: type[Lie], workload: str, reason: str) -> None:
    """By its own rule, after so many rounds at most."""
    found: list[str] = []
    with LyingDoor(port, lie) as door:
        for _ in range(ROUNDS_MAX):
            found += judged(tmp_path, door.address, workload)[0].reasons
            if any(reason in one for one in found):
                return
    raise AssertionError(found)


def test_zookeeper_names_all_workloads_through_the_door(tmp_path: Path) -> None:
    """Also in a secure run, whose sessions have certificates and prove a name."""
    named: dict[str, Any] = {"nodes": 3, "nemesis": "none", "time_s": 9.0, "rate": 9.0, "seed": 1, "store": tmp_path}
    assert Plan.check(workload="zookeeper", **named).workloads == THROUGH_DOOR
    assert Plan.check(workload="register,zookeeper", **named).doors == {"zookeeper"}
    assert Plan.check(workload="all", is_secure=True, **named).doors == {"zookeeper", "etcd"}


class RenewedSession:
    """A session that expires while a request of it waits for a connection: another one sends the request."""

    def __init__(self) -> None:
        self.id = 1
        self.events = list[Callable[[Any], None]]()

    async def ask(self, call: Callable[[Any], Any], told: Callable[[Any, int], None]) -> Reply:
        self.id = 2
        call(self)
        told(self.answer, self.answer[1].mzxid)
        return Reply(self.answer, self.answer[1].mzxid)

    def get_async(self, _path: str, watch: Callable[[Any], None] | None) -> None:
        self.answer = b"1", SimpleNamespace(mzxid=30 if self.events else 20)
        if watch is not None:
            self.events.append(watch)


def test_a_watch_is_told_to_the_session_that_set_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI refused a right run: the watch was set by the session 2, and its event was written down for session 1."""
    rows: list[dict[str, Any]] = []
    session = RenewedSession()
    monkeypatch.setattr(workload_doors, "DoorSession", lambda *_: session)
    client = SimpleNamespace(doors=Doors("", is_local=True), spool=None, process=1, group=0)
    watching = ZookeeperWatch(cast(Client, client))
    monkeypatch.setattr(
        watching, "say", lambda kind, subject, revision=-1: rows.append(told(kind, subject, revision=revision))
    )

    async def ask() -> None:
        await watching.get("/a", is_watched=True)
        session.events[0](None)
        await watching.get("/a")

    asyncio.run(ask())
    assert [row["kind"] for row in rows] == ["zookeeper_seen", "zookeeper_armed", "zookeeper_told", "zookeeper_seen"]
    assert broken_rules(whole(rows), {}) == []
