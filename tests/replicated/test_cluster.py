"""User machines on real nodes: one object on three nodes, through kills, restarts, slow and broken commands."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import raftmeta
from raftmeta.testing import Cluster
from tests.lint.sources import ROOT
from tests.replicated.machines import GATE, Board, Counter, Leaver, Pickled, Stack, copies_agree, until

MIB = 1024 * 1024


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes; each test has machines of its own."""
    with Cluster(3) as running:
        yield running


@contextlib.contextmanager
def blocked(counter: raftmeta.UserMachine) -> Iterator[None]:
    """Keep the copies of a counter busy with one command, until the end of the block."""
    counter.add("before")
    GATE.clear()
    with ThreadPoolExecutor() as pool:
        call = pool.submit(counter.block)
        try:
            until(lambda: counter.metrics()["calls_under_way"] == 1, what="the slow command")
            yield
        finally:
            GATE.set()
            # A node that closes in the block may not have proposed the command yet: then it says NodeClosed.
            with contextlib.suppress(raftmeta.OutcomeUnknown, raftmeta.NodeClosed):
                call.result(30)


def opened(cluster: Cluster, name: str, cls: type) -> dict[str, raftmeta.UserMachine]:
    """The machine on every node that runs."""
    return {node.name: node.replicated(name, cls) for node in cluster.running()}


def names_of_events(node: raftmeta.Node, word: str) -> list[dict[str, Any]]:
    return [dict(event.facts) for event in node.events(timeout_s=0) if event.name == word]


def fill(machine: raftmeta.UserMachine, mebibytes: float = 1.3) -> int:
    """Make a dump due; return how many calls that took."""
    calls = 0
    while calls * 100_000 < mebibytes * MIB:
        machine.add(f"fill-{calls}-{random.random()}", padding=bytes(100_000))
        calls += 1
    return calls


# --- calls and reads --------------------------------------------------------------------------------------------------
def test_a_command_is_seen_on_every_node_and_a_rejection_is_a_result(cluster: Cluster) -> None:
    boards = opened(cluster, "board", Board)
    assert boards["a"].move("ann", 3, timeout_s=10) == 1
    for board in boards.values():
        with pytest.raises(raftmeta.Rejected, match="3 is taken") as rejected:
            board.move("bob", 3)
        assert rejected.value.details == {"by": "ann"}
        assert board.standing() == {"ann": 3}
        assert board.whose(3) == "ann"
    until(lambda: copies_agree(boards.values()), what="all copies")
    assert [board.standing(local=True) for board in boards.values()] == [{"ann": 3}] * 3


def test_what_a_read_gives_is_the_callers_own(cluster: Cluster) -> None:
    board = cluster.node("a").replicated("board", Board)
    board.move("ann", 3)
    board.standing()["ann"] = 5
    assert board.standing() == {"ann": 3}


def test_pop_from_an_empty_list_does_not_wedge_the_cluster(cluster: Cluster) -> None:
    """PySyncObj 0.3.17 stops for good here, on all nodes and after restarts."""
    stacks = opened(cluster, "stack", Stack)
    for stack in stacks.values():
        with pytest.raises(raftmeta.CommandFailed, match="pop from empty list") as failed:
            stack.pop()
        assert failed.value.kind == "IndexError"
    assert stacks["b"].push("x") == 1
    assert stacks["c"].all() == ["x"]
    until(lambda: copies_agree(stacks.values()), what="all copies")
    for node in cluster.running():
        facts = names_of_events(node, "machine_command_failed")
        assert [each["machine"] for each in facts] == ["stack"] * 3
        assert node.metrics()["machine_commands_failed"] == 3


def test_nothing_stays_of_a_failed_command_on_any_node(cluster: Cluster) -> None:
    boards = opened(cluster, "board", Board)
    boards["a"].move("ann", 3)
    with pytest.raises(raftmeta.CommandFailed, match="torn at ann"):
        boards["b"].tear("ann")
    assert boards["a"].move("bob", 4) == 2
    assert [board.standing() for board in boards.values()] == [{"ann": 3, "bob": 4}] * 3


