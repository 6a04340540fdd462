"""Processes of nodes: what ends with one, and what does not (docs/leases.md)."""

from __future__ import annotations

import pytest

from tests.machine import commands as c
from tests.machine.machines import Machine, loaded

LEVEL_OF_PROCESSES = 7
MEMBER, BOOT = 0xA1, 3


@pytest.fixture
def machine() -> Machine:
    """Session 5 is of the process (MEMBER, BOOT), session 6 of another member's, session 9 of a client."""
    machine = Machine()
    machine.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    assert machine.apply(c.open_session(5, process=(MEMBER, BOOT))).status == c.OK
    assert machine.apply(c.open_session(6, process=(0xB2, 1))).status == c.OK
    assert machine.apply(c.open_session(9)).status == c.OK
    return machine


def held(machine: Machine, lease: int) -> bool:
    return bool(machine.handle.lease(lease)[0] == c.OK)


def grant(machine: Machine, lease: int, session: int, key: bytes | None = None, *, sequence: int = 1) -> None:
    """A lease of that session, with a key on it."""
    assert machine.apply(c.grant(lease, 1000, session=session, sequence=sequence)).status == c.OK
    if key is not None:
        assert machine.txn(c.put(key, lease=lease), session=session, sequence=sequence + 1).status == c.OK


def test_a_process_that_ends_takes_its_leases_and_their_keys_along(machine: Machine) -> None:
    """In one revision, and nothing of others."""
    grant(machine, 1, 5, b"mine")
    grant(machine, 2, 6, b"other")
    grant(machine, 3, 9, b"client")
    answer = machine.apply(c.end_process(MEMBER, BOOT))
    assert (answer.status, answer.changed) == (c.OK, 1)
    assert machine.keys() == [b"client", b"other"]
    assert [held(machine, lease) for lease in (1, 2, 3)] == [False, True, True]
    assert machine.apply(c.end_process(MEMBER, BOOT)).changed == 0


def test_nothing_of_an_ended_process_takes_effect(machine: Machine) -> None:
    """Its session is over for ever: writes, keep-alives, grants, and another opening of that session."""
    grant(machine, 1, 5, b"mine")
    machine.apply(c.end_process(MEMBER, BOOT))
    assert machine.txn(c.put(b"late"), session=5, sequence=3).status == c.SESSION_UNKNOWN
    assert machine.apply(c.keep_alive(1, session=5)).status == c.SESSION_UNKNOWN
    assert machine.apply(c.grant(4, 1000, session=5, sequence=4)).status == c.SESSION_UNKNOWN
    assert machine.apply(c.open_session(5, process=(MEMBER, BOOT))).status == c.SESSION_UNKNOWN
    assert machine.keys() == []


def test_a_fence_of_an_ended_process_holds_no_more(machine: Machine) -> None:
    grant(machine, 1, 5, b"mine")
    revision = machine.handle.get(b"mine")[1][2]
    machine.apply(c.end_process(MEMBER, BOOT))
    assert machine.txn(c.put(b"k"), fence=(b"mine", revision), session=9, sequence=1).status == c.FENCED


@pytest.mark.parametrize(("member", "boot", "stays"), [(MEMBER, 2, True), (0xB2, 3, True), (MEMBER, 4, False)])
def test_only_lives_up_to_the_boot_end(machine: Machine, member: int, boot: int, stays: bool) -> None:
    grant(machine, 1, 5)
    machine.apply(c.end_process(member, boot))
    assert held(machine, 1) is stays


def test_a_lease_that_several_keep_stays(machine: Machine) -> None:
    """A keep-alive of a client, of another process, or of nobody's session."""
    for lease, session in ((1, 9), (2, 6), (3, 0)):
        grant(machine, lease, 5, sequence=lease)
        answer = machine.apply(c.keep_alive(lease, session=session, sequence=lease if session == 9 else 0))
        assert answer.status == c.OK
        machine.apply(c.keep_alive(lease, session=5))
    machine.apply(c.end_process(MEMBER, BOOT))
    assert [held(machine, lease) for lease in (1, 2, 3)] == [True, True, True]


