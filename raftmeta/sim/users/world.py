"""A user's replicated class on three nodes that crash, lag and load dumps: do all copies stay the same?

    life = live_user("my_app:Machine", seed=7)
    print(life.violation)           # None, or what differs, after which command, and the line that replays it

One log of commands, and on each node the Copy that real nodes run (raftmeta/user_machines/copy), in a process of its
own (raftmeta/sim/users/replica). The seed decides the commands, how far each node is, which node crashes, whether it
replays the log or begins from the dump that was adopted, and where dumps are made. After every command a node's answer
and state must be those of the first node that ran it, its invariants must hold, and a read must leave the state as it
is.

It must never put the commands through consensus. That all nodes get one log is what the other worlds of
raftmeta/sim show; here it is given.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from raftmeta.errors import CommandFailed, Rejected
from raftmeta.sim.users.calls import Call, call_text, drawn_call, drawn_read
from raftmeta.sim.users.replica import load_class, receive, send
from raftmeta.user_machines.calls import packed_call, value_of
from raftmeta.user_machines.classes import MachineClass
from raftmeta.user_machines.copy import CommandRecord

__all__ = ["Replicas", "UserLife", "live_user"]

NODES = 3
COMMANDS = 200  # of one life
AGAIN_PERCENT = 5  # of commands: somebody sends an earlier call once more
POINT_PERCENT = 4  # of commands: every copy makes a dump after it
READ_PERCENT = 20  # of commands: a read is asked of every node behind it
CRASH_PERCENT = 4  # of the steps of a life
BATCH_MAX = 8  # commands that a node runs in one step
WALL_MS = 1_700_000_000_000  # when the first command is taken
CLIENT = 1  # session of all commands
TIME_ZONES = ("UTC", "Asia/Tokyo", "America/Los_Angeles")


@dataclass(slots=True)
class UserLife:
    """How one life ended. violation: what did not hold, in words; None: all copies stayed the same.

    counts: commands, runs (of a command on a node), crashes, reopenings, dumps, loads, reads, rejected, failed. failed:
    commands that raised, on every node alike, by exception and an example.
    """

    target: str
    seed: int
    violation: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def replay(self) -> str:
        """The command line that lives this life again."""
        return f"raftmeta sim {self.target} --seed {self.seed:#x}"


class Violated(Exception):
    """A life ends here."""


@dataclass(slots=True)
class Place:
    """One place of the log, and what the first node that came there said."""

    call: Call
    record: CommandRecord
    is_point: bool
    read: Call | None
    outcome: bytes | None = None
    state: bytes = b""
    answer: bytes = b""  # of the read
    dump: bytes = b""
    first: str = ""  # name of that node


class ReplicaProcess:
    """The other side of the pipe to one node's process."""

    def __init__(self, number: int) -> None:
        self.name = "abc"[number]
        self.pointer = 0
        self._is_alive = False
        # The variables of its own; all others are those of this process.
        own = {
            "PYTHONHASHSEED": str(number + 1),
            "TZ": TIME_ZONES[number],
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        }
        command = ["env", *(f"{name}={value}" for name, value in own.items())]
        command += [sys.executable, "-m", "raftmeta.sim.users.replica", str(number)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begin(self, target: str) -> None:
        """A new life: nothing of an earlier one is in its memory. Raises Violated: the class cannot be made there."""
        if self._is_alive:
            self._send(["end"])
        self.pointer = 0
        self._is_alive = True
        self.ask("begin", target)

    def ask(self, order: str, *arguments: Any) -> Any:
        """Give an order and return its answer. Raises Violated: the copy cannot go on."""
        self._send([order, *arguments])
        assert self._process.stdout is not None
        try:
            kind, value = receive(self._process.stdout)
        except EOFError:
            raise Violated(f"the process of node {self.name} died behind command {self.pointer}") from None
        if kind == "died":
            self._is_alive = False
        if kind != "ok":
            raise Violated(f"the copy of node {self.name} stops behind command {self.pointer}: {value}")
        return value

    def _send(self, order: list[Any]) -> None:
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, order)
        except BrokenPipeError:
            raise Violated(f"the process of node {self.name} died behind command {self.pointer}") from None

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Replicas:
    """The processes of the nodes, for one life after the other; a context manager."""

    def __init__(self) -> None:
        self.nodes = [ReplicaProcess(number) for number in range(NODES)]

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_exc: object) -> None:
        for node in self.nodes:
            node.close()