def test_several_machines_of_one_class_are_apart_and_one_name_is_one_copy(cluster: Cluster) -> None:
    node = cluster.node("a")
    one, other = node.replicated("one", Stack), node.replicated("other", Stack)
    one.push(1)
    assert (one.all(), other.all()) == ([1], [])
    assert node.replicated("one", Stack).metrics() == one.metrics()
    with pytest.raises(raftmeta.ConfigError, match="is a Stack"):
        node.replicated("one", Board)
    with pytest.raises(raftmeta.ConfigError, match="not a class marked"):
        node.replicated("two", dict)
    with pytest.raises(raftmeta.InvalidArgument, match="1 to 64 bytes"):
        node.replicated("", Stack)


def test_wrong_calls_are_told_before_anything_is_sent(cluster: Cluster) -> None:
    board = cluster.node("a").replicated("board", Board)
    with pytest.raises(AttributeError, match="no command or read 'fly'; it has count, move, standing, tear, whose"):
        board.fly()
    with pytest.raises(raftmeta.InvalidArgument, match="not a plain value"):
        board.move("ann", object())
    with pytest.raises(raftmeta.InvalidArgument, match="local"):
        board.move("ann", 3, local=True)
    with pytest.raises(raftmeta.InvalidArgument, match="fence"):
        board.standing(fence=None)
    assert board.metrics()["commands"] == 0


def test_a_fence_that_is_lost_stops_a_command(cluster: Cluster) -> None:
    """The store checks it before the command is given to the machine."""
    node = cluster.node("a")
    board = node.replicated("board", Board)
    created = node.create("lead", b"").revision
    assert board.move("ann", 3, fence=raftmeta.Fence("lead", created)) == 1
    node.delete("lead")
    with pytest.raises(raftmeta.Fenced):
        board.move("ann", 4, fence=raftmeta.Fence("lead", created))
    assert board.standing() == {"ann": 3}


def test_a_node_that_opens_the_machine_later_catches_up(cluster: Cluster) -> None:
    """Its commands wait in the replicated state; nothing is kept for it elsewhere."""
    first = cluster.node("a").replicated("stack", Stack)
    for number in range(20):
        first.push(number)
    assert cluster.node("b").replicated("stack", Stack).all() == list(range(20))


def test_a_caller_that_runs_out_of_time_can_go_on_with_the_same_command(cluster: Cluster) -> None:
    counter = cluster.node("a").replicated("counter", Counter)
    with blocked(counter):
        with pytest.raises(raftmeta.OutcomeTimeout) as late:
            counter.add("once", timeout_s=0.1)
        with pytest.raises(raftmeta.OutcomeTimeout) as later:
            late.value.ticket.result(0.01)
        with pytest.raises(raftmeta.ReadyTimeout, match="has not run command"):
            counter.total(timeout_s=0.01)
    assert later.value.ticket.result(30) == 2
    assert counter.total() == 2


def test_calls_beyond_the_limit_are_overloaded_at_once() -> None:
    config = raftmeta.Config(election_timeout_s=0.2, outstanding_max=8, reserve_bytes=0)
    with Cluster(1, config=config) as cluster:
        node = cluster.node("a")
        counter = node.replicated("counter", Counter)
        with ThreadPoolExecutor(8) as pool:
            with blocked(counter):
                calls = []
                for number in range(7):
                    calls.append(pool.submit(counter.add, f"{number}"))
                    until(lambda: counter.metrics()["calls_under_way"] == 1 + len(calls), what="the call")
                    until(lambda: node.metrics()["operations_in_flight"] == 0, what="its entry")
                with pytest.raises(raftmeta.Overloaded):
                    counter.add("too many")
            assert [each.result(30) for each in calls] == [2, 3, 4, 5, 6, 7, 8]


def test_closing_a_node_answers_every_call_and_no_command_runs_after_it(cluster: Cluster) -> None:
    node = cluster.node("a")
    counter = node.replicated("counter", Counter)
    with ThreadPoolExecutor() as pool:
        with blocked(counter):
            waiting = pool.submit(counter.add, "second")
            until(lambda: counter.metrics()["calls_under_way"] == 2, what="the call behind it")
            closing = pool.submit(node.close)
            until(lambda: not node.is_running, what="the node to close")
        closing.result(30)
        commands = counter.metrics()["commands"]
        with contextlib.suppress(raftmeta.OutcomeUnknown, raftmeta.NodeClosed):
            waiting.result(30)
    assert counter.metrics()["commands"] == commands
    with pytest.raises(raftmeta.NodeClosed):
        counter.add("third")
    with pytest.raises(raftmeta.NodeClosed):
        counter.total(local=True)


