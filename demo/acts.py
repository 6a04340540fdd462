"""The acts: three brokers go through what brokers go through, and every promise is kept.

(a) the controller is killed, (b) frozen and woken too late, (c) its host holds the GIL for seconds, (d) a follower
loses its disk, (e) all are killed at once. Then those of these that make sense on PySyncObj, if it is installed.

It decides when which process is killed or frozen, by the pid of a process that it started. It touches a folder only to
wipe it, and it believes only the ledger's file about what was promised.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from demo.display import Display
from demo.processes import DemoFailed, MemberProcess
from demo.report import PeerReport, Report, lost_writes, missing_writes, same_applied
from demo.stage import Flow, Stage, frozen, wait_for
from demo.web import shown_in_browser

CALM_S = 2.0
PEER_RESTART_S = 15.0
NS_PER_MS = 1e6


@dataclasses.dataclass(frozen=True)
class Options:
    """writers: in each broker's process. gil_s: how long the controller's host holds the GIL. with_web: a page too."""

    brokers: int = 3
    topics: int = 1000
    writers: int = 16
    gil_s: float = 5.0
    with_peer: bool = True
    with_web: bool = False


class Acts:
    """All of them, in order, on brokers that run."""

    def __init__(self, stage: Stage, options: Options, display: Display) -> None:
        self._stage = stage
        self._options = options
        self._tell = display.event
        self._began_ns = time.monotonic_ns()
        self._late_answers: list[str] = []

    def run(self) -> Report:
        controller = self._controller(after_epoch=0)
        self._tell(f"{len(self._members)} brokers joined the group; {controller.name} is elected controller", "green")
        topics_ms = self._create_topics(controller)
        killed_ms, writes_ms = self._kill_controller()
        frozen_ms = self._freeze_controller()
        calm, held, is_steady = self._hold_gil()
        wiped_ms = self._wipe_follower()
        killed_ns = self._stage.kill_all()
        self._tell(f"(e) kill -9 of all {len(self._members)} brokers at once", "bold red")
        self._stage.start(self._members)
        restart_ms = self._stage.failover_ms(killed_ns)
        self._tell(f"    all are back, and writes go on, after {restart_ms:,.0f} ms", "green")
        seconds = (time.monotonic_ns() - self._began_ns) / 1e9
        self._tell("the clients rest; each broker is asked for everything that was promised")
        records = self._stage.read_back()
        keys = {key for found in records.values() for key in found}
        self._rested(len(keys))
        reports = {member.name: member.report for member in self._members}
        for member in self._members:
            member.close()
        promised = self._stage.tail.promised
        return Report(
            seconds=seconds,
            topics=self._options.topics,
            topics_ms=topics_ms,
            partitions={name: report["partitions"] for name, report in reports.items()},
            acknowledged=len(promised),
            unknown=sum(member.total("unknown") for member in self._members),
            lost=lost_writes(promised, records),
            watch_gaps=sum(m.total("gaps") + abs(len(keys) - m.total("seen")) for m in self._members),
            late_writes_accepted=self._late_answers.count(""),
            late_writes_refused_as=self._late_answers,
            controller_killed_ms=killed_ms,
            writes_after_kill_ms=writes_ms,
            controller_frozen_ms=frozen_ms,
            is_leader_unchanged=is_steady,
            calm=calm,
            held=held,
            wiped_ms=wiped_ms,
            restart_ms=restart_ms,
            applied=max(report["applied"] for report in reports.values()),
            state_hashes={name: report["state_hash"] for name, report in reports.items()},
        )

    # --- the acts -----------------------------------------------------------------------------------------------------
    def _create_topics(self, controller: MemberProcess) -> float:
        count = self._options.topics
        begun_ns = time.monotonic_ns()
        controller.ask("create_topics", count)
        self._all_follow(3 * count)
        passed_ms = (time.monotonic_ns() - begun_ns) / NS_PER_MS
        self._tell(f"{count:,} topics with 3 partitions each; every broker has them by watch after {passed_ms:,.0f} ms")
        return passed_ms

    def _kill_controller(self) -> tuple[float, float]:
        """Until there is another controller, and until clients' writes go on."""
        old = self._controller()
        epoch, killed_ns = old.report["epoch"], time.monotonic_ns()
        old.begin_kill()
        self._tell(f"(a) kill -9 {old.pid}: broker {old.name}, the controller of epoch {epoch}", "bold red")
        writes_ms = self._stage.failover_ms(killed_ns)
        self._tell(f"    writes go on after {writes_ms:,.0f} ms", "green")
        new = self._controller(after_epoch=epoch)
        passed_ms = (new.report["controller_since_ns"] - killed_ns) / NS_PER_MS
        epoch = new.report["epoch"]
        self._tell(f"    broker {new.name} is controller of epoch {epoch} after {passed_ms:,.0f} ms", "green")
        old.kill()
        self._stage.start([old])
        self._caught_up(old)
        self._tell(f"    broker {old.name} is back and has caught up: pid {old.pid}")
        return passed_ms, writes_ms

    def _freeze_controller(self) -> float:
        old = self._controller()
        epoch, frozen_ns = old.report["epoch"], time.monotonic_ns()
        with frozen(old):
            self._tell(
                f"(b) SIGSTOP {old.pid}: broker {old.name}, the controller of epoch {epoch}, is frozen", "bold red"
            )
            new = self._controller(after_epoch=epoch)
            passed_ms = (new.report["controller_since_ns"] - frozen_ns) / NS_PER_MS
            self._tell(
                f"    broker {new.name} took over, epoch {new.report['epoch']}, after {passed_ms:,.0f} ms", "green"
            )
        refused_as = str(old.ask("late_write"))
        self._late_answers.append(refused_as)
        text, style = (f"refused: {refused_as}", "green") if refused_as else ("ACCEPTED", "bold red")
        self._tell(f"    woken, it writes with its old epoch: {text}", style)
        self._caught_up(old)
        return passed_ms

    def _hold_gil(self) -> tuple[Flow, Flow, bool]:
        controller = self._controller()
        leader = self._stage.leader()
        if leader is not controller:
            leader.ask("hand_over", controller.name)
        others = [member for member in self._members if member is not controller]
        wait_for(lambda: all(m.report["leader"] == controller.name for m in others), "its lead of the cluster")
        calm_ns = time.monotonic_ns()
        time.sleep(CALM_S)
        before = [self._leadership(member) for member in others]
        held_ns = time.monotonic_ns()
        self._tell(
            f"(c) broker {controller.name}, controller and leader, holds its GIL for {self._options.gil_s:g} s",
            "bold red",
        )
        controller.hold_gil(self._options.gil_s)
        ended_ns = time.monotonic_ns()
        is_steady = before == [self._leadership(member) for member in others]
        calm, held = self._stage.flow(others, calm_ns, held_ns), self._stage.flow(others, held_ns, ended_ns)
        what = "leader and controller stay" if is_steady else "THE LEADER OR THE CONTROLLER CHANGED"
        self._tell(
            f"    {what}; the others' clients: {held.rate:,.0f} commits/s (before {calm.rate:,.0f}), longest gap "
            f"{held.gap_ms:,.0f} ms (before {calm.gap_ms:,.0f})",
            "green" if is_steady else "bold red",
        )
        return calm, held, is_steady

    def _wipe_follower(self) -> float:
        busy = {self._controller().name, self._stage.leader().name}
        follower = next(member for member in self._members if member.name not in busy)
        follower.kill()
        follower.wipe()
        self._tell(f"(d) broker {follower.name} is killed and its folder removed", "bold red")
        begun_ns = time.monotonic_ns()
        self._stage.start([follower])
        self._caught_up(follower)
        passed_ms = (time.monotonic_ns() - begun_ns) / NS_PER_MS
        self._tell(f"    it came back by itself, with everything, {passed_ms:,.0f} ms after its start", "green")
        return passed_ms

    # --- asking -------------------------------------------------------------------------------------------------------
    @property
    def _members(self) -> list[MemberProcess]:
        return self._stage.members

    @staticmethod
    def _leadership(member: MemberProcess) -> tuple[object, ...]:
        return tuple(member.report[what] for what in ("leader", "term", "controller", "epoch"))

    def _controller(self, *, after_epoch: int = -1) -> MemberProcess:
        """Who is controller by the word of all who can speak, itself included, with a higher epoch than that."""
        found: list[MemberProcess] = []

        def is_agreed() -> bool:
            told = [member for member in self._members if member.is_answering and member.report]
            known = {(member.report["controller"], member.report["epoch"]) for member in told}
            found[:] = [member for member in told if (member.name, member.report["epoch"]) in known]
            return len(known) == 1 and len(found) == 1 and found[0].report["epoch"] > after_epoch

        wait_for(is_agreed, "a controller that all know")
        return found[0]

    def _all_follow(self, partitions: int) -> None:
        wait_for(
            lambda: all(m.report["partitions"] == partitions for m in self._members), "the metadata on every broker"
        )

    def _caught_up(self, member: MemberProcess) -> None:
        """Until it has applied what the others had at this moment."""
        applied = max(other.report.get("applied", 0) for other in self._members if other is not member)
        wait_for(lambda: member.report.get("applied", 0) >= applied, f"broker {member.name} to catch up")

    def _rested(self, writes: int) -> None:
        """Until every watcher saw the end and all speak of one log index; the table tells if they never do."""

        def is_at_rest() -> bool:
            return all(m.total("seen") >= writes for m in self._members) and same_applied(
                [m.report for m in self._members]
            )

        try:
            wait_for(is_at_rest, "rest", timeout_s=10)
        except DemoFailed as failure:
            self._tell(str(failure), "red")