def test_another_session_of_the_same_process_keeps_its_leases(machine: Machine) -> None:
    grant(machine, 1, 5)
    machine.apply(c.close_session(5))
    machine.apply(c.open_session(7, process=(MEMBER, BOOT)))
    machine.apply(c.keep_alive(1, session=7))
    machine.apply(c.end_process(MEMBER, BOOT))
    assert not held(machine, 1)


def test_a_lease_from_before_the_level_is_the_process_s_from_its_next_keep_alive(machine: Machine) -> None:
    """The session tells its process late, and a caller who renews a lease by hand does not make it the process's."""
    old = Machine()
    old.apply(c.open_session(5))
    grant(old, 1, 5)
    grant(old, 2, 5, sequence=2)
    old.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    assert old.apply(c.open_session(5, process=(MEMBER, BOOT))).status == c.OK
    old.apply(c.keep_alive(1, session=5))
    old.apply(c.keep_alive(2, session=5, sequence=3))
    old.apply(c.end_process(MEMBER, BOOT))
    assert [held(old, lease) for lease in (1, 2)] == [False, True]


def test_below_its_level_nothing_is_known_of_processes() -> None:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES - 1))
    before = machine.state_hash()
    assert machine.apply(c.open_session(5, process=(MEMBER, BOOT))).status == c.COMMAND_INVALID
    assert machine.apply(c.end_process(MEMBER, BOOT)).status == c.COMMAND_INVALID
    assert machine.state_hash() == before


@pytest.mark.parametrize("process", [(0, 1), (MEMBER, 0), (MEMBER, 1 << 63)])
def test_a_process_without_member_or_boot_is_nonsense(machine: Machine, process: tuple[int, int]) -> None:
    assert machine.apply(c.end_process(*process)).status == c.COMMAND_INVALID
    assert machine.apply(c.open_session(8, process=process)).status == c.COMMAND_INVALID


def test_more_keys_than_an_entry_may_change_go_in_several(machine: Machine) -> None:
    """The sessions end with the first; the process is named until the answer says that no lease is left."""
    for lease in (1, 2):
        assert machine.apply(c.grant(lease, 1000, session=5, sequence=lease)).status == c.OK
        puts = [c.put(b"%d-%05d" % (lease, number), lease=lease) for number in range(6000)]
        assert machine.txn(*puts).status == c.OK
    answer = machine.apply(c.end_process(MEMBER, BOOT))
    assert (answer.changed, answer.body) == (6000, 1)
    assert machine.txn(c.put(b"late"), session=5, sequence=9).status == c.SESSION_UNKNOWN
    answer = machine.apply(c.end_process(MEMBER, BOOT))
    assert (answer.changed, answer.body) == (6000, 0)
    assert machine.keys() == []


def test_processes_are_part_of_the_state_and_of_its_dump(machine: Machine) -> None:
    """Two machines that differ in them have other hashes; a loaded one goes on alike."""
    twin = Machine()
    twin.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    for session in (5, 6, 9):
        twin.apply(c.open_session(session))
    assert twin.state_hash() != machine.state_hash()
    grant(machine, 1, 5, b"mine")
    grant(machine, 2, 5, b"shared", sequence=3)
    machine.apply(c.keep_alive(2, session=6))
    copy = Machine()
    copy.handle = loaded(list(machine.handle.dump(1 << 16)))
    assert copy.state_hash() == machine.state_hash()
    for one in (machine, copy):
        one.apply(c.end_process(MEMBER, BOOT))
        assert one.keys() == [b"shared"]
    assert copy.state_hash() == machine.state_hash()


def test_what_ended_otherwise_is_forgotten(machine: Machine) -> None:
    """The state is as if nobody had ever held it: a lease that expired, one that was revoked, a closed session."""
    bare = Machine()
    bare.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    for session in (5, 6, 9):
        bare.apply(c.open_session(session))
    for one in (machine, bare):
        grant(one, 1, 5)
        one.apply(c.revoke(1, session=5, sequence=2))
        grant(one, 2, 6)
        one.lease_ms = 1000
        one.apply(c.expire((2, 1000)))
        one.apply(c.close_session(5))
        one.apply(c.close_session(6))
    assert machine.state_hash() == bare.state_hash()