class _World:
    """The log, the nodes, and the dump that was adopted."""

    def __init__(self, machine_class: MachineClass, life: UserLife, nodes: list[ReplicaProcess]) -> None:
        self.machine_class = machine_class
        self.life = life
        self.nodes = nodes
        self.random = random.Random(life.seed)
        self.log: list[Place] = []
        self.adopted = (0, b"")

    def run(self, commands: int) -> None:
        for node in self.nodes:
            node.begin(self.life.target)
        while len(self.log) < commands or any(node.pointer < len(self.log) for node in self.nodes):
            if len(self.log) < commands:
                self._propose()
            node = self.random.choice(self.nodes)
            if self._happens(CRASH_PERCENT):
                self._crash(node)
            self._catch_up(node)

    def _happens(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    # --- the log ------------------------------------------------------------------------------------------------------
    def _propose(self) -> None:
        index = len(self.log) + 1
        if self.log and self._happens(AGAIN_PERCENT):
            call = self.random.choice(self.log).call
        else:
            call = drawn_call(self.machine_class, self.random)
        wall_ms = WALL_MS + 1000 * index + self.random.randrange(1000)
        record = CommandRecord(index, CLIENT, index, max(1, index - 50), wall_ms, packed_call(*call))
        read = drawn_read(self.machine_class, self.random) if self._happens(READ_PERCENT) else None
        self.log.append(Place(call, record, self._happens(POINT_PERCENT), read))
        self.life.counts["commands"] += 1

    # --- nodes --------------------------------------------------------------------------------------------------------
    def _crash(self, node: ReplicaProcess) -> None:
        """Its process dies; or the node is closed and opened again in it."""
        if self._happens(50):
            node.begin(self.life.target)
            self.life.counts["crashes"] += 1
        else:
            node.ask("reopen")
            node.pointer = 0
            self.life.counts["reopenings"] += 1

    def _catch_up(self, node: ReplicaProcess) -> None:
        """The commands that it has not run, or the adopted dump in their place when it is behind that."""
        pointer, dump = self.adopted
        if node.pointer < pointer and self._happens(50):
            state = node.ask("load", pointer, dump)
            node.pointer = pointer
            self.life.counts["loads"] += 1
            self._compare_state(node, self.log[pointer - 1], state, "is loaded from a dump")
        for place in self.log[node.pointer : node.pointer + 1 + self.random.randrange(BATCH_MAX)]:
            self._run(node, place)

    def _run(self, node: ReplicaProcess, place: Place) -> None:
        outcome, state, broken = node.ask("run", *place.record)
        node.pointer = place.record.entry_index
        self.life.counts["runs"] += 1
        if place.outcome is None:
            place.outcome, place.state, place.first = outcome, state, node.name
            self._note_outcome(place)
        elif outcome != place.outcome:
            raise Violated(
                f"{self._where(place)} answers {_shown(outcome)} on node {node.name} and {_shown(place.outcome)} "
                f"on node {place.first}{self._differences(node, place)}"
            )
        self._compare_state(node, place, state, "ran it")
        if broken:
            raise Violated(f"after {self._where(place)} on node {node.name}: {'; '.join(broken)}")
        if place.read is not None:
            self._read(node, place, place.read)
        if place.is_point:
            self._dump(node, place)

    def _read(self, node: ReplicaProcess, place: Place, read: Call) -> None:
        answer, state = node.ask("read", *read)
        self.life.counts["reads"] += 1
        if state != place.state:
            raise Violated(f"{call_text(read)} is a read and changes the state, after {self._where(place)}")
        if not place.answer:
            place.answer = answer
        elif answer != place.answer:
            raise Violated(
                f"{call_text(read)} differs between nodes after {self._where(place)}{self._differences(node, place)}"
            )

    def _dump(self, node: ReplicaProcess, place: Place) -> None:
        """The first copy that is there makes the dump that all begin from; the others would be compared with it."""
        pointer, dump = node.ask("dump")
        self.life.counts["dumps"] += 1
        if not place.dump:
            place.dump = dump
            if pointer > self.adopted[0]:
                self.adopted = (pointer, dump)

    # --- verdicts -----------------------------------------------------------------------------------------------------
    def _compare_state(self, node: ReplicaProcess, place: Place, state: bytes, when: str) -> None:
        if state != place.state:
            raise Violated(
                f"the state of node {node.name}, which {when}, is not that of node {place.first} after "
                f"{self._where(place)}{self._differences(node, place)}"
            )

    def _where(self, place: Place) -> str:
        return f"command {place.record.entry_index} {call_text(place.call)}"

    def _differences(self, node: ReplicaProcess, place: Place) -> str:
        try:
            found = node.ask("compare", place.state)
        except Violated as violated:
            found = [str(violated)]
        return "".join(f"\n    {line}" for line in found) or "\n    their dumps are alike: is a field not dumped?"

    def _note_outcome(self, place: Place) -> None:
        assert place.outcome is not None
        try:
            value_of(place.outcome)
        except Rejected:
            self.life.counts["rejected"] += 1
        except CommandFailed as error:
            self.life.counts["failed"] += 1
            self.life.failed.setdefault(error.kind, f"{self._where(place)}: {error}")


def _shown(outcome: bytes) -> str:
    """The answer that a caller would get for it."""
    try:
        return repr(value_of(outcome))
    except Rejected as rejected:
        return f"Rejected({rejected})"
    except CommandFailed as failed:
        return str(failed)


def live_user(target: str, seed: int, commands: int = COMMANDS, replicas: Replicas | None = None) -> UserLife:
    """One life of the class that `target` names as module:Class, decided by the seed.

    commands: how long the log is. replicas: processes to use, None: its own. Raises ValueError: there is no such class,
    or its calls cannot be made up.
    """
    machine_class = load_class(target)
    drawn_call(machine_class, random.Random(seed))
    life = UserLife(target, seed)
    with ExitStack() as stack:
        nodes = (replicas or stack.enter_context(Replicas())).nodes
        try:
            _World(machine_class, life, nodes).run(commands)
        except Violated as violated:
            life.violation = str(violated)
    return life