def act_peer(stage: Stage, options: Options, tell: Callable[..., None]) -> PeerReport:
    """Acts (a), (c) and (e) on PySyncObj; its leader plays the controller."""
    tell(f"{len(stage.members)} nodes of PySyncObj run, with the same clients")
    time.sleep(CALM_S)
    old = stage.leader()
    killed_ns = time.monotonic_ns()
    old.begin_kill()
    tell(f"(a) kill -9 {old.pid}: node {old.name}, the leader", "bold red")
    killed_ms = stage.failover_ms(killed_ns)
    tell(f"    writes go on after {killed_ms:,.0f} ms")
    old.kill()
    stage.start([old])
    leader = stage.leader()
    others = [member for member in stage.members if member is not leader]
    calm_ns = time.monotonic_ns()
    time.sleep(CALM_S)
    held_ns = time.monotonic_ns()
    tell(f"(c) node {leader.name}, the leader, holds its GIL for {options.gil_s:g} s", "bold red")
    leader.hold_gil(options.gil_s)
    ended_ns = time.monotonic_ns()
    is_steady = all(member.report["leader"] == leader.report["leader"] for member in others)
    calm, held = stage.flow(others, calm_ns, held_ns), stage.flow(others, held_ns, ended_ns)
    tell(f"    {held.rate:,.0f} commits/s (before {calm.rate:,.0f}), longest gap {held.gap_ms:,.0f} ms")
    killed_ns = stage.kill_all()
    tell(f"(e) kill -9 of all {len(stage.members)} nodes at once", "bold red")
    restart_ms: float | None = None
    lost: int | None = None
    try:
        stage.start(stage.members, timeout_s=PEER_RESTART_S)
        restart_ms = stage.failover_ms(killed_ns)
        tell(f"    writes go on after {restart_ms:,.0f} ms")
        lost = missing_writes(stage.tail.promised, stage.read_back())
    except DemoFailed:
        tell(f"    it is not back after {PEER_RESTART_S:g} s: nothing that was promised can be read", "red")
    return PeerReport(
        acknowledged=len(stage.tail.promised),
        lost=lost,
        leader_killed_ms=killed_ms,
        is_leader_unchanged=is_steady,
        calm=calm,
        held=held,
        restart_ms=restart_ms,
    )


def perform(options: Options, folder: Path, display: Display) -> Report:
    """Everything, and the table."""
    size = {"members": options.brokers, "writers": options.writers}
    brokers = Stage("raftmeta", "demo.broker", folder / "brokers", display, **size, serves_clients=options.with_web)
    page: AbstractContextManager[None] = nullcontext()
    if options.with_web:
        page = shown_in_browser(brokers.url, folder, display)
    with brokers as stage, page:
        report = Acts(stage, options, display).run()
    if not options.with_peer or find_spec("pysyncobj") is None:
        return report
    try:
        with Stage("PySyncObj", "demo.peer", folder / "peers", display, **size) as stage:
            return dataclasses.replace(report, peer=act_peer(stage, options, display.event))
    except DemoFailed as failure:
        display.event(f"PySyncObj did not come through: {str(failure).splitlines()[0]}", "red")
        return dataclasses.replace(report, peer_failure=str(failure).splitlines()[0])
