"""Copies without a node: outcomes, what stays of a command that raises, dumps (raftmeta/user_machines/copy.py)."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raftmeta
from raftmeta.user_machines import copy as user_copy
from raftmeta.user_machines.calls import FORMAT_CALL_DEPTH, packed_call, packed_upgrade, value_of
from raftmeta.user_machines.classes import MachineClass, machine_class_of
from raftmeta.user_machines.copy import CommandRecord, Copy, MachineFault
from tests.replicated.machines import Board, Pickled, Stack


class Log:
    """Numbers commands as a log does."""

    def __init__(self) -> None:
        self.index = 0

    def record(self, data: bytes, *, session: int = 1, lowest: int = 0) -> CommandRecord:
        self.index += 1
        return CommandRecord(self.index, session, self.index, lowest, 1000 * self.index, data)

    def call(self, name: str, *args: Any, **kwargs: Any) -> CommandRecord:
        return self.record(packed_call(name, args, kwargs))


def copy_of(cls: type) -> Copy:
    return Copy(machine_class_of(cls))


def run(copy: Copy, record: CommandRecord) -> Any:
    return value_of(copy.run(record))


def test_results_and_rejections_are_outcomes() -> None:
    log, copy = Log(), copy_of(Board)
    assert run(copy, log.call("move", "ann", 3)) == 1
    with pytest.raises(raftmeta.Rejected, match="3 is taken") as rejected:
        run(copy, log.call("move", "bob", 3))
    assert rejected.value.details == {"by": "ann"}
    assert copy.state.places == {"ann": 3}


def test_nothing_stays_of_a_command_that_raises() -> None:
    """Its error is its result; what it had changed is gone."""
    log, copy = Log(), copy_of(Board)
    run(copy, log.call("move", "ann", 3))
    with pytest.raises(raftmeta.CommandFailed, match="ValueError: torn at ann") as failed:
        run(copy, log.call("tear", "ann"))
    assert failed.value.kind == "ValueError"
    assert (copy.state.places, copy.state.moves) == ({"ann": 3}, 1)
    assert run(copy, log.call("move", "bob", 4)) == 2


@pytest.mark.parametrize(
    "call",
    [
        ("nothing",),
        ("standing",),
        ("__init__",),
        ("move",),
        ("move", "ann", 1, 2),
        ("move", ["unhashable"], 1),
    ],
)
def test_a_call_that_cannot_be_made_fails_and_changes_nothing(call: tuple[Any, ...]) -> None:
    """An unknown command, a read, wrong arguments: on every node alike."""
    log, copy = Log(), copy_of(Board)
    run(copy, log.call("move", "ann", 3))
    with pytest.raises(raftmeta.CommandFailed):
        run(copy, log.call(*call))
    assert copy.state.standing() == {"ann": 3}
    with pytest.raises(raftmeta.CommandFailed):
        run(copy, log.record(b"\xc1 no call"))


def test_a_result_that_is_no_plain_value_fails_and_changes_nothing() -> None:
    @raftmeta.replicated
    class Odd:
        def __init__(self) -> None:
            self.n = 0

        @raftmeta.command
        def leak(self) -> object:
            self.n += 1
            return object()

    copy = copy_of(Odd)
    with pytest.raises(raftmeta.CommandFailed, match="not a plain value"):
        run(copy, Log().call("leak"))
    assert copy.state.n == 0


def test_messages_do_not_show_addresses() -> None:
    """They are part of the dump, and differ from process to process."""

    @raftmeta.replicated
    class Shy:
        @raftmeta.command
        def show(self) -> None:
            raise LookupError(object())

    with pytest.raises(raftmeta.CommandFailed, match=r"LookupError: <object object at 0x\.\.\.>"):
        run(copy_of(Shy), Log().call("show"))


def test_no_memory_stops_the_copy_and_names_the_entry() -> None:
    """What one host cannot do another may: it is no result."""

    @raftmeta.replicated
    class Faulty:
        @raftmeta.command
        def fault(self) -> None:
            raise MemoryError

    with pytest.raises(MachineFault, match=r"MemoryError at entry \d+"):
        copy_of(Faulty).run(Log().call("fault"))


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_whatever_else_a_command_raises_is_a_result(error: type[BaseException]) -> None:
    """Every node runs the same command: an exception that stopped the copy would stop it everywhere, for ever."""

    @raftmeta.replicated
    class Leaving:
        def __init__(self) -> None:
            self.n = 0

        @raftmeta.command
        def leave(self) -> None:
            self.n += 1
            raise error("now")

    copy = copy_of(Leaving)
    with pytest.raises(raftmeta.CommandFailed) as caught:
        run(copy, Log().call("leave"))
    assert caught.value.kind == error.__name__
    assert copy.state.n == 0


@raftmeta.replicated
class Deep:
    def __init__(self) -> None:
        self.deepest = 0

    @raftmeta.command
    def dive(self, depth: int) -> int:
        """depth: how many calls are nested, this one included."""
        self.deepest = depth
        return self._down(depth - 1)

    def _down(self, depth: int) -> int:
        return self._down(depth - 1) + 1 if depth > 1 else 1


@pytest.fixture
def host_limit() -> Iterator[Callable[[int], None]]:
    before = sys.getrecursionlimit()
    yield sys.setrecursionlimit
    sys.setrecursionlimit(before)


def deepest_dive() -> int:
    """The greatest depth that a command may reach on this host."""
    log, copy = Log(), copy_of(Deep)
    for depth in range(FORMAT_CALL_DEPTH + 20, 0, -1):
        try:
            run(copy, log.call("dive", depth))
        except raftmeta.CommandFailed as failed:
            assert failed.kind == "RecursionError" and str(FORMAT_CALL_DEPTH) in str(failed)
            assert copy.state.deepest == 0
        else:
            return depth
    raise AssertionError("no dive succeeded")


def test_how_deep_a_command_may_call_depends_on_no_host(host_limit: Callable[[int], None]) -> None:
    """Not on its recursion limit, nor on how deep the caller stands: else nodes would differ in what a command did."""

    def below(depth: int) -> int:
        return deepest_dive() if depth == 0 else below(depth - 1)

    found = {deepest_dive(), below(200)}
    for limit in (1_000, 5_000, 100_000):
        host_limit(limit)
        found.add(deepest_dive())
    assert len(found) == 1
    assert FORMAT_CALL_DEPTH - 5 <= found.pop() <= FORMAT_CALL_DEPTH + 5
    assert sys.getrecursionlimit() == 100_000


def test_the_limit_of_a_thread_is_as_it_was_after_a_command() -> None:
    def depth_left(count: int = 0) -> int:
        try:
            return depth_left(count + 1)
        except RecursionError:
            return count

    before = depth_left()
    deepest_dive()
    assert depth_left() == before


def test_a_command_that_raises_when_it_is_run_again_stops_the_copy() -> None:
    @raftmeta.replicated
    class Moody:
        moods = iter([False, True])

        @raftmeta.command
        def sulk(self) -> None:
            if next(self.moods):
                raise ValueError

        @raftmeta.command
        def fail(self) -> None:
            raise ValueError

    log, copy = Log(), copy_of(Moody)
    run(copy, log.call("sulk"))
    with pytest.raises(MachineFault, match="not deterministic"):
        copy.run(log.call("fail"))


def test_entries_give_the_same_time_and_chance_to_every_copy() -> None:
    @raftmeta.replicated
    class Dice:
        @raftmeta.command
        def roll(self) -> list[Any]:
            entry = raftmeta.current_entry()
            return [entry.index, entry.wall_s, entry.random().randint(1, 6)]

    record = Log().call("roll")
    first = run(copy_of(Dice), record)
    assert first == run(copy_of(Dice), record) == [1, 1.0, random.Random(1).randint(1, 6)]
    with pytest.raises(RuntimeError):
        raftmeta.current_entry()


# --- dumps ------------------------------------------------------------------------------------------------------------
calls = st.one_of(
    st.tuples(st.just("move"), st.sampled_from("abc"), st.integers(0, 4)),
    st.tuples(st.just("tear"), st.sampled_from("abc")),
    st.tuples(st.just("nothing")),
)


@given(st.lists(st.tuples(calls, st.booleans(), st.integers(0, 3)), max_size=30))
def test_a_loaded_copy_goes_on_as_the_dumped_one(steps: list[tuple[Any, bool, int]]) -> None:
    """Same outcomes, same later dumps, whichever copy was dumped and loaded where."""
    log = Log()
    whole, loaded = copy_of(Board), copy_of(Board)
    for call, does_dump, behind in steps:
        record = log.record(packed_call(call[0], call[1:], {}), lowest=max(0, log.index - behind))
        assert whole.run(record) == loaded.run(record)
        if does_dump:
            dump = whole.dump()
            assert loaded.dump() == dump
            loaded = copy_of(Board)
            loaded.load(dump.data, dump.pointer)
    assert loaded.dump() == whole.dump()


@given(st.lists(calls, max_size=25))
def test_commands_that_raise_leave_what_a_plain_object_has(steps: list[Any]) -> None:
    log, copy, plain = Log(), copy_of(Board), Board()
    for name, *args in steps:
        record = log.call(name, *args)
        try:
            expected: Any = getattr(plain, name)(*args) if name == "move" else None
        except raftmeta.Rejected:
            expected = None
        try:
            outcome = run(copy, record)
        except raftmeta.Refused:
            outcome = None
        assert outcome == expected
        assert vars(copy.state) == vars(plain)


def test_outcomes_are_kept_until_their_session_has_seen_them() -> None:
    log, copy = Log(), copy_of(Stack)
    for number in range(5):
        copy.run(log.record(packed_call("push", [number], {}), session=1 + number % 2))
    copy.run(log.record(packed_call("push", [5], {}), session=1, lowest=4))
    kept = [index for index in range(1, 7) if copy.outcomes.get(index) is not None]
    assert kept == [2, 4, 5, 6]
    assert value_of(copy.outcomes.get(5) or b"") == 5


def test_outcomes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that never say what they have seen."""
    monkeypatch.setattr(user_copy, "FORMAT_OUTCOMES_MAX", 10)
    monkeypatch.setattr(user_copy, "FORMAT_OUTCOME_BYTES_MAX", 500)
    log, copy = Log(), copy_of(Stack)
    for _ in range(12):
        copy.run(log.record(packed_call("push", [1], {})))
    assert [copy.outcomes.get(index) is None for index in range(1, 13)] == [True] * 2 + [False] * 10
    copy.run(log.record(packed_call("push", ["x" * 600], {})))
    copy.run(log.record(packed_call("pop", [], {})))
    assert [copy.outcomes.get(index) is None for index in range(1, 15)] == [True] * 13 + [False]