# --- what commands must not do ----------------------------------------------------------------------------------------
def test_a_slow_command_delays_nobody_elses_puts(cluster: Cluster) -> None:
    node = cluster.node("a")
    counter = node.replicated("counter", Counter)
    with blocked(counter):
        for number in range(30):
            node.put(f"key/{number}", b"")
            node.get(f"key/{number}")
        assert counter.metrics()["calls_under_way"] == 1


def test_a_command_that_holds_the_gil_costs_no_leader(cluster: Cluster) -> None:
    """Consensus that the host cannot stall. Ten election time-outs long, no Python runs at all."""

    @raftmeta.replicated
    class Hog:
        @raftmeta.command
        def hold(self, seconds: float) -> None:
            ctypes.PyDLL(None).usleep(round(seconds * 1_000_000))

    leader = cluster.leader()
    term = leader.status().term
    leader.replicated("hog", Hog).hold(2.0, timeout_s=20)
    assert (cluster.leader().name, cluster.leader().status().term) == (leader.name, term)


def test_a_fault_of_the_host_stops_the_copy_and_not_the_node(cluster: Cluster) -> None:
    """One host out of memory: the others go on, and so does everything else of that node."""

    @raftmeta.replicated
    class Heavy:
        first = itertools.count()

        @raftmeta.command
        def grow(self) -> str:
            if next(self.first) == 0:
                raise MemoryError
            return "grown"

    machines = opened(cluster, "heavy", Heavy)
    with contextlib.suppress(raftmeta.OutcomeUnknown):
        machines["a"].grow()
    stopped = until(lambda: [name for name in machines if machines[name].metrics()["is_stopped"]], what="the fault")
    assert len(stopped) == 1
    node = cluster.node(stopped[0])
    for call in (machines[stopped[0]].grow,):
        with pytest.raises(raftmeta.MachineStopped, match=r"grow\(\) raised MemoryError"):
            call()
    node.put("other", b"")
    assert node.metrics()["machines_stopped"] == 1
    assert names_of_events(node, "machine_stopped")[0]["machine"] == "heavy"
    for name in machines.keys() - stopped:
        assert machines[name].grow() == "grown"


def test_a_command_that_never_ends_is_passed_by_a_class_that_refuses_it(cluster: Cluster) -> None:
    """It keeps every copy busy for good, and again after a restart: until all nodes have a class that refuses it."""
    must_end = threading.Event()

    @raftmeta.replicated
    class Walk:
        def __init__(self) -> None:
            self.place = 0

        @raftmeta.command
        def step(self, by: int) -> int:
            while by < 0 and not must_end.wait(0.01):
                """Never, for its author never thought of it."""
            self.place += by
            return self.place

    @raftmeta.replicated
    class Guarded:
        def __init__(self) -> None:
            self.place = 0

        @raftmeta.command
        def step(self, by: int) -> int:
            if by < 0:
                raise raftmeta.Rejected("by: must not be negative")
            self.place += by
            return self.place

    try:
        walks = opened(cluster, "walk", Walk)
        assert walks["a"].step(2) == 2
        with pytest.raises(raftmeta.OutcomeTimeout):
            walks["a"].step(-1, timeout_s=0.5)
        for name in cluster.names:
            cluster.restart(name)
        with pytest.raises(raftmeta.OutcomeTimeout):
            opened(cluster, "walk", Walk)["b"].step(1, timeout_s=0.5)
        for name in cluster.names:
            cluster.restart(name)
        guarded = opened(cluster, "walk", Guarded)
        assert [guarded[name].step(1) for name in sorted(guarded)] == [4, 5, 6]
    finally:
        must_end.set()


