"""User machines in the replicated state: tails, points and dumps (raftmeta/machine/user_machines.pxd)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.machine import UserStatus
from tests.machine import commands as c
from tests.machine.machines import Answer, Machine, loaded
from tests.machine.test_dump import dumped

MIB = 1 << 20
HEAD = struct.Struct("<6Q")


def user_machine(**limits: int) -> Machine:
    """A machine at the level of user machines."""
    machine = Machine(**limits)
    machine.apply(c.command(c.LEVEL, 2))
    return machine


def give(machine: Machine, data: bytes, name: bytes = b"m", **envelope: Any) -> Answer:
    return machine.apply(c.command(c.USER, name, data, **envelope))


def send(machine: Machine, pointer: int, part: bytes, offset: int, total: int, digest: int = 7) -> Answer:
    return machine.apply(c.command(c.USER_DUMP, digest, b"m", part, pointer, offset, total))


def seen(machine: Machine, name: bytes = b"m") -> UserStatus:
    status = machine.handle.user(name)
    assert status is not None
    return status


def taken(machine: Machine, after: int = 0, bytes_max: int = 1 << 30, name: bytes = b"m") -> list[tuple[int, bytes]]:
    """(index, data) of the commands above `after`."""
    raw = machine.handle.user_take(name, after, bytes_max)
    found = []
    while raw:
        index, *_, length = HEAD.unpack_from(raw)
        found.append((index, raw[HEAD.size : HEAD.size + length]))
        raw = raw[HEAD.size + length + -length % 8 :]
    return found


def at_point(machine: Machine) -> int:
    """Give commands until a dump is due."""
    give(machine, bytes(300_000))
    while not seen(machine).point:
        give(machine, bytes(300_000))
    return seen(machine).point


def test_the_answer_of_a_command_is_its_index_and_a_repeated_one_gets_it_again() -> None:
    """thesis 6.3: the session makes it one command of the tail."""
    machine = user_machine()
    machine.apply(c.open_session(5, ttl_ms=500, window=8))
    first = give(machine, b"x", session=5, sequence=1)
    again = give(machine, b"x", session=5, sequence=1)
    assert first.body == again.body == 3
    assert again.is_duplicate
    assert taken(machine) == [(3, b"x")]


def test_a_copy_takes_what_is_above_its_pointer() -> None:
    machine = user_machine()
    data = [bytes([i]) * (i * 37 % 5000) for i in range(200)]
    indexes = [give(machine, each).body for each in data]
    everything = list(zip(indexes, data, strict=True))
    assert taken(machine) == everything
    for position in (0, 1, 57, 150, 199):
        assert taken(machine, indexes[position]) == everything[position + 1 :]
    assert taken(machine, 0, 1) == everything[:1]
    piece = taken(machine, indexes[10], 4000)
    assert 0 < len(piece) < 150
    assert piece == everything[11 : 11 + len(piece)]


def test_machines_have_tails_of_their_own() -> None:
    machine = user_machine()
    give(machine, b"1", b"one")
    give(machine, b"2", b"two")
    assert taken(machine, name=b"one") == [(2, b"1")]
    assert taken(machine, name=b"two") == [(3, b"2")]
    assert machine.handle.user(b"three") is None


def test_a_whole_dump_takes_the_place_of_the_commands_in_it() -> None:
    machine = user_machine()
    point = at_point(machine)
    behind = give(machine, b"behind").body
    assert send(machine, point, b"ab", 0, 5).body == 2
    assert seen(machine).staged == b"ab"
    assert send(machine, point, b"cde", 2, 5).body == 5
    status = seen(machine)
    assert (status.point, status.dump_index, status.dump, status.digest) == (0, point, b"abcde", 7)
    assert taken(machine) == [(behind, b"behind")]
    assert status.tail_count == 1


def test_parts_may_come_from_two_senders_when_their_dumps_are_alike() -> None:
    """The leader died while it sent: another node goes on where it stopped."""
    machine = user_machine()
    point = at_point(machine)
    assert send(machine, point, b"ab", 0, 4).body == 2
    assert send(machine, point, b"ab", 0, 4).body == 2
    assert send(machine, point, b"xx", 0, 4, digest=8).status == c.COMPARE_FAILED
    assert send(machine, point, b"cd", 2, 4).status == c.OK
    assert seen(machine).dump == b"abcd"


@pytest.mark.parametrize(
    ("pointer", "part", "offset", "total", "status"),
    [
        (1, b"ab", 0, 4, c.COMPARE_FAILED),
        (0, b"ab", 1, 4, c.COMPARE_FAILED),
        (0, b"", 0, 4, c.COMMAND_INVALID),
        (0, b"abcde", 0, 4, c.COMMAND_INVALID),
        (0, b"ab", 0, 1 << 40, c.COMMAND_INVALID),
    ],
)
def test_a_part_that_does_not_fit_is_refused(pointer: int, part: bytes, offset: int, total: int, status: int) -> None:
    machine = user_machine()
    point = at_point(machine)
    before = machine.state_hash()
    assert send(machine, point + pointer, part, offset, total).status == status
    assert machine.state_hash() == before


def test_a_point_that_nobody_dumps_moves_on() -> None:
    """Its copies failed, or all restarted: a later dump leaves less to run again."""
    machine = user_machine()
    point = at_point(machine)
    send(machine, point, b"ab", 0, 4)
    while seen(machine).point == point:
        give(machine, bytes(300_000))
    assert seen(machine).point == seen(machine).last
    assert seen(machine).staged == b""
    assert send(machine, point, b"cd", 2, 4).status == c.COMPARE_FAILED


def test_many_small_commands_make_a_dump_due() -> None:
    machine = user_machine()
    machine.handle.apply_many([c.command(c.USER, b"m", b"")] * 10_000)
    assert seen(machine).point == seen(machine).last


def test_a_tail_that_nobody_dumps_is_bounded() -> None:
    """Every node refuses the same commands, and the caller may try again later."""
    machine = user_machine()
    statuses = [give(machine, bytes(MIB)).status for _ in range(65)]
    assert statuses == [c.OK] * 63 + [c.OVERLOADED] * 2
    assert send(machine, seen(machine).point, b"a", 0, 1).status == c.OK
    assert give(machine, bytes(MIB)).status == c.OK


def test_names_and_sizes_are_bounded() -> None:
    machine = user_machine(value_bytes_max=1000)
    assert give(machine, b"", b"").status == c.COMMAND_INVALID
    assert give(machine, b"", bytes(65)).status == c.COMMAND_INVALID
    assert give(machine, bytes(1001)).status == c.VALUE_TOO_LARGE
    statuses = [give(machine, b"", b"%d" % i).status for i in range(257)]
    assert statuses == [c.OK] * 256 + [c.TOO_MANY_MACHINES]


step = st.one_of(
    st.tuples(st.just("give"), st.sampled_from([b"m", b"n"]), st.integers(0, 600_000)),
    st.tuples(st.just("send"), st.integers(1, 5), st.booleans()),
)


@given(st.lists(step, max_size=25))
def test_a_loaded_machine_has_the_same_users_and_goes_on_alike(steps: list[tuple[Any, ...]]) -> None:
    """Sum of hashes, dump and tail agree, for user machines too."""
    machine = user_machine()
    give(machine, b"first")
    for kind, *arguments in steps:
        if kind == "give":
            give(machine, bytes(arguments[1]), arguments[0])
        else:
            staged = len(seen(machine).staged)
            send(
                machine, seen(machine).point, bytes(arguments[0]), staged, 9 if arguments[1] else staged + arguments[0]
            )
    copy = Machine()
    copy.handle = loaded(dumped(machine.handle, 1000))
    assert copy.state_hash() == machine.state_hash()
    assert copy.handle.user(b"m") == machine.handle.user(b"m")
    assert taken(copy) == taken(machine)
    assert b"".join(dumped(copy.handle)) == b"".join(dumped(machine.handle))
    for each in (machine, copy):
        give(each, b"next")
        send(each, seen(each).point, b"x", 0, 1)
    assert copy.state_hash() == machine.state_hash()


def test_a_dump_of_the_state_shows_what_stood_when_it_began() -> None:
    """While it is read, the tail grows and the parts of an older dump of the machine are given back."""
    machine = user_machine()
    point = at_point(machine)
    send(machine, point, b"old", 0, 3)
    give(machine, b"tail")
    expected = machine.state_hash()
    chunks = machine.handle.dump(64)
    begun = [next(chunks)]
    point = at_point(machine)
    send(machine, point, b"new", 0, 3)
    machine.handle.publish()
    machine.handle.apply_many([c.command(c.USER, b"m", bytes(1000))] * 500)
    assert loaded([*begun, *chunks]).status().state_hash == expected