def test_own_dump_and_load_are_used() -> None:
    log, copy = Log(), copy_of(Pickled)
    run(copy, log.call("go", 1.0, 2.0))
    dump = copy.dump()
    loaded = copy_of(Pickled)
    loaded.load(dump.data, dump.pointer)
    assert run(loaded, log.call("go", 1.0, 0.0)) == "(2+2j)"


# --- versions ---------------------------------------------------------------------------------------------------------
def versioned(version: int) -> MachineClass:
    if version == 1:

        @raftmeta.replicated
        class Old:
            @raftmeta.command
            def old(self) -> str:
                return "old"

        return machine_class_of(Old)

    @raftmeta.replicated(version=2)
    class New:
        @raftmeta.command
        def old(self) -> str:
            return "old"

        @raftmeta.command(since=2)
        def new(self) -> str:
            return "new"

    return machine_class_of(New)


def test_a_new_command_fails_alike_until_the_machine_is_upgraded() -> None:
    log, old, new = Log(), Copy(versioned(1)), Copy(versioned(2))
    record = log.call("new")
    assert old.run(record) == new.run(record)
    upgrade = log.record(packed_upgrade(2))
    assert run(new, upgrade) == 2
    assert run(new, log.call("new")) == "new"
    with pytest.raises(MachineFault, match="version 2, the class on this node 1"):
        old.run(upgrade)
    dump = new.dump()
    with pytest.raises(MachineFault, match="update it"):
        Copy(versioned(1)).load(dump.data, dump.pointer)