def test_a_copy_that_diverged_is_named_and_takes_the_dump(cluster: Cluster) -> None:
    """A divergence is found at the next dump, told by node and index, and healed."""

    @raftmeta.replicated
    class Noisy:
        def __init__(self) -> None:
            self.noise: list[float] = []

        @raftmeta.command
        def add(self, name: str, *, padding: bytes) -> None:
            self.noise.append(random.random())

        def heard(self) -> list[float]:
            return self.noise

    machines = opened(cluster, "noisy", Noisy)
    fill(machines["a"])
    nodes = cluster.running()
    until(lambda: sum(node.metrics()["machines_diverged"] for node in nodes) == 2, what="two of three to diverge")
    until(lambda: copies_agree(machines.values()), what="all copies")
    point = machines["a"].metrics()["dump"]
    told = [names_of_events(node, "machine_diverged") for node in nodes]
    assert sorted(len(each) for each in told) == [0, 1, 1]
    assert [each["index"] for events in told for each in events] == [point, point]
    heard = [machine.heard() for machine in machines.values()]
    assert len({tuple(each[:11]) for each in heard}) == 1


def test_a_state_that_cannot_be_dumped_is_told_and_goes_on(cluster: Cluster) -> None:
    @raftmeta.replicated
    class Undumpable:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        @raftmeta.command
        def add(self, name: str, *, padding: bytes) -> int:
            self.kept.append(object())
            return len(self.kept)

    machine = cluster.node("a").replicated("odd", Undumpable)
    assert fill(machine) > 10
    assert until(lambda: names_of_events(cluster.node("a"), "machine_not_dumped"), what="the event")
    assert machine.add("again", padding=b"") > 10


# --- dumps ------------------------------------------------------------------------------------------------------------
def test_restart_goes_on_from_the_last_dump(cluster: Cluster) -> None:
    counters = opened(cluster, "counter", Counter)
    calls = fill(counters["a"])
    until(lambda: all(counter.metrics()["dump"] for counter in counters.values()), what="a dump on every node")
    counters["a"].add("behind")
    for name in "abc":
        cluster.kill(name)
    for name in "abc":
        cluster.restart(name, wait=False)
    counters = opened(cluster, "counter", Counter)
    for counter in counters.values():
        assert counter.total(timeout_s=20) == calls + 1
        assert counter.metrics()["commands"] < calls
        assert counter.metrics()["diverged"] == 0
        assert counter.repeated() == []


def test_a_copy_that_lags_behind_a_dump_loads_it(cluster: Cluster) -> None:
    counters = {name: cluster.node(name).replicated("counter", Counter) for name in "ab"}
    calls = fill(counters["a"], 2.0)  # c may lead, and does not send it
    until(lambda: counters["a"].metrics()["dump"], what="a dump")
    late = cluster.node("c").replicated("counter", Counter)
    assert late.total() == calls
    assert late.metrics()["commands"] < calls


def test_any_node_sends_the_dump_when_the_leaders_copy_does_not(cluster: Cluster) -> None:
    """The leader's host does not run the class at all."""
    follower = cluster.followers()[0].replicated("counter", Counter)
    fill(follower, 2.0)
    until(lambda: follower.metrics()["dump"], what="a dump by a follower")


def test_a_class_with_its_own_dump_and_load(cluster: Cluster) -> None:
    walks = opened(cluster, "walk", Pickled)
    walks["a"].go(1.0, 2.0)
    assert walks["b"].path() == [0j, 1 + 2j]


def test_an_upgrade_brings_new_commands_to_all_nodes(cluster: Cluster) -> None:
    @raftmeta.replicated(version=2)
    class Newer:
        @raftmeta.command(since=2)
        def new(self) -> str:
            return "new"

    machines = opened(cluster, "newer", Newer)
    with pytest.raises(raftmeta.CommandFailed, match="version 1 of the machine has no command 'new'"):
        machines["a"].new()
    with pytest.raises(raftmeta.InvalidArgument, match="version: must be from 1 to 2"):
        machines["a"].upgrade(3)
    assert machines["a"].upgrade() == 2
    assert machines["b"].new() == "new"


# --- kills ------------------------------------------------------------------------------------------------------------
def test_every_call_is_applied_once_when_the_leader_is_killed(cluster: Cluster) -> None:
    """Callers on both followers, the leader killed under them: what was answered is there, nothing twice."""
    leader, *followers = [cluster.leader(), *cluster.followers()]
    counters = [node.replicated("counter", Counter) for node in followers]
    names = itertools.count()
    acknowledged: list[str] = []
    is_over = threading.Event()

    def work(counter: raftmeta.UserMachine) -> None:
        while not is_over.is_set():
            name = f"{next(names)}"
            try:
                counter.add(name, timeout_s=20)
            except raftmeta.NotExecuted:
                continue
            acknowledged.append(name)

    with ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work, counter) for counter in counters for _ in range(4)]
        until(lambda: len(acknowledged) > 100, what="calls before the kill")
        cluster.kill(leader)
        before = len(acknowledged)
        until(lambda: len(acknowledged) > before + 100, what="calls after the kill")
        is_over.set()
        for each in workers:
            each.result(30)
    assert [counter.repeated() for counter in counters] == [[], []]
    assert [counter.total() for counter in counters] == [len(acknowledged)] * 2
    back = cluster.restart(leader).replicated("counter", Counter)
    assert back.total(timeout_s=20) == len(acknowledged)
    assert back.repeated() == []


class BoardUnderKills(RuleBasedStateMachine):
    """A board on three nodes and a plain one: every answer is that of the plain one, whoever is killed in between."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(3)
        self.plain = Board()

    @initialize()
    def start(self) -> None:
        self.cluster.start()

    def machine(self, place: int) -> raftmeta.UserMachine:
        nodes = self.cluster.running()
        return nodes[place % len(nodes)].replicated("board", Board)

    @rule(place=st.integers(0, 2), who=st.sampled_from("abc"), where=st.integers(0, 3))
    def move(self, place: int, who: str, where: int) -> None:
        try:
            expected: Any = self.plain.move(who, where)
        except raftmeta.Rejected as rejection:
            expected = str(rejection)
        try:
            answer = self.machine(place).move(who, where, timeout_s=20)
        except raftmeta.Rejected as rejection:
            answer = str(rejection)
        assert answer == expected

    @rule(place=st.integers(0, 2), who=st.sampled_from("abc"))
    def tear(self, place: int, who: str) -> None:
        with pytest.raises(raftmeta.CommandFailed):
            self.machine(place).tear(who, timeout_s=20)

    @rule(place=st.integers(0, 2))
    def read(self, place: int) -> None:
        assert self.machine(place).standing(timeout_s=20) == self.plain.places

    @precondition(lambda self: len(self.cluster.running()) == 3)
    @rule(place=st.integers(0, 2))
    def kill(self, place: int) -> None:
        self.cluster.kill(place)

    @precondition(lambda self: len(self.cluster.running()) == 2)
    @rule()
    def restart(self) -> None:
        for name in self.cluster.names:
            if not self.cluster.is_running(name):
                self.cluster.restart(name, wait=False)

    @invariant()
    def no_copy_stopped_or_diverged(self) -> None:
        for node in self.cluster.running():
            metrics = node.metrics()
            assert metrics["machines_stopped"] == metrics["machines_diverged"] == 0

    def teardown(self) -> None:
        self.cluster.close()


TestBoardUnderKills = pytest.mark.timeout(120)(BoardUnderKills.TestCase)
TestBoardUnderKills.settings = settings(
    max_examples=5, stateful_step_count=25, suppress_health_check=list(HealthCheck), deadline=None
)


# --- the example ------------------------------------------------------------------------------------------------------
def test_the_example_runs() -> None:
    """As one would start it."""
    script = ROOT / "examples" / "replicated_class.py"
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[:3] == [
        "sold: 1",
        "rejected: seat 7 is sold {'to': 'ann'}",
        "asked elsewhere: ann",
    ]
    assert ended.stdout.endswith("was killed: 2\n")


def test_no_input_stops_a_machine_on_all_nodes(cluster: Cluster) -> None:
    """A recursive command that is given too much, and one that asks the process to end: the caller is told, every copy
    goes on, and so it is after a restart, when the same commands are run again."""
    leavers = opened(cluster, "leaver", Leaver)
    assert leavers["a"].walk("((((") == 4
    with pytest.raises(raftmeta.CommandFailed) as caught:
        leavers["a"].walk("(" * 5_000)
    assert caught.value.kind == "RecursionError"
    with pytest.raises(raftmeta.CommandFailed) as caught:
        leavers["b"].leave()
    assert caught.value.kind == "SystemExit"
    assert [leaver.walk("((") for leaver in leavers.values()] == [4, 4, 4]
    for name in "abc":
        cluster.restart(name)
    leavers = opened(cluster, "leaver", Leaver)
    assert [leaver.walk("(" * 5) for leaver in leavers.values()] == [5, 5, 5]
    assert not any(names_of_events(node, "machine_stopped") for node in cluster.running())
