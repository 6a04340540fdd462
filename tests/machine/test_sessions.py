"""Sessions: exactly once under pipelining, reordering and expiry (thesis 6.3)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.machine import commands as c
from tests.machine.machines import Answer, Machine, loaded

SESSION = 77


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    assert machine.apply(c.open_session(SESSION)).status == c.OK
    return machine


def add(machine: Machine, sequence: int, lowest: int = 0, session: int = SESSION) -> Answer:
    return machine.apply(c.keys(c.add(b"n", 1), session=session, sequence=sequence, lowest=lowest))


def number(machine: Machine) -> int:
    result: int = machine.results(c.add(b"n", 0))[0]
    return result


def test_duplicate_gets_the_first_result_and_applies_nothing(machine: Machine) -> None:
    first = add(machine, 1)
    add(machine, 2)
    again = add(machine, 1)
    assert again.is_duplicate and again.changed == 0
    assert (again.body, again.revision) == (first.body, first.revision)
    assert number(machine) == 2


def test_refusal_is_a_result_like_any_other(machine: Machine) -> None:
    create = c.keys(c.create(b"k"), session=SESSION, sequence=2, lowest=1)
    machine.txn(c.put(b"k"))
    assert machine.apply(create).status == c.KEY_EXISTS
    machine.txn(c.delete(b"k"))
    answer = machine.apply(create)
    assert (answer.status, answer.is_duplicate) == (c.KEY_EXISTS, True)
    assert machine.value(b"k") is None


def test_pipelined_commands_may_come_in_any_order(machine: Machine) -> None:
    """Not only the highest sequence counts: each one is known by itself."""
    order = list(range(1, 60)) * 2
    random.Random(5).shuffle(order)
    for sequence in order:
        add(machine, sequence)
    assert number(machine) == 59


def test_results_below_the_mark_are_forgotten_and_not_applied_again(machine: Machine) -> None:
    for sequence in (1, 2, 3):
        add(machine, sequence)
    add(machine, 4, lowest=3)
    assert add(machine, 2).status == c.RESULT_EVICTED
    assert add(machine, 3).is_duplicate
    assert number(machine) == 4


def test_mark_never_goes_back(machine: Machine) -> None:
    add(machine, 5, lowest=5)
    add(machine, 6, lowest=1)
    assert add(machine, 4).status == c.RESULT_EVICTED


def test_unapplied_sequence_below_the_mark_is_not_applied(machine: Machine) -> None:
    """The client said it does not wait for it; whether it was applied nobody can tell any more."""
    add(machine, 9, lowest=9)
    assert add(machine, 3).status == c.RESULT_EVICTED
    assert number(machine) == 1


def test_results_are_bounded_by_the_window() -> None:
    machine = Machine(session_window=8)
    machine.apply(c.open_session(SESSION, window=1000))
    for sequence in range(1, 11):
        add(machine, sequence)
    assert [add(machine, sequence).status for sequence in (1, 2)] == [c.RESULT_EVICTED] * 2
    assert all(add(machine, sequence).is_duplicate for sequence in range(3, 11))
    assert number(machine) == 10


def test_client_may_ask_for_a_smaller_window() -> None:
    machine = Machine()
    machine.apply(c.open_session(SESSION, window=2))
    for sequence in (1, 2, 3):
        add(machine, sequence)
    assert [add(machine, sequence).status for sequence in (1, 2)] == [c.RESULT_EVICTED, c.OK]


def test_leap_of_sequences_costs_no_more_than_the_window(machine: Machine) -> None:
    add(machine, 1)
    assert add(machine, (1 << 63) - 1).status == c.OK
    assert add(machine, (1 << 63) - 1).is_duplicate
    assert add(machine, 1).status == c.RESULT_EVICTED
    assert add(machine, (1 << 63) - 100).status == c.OK
    assert add(machine, (1 << 63) - 101).status == c.RESULT_EVICTED


def test_results_are_bounded_by_bytes(machine: Machine) -> None:
    """A session is replicated state: results of large reads leave it, the oldest first."""
    machine.txn(*(c.put(b"%d" % i, bytes(1 << 20)) for i in range(5)))
    reads = [c.keys(c.read_range(b"", b""), session=SESSION, sequence=sequence) for sequence in range(1, 5)]
    assert [machine.apply(read).status for read in reads] == [c.OK] * 4
    assert [machine.apply(read).status for read in reads] == [c.RESULT_EVICTED] + [c.OK] * 3


def test_unknown_session_applies_nothing(machine: Machine) -> None:
    assert add(machine, 1, session=1234).status == c.SESSION_UNKNOWN
    assert number(machine) == 0


def test_command_of_a_session_without_sequence_is_refused(machine: Machine) -> None:
    assert machine.apply(c.keys(c.add(b"n", 1), session=SESSION)).status == c.COMMAND_INVALID
    assert number(machine) == 0


def test_keep_alive_needs_no_sequence_and_renews_its_session(machine: Machine) -> None:
    """It may be applied twice, so it takes no place among the results."""
    machine.apply(c.grant(1, 100))
    machine.lease_ms = 90
    assert machine.apply(c.keep_alive(1, session=SESSION)).body == [100]
    assert machine.handle.due_sessions(1000) == []
    assert machine.handle.session_result(SESSION, 1)[0] == c.NOT_FOUND
    assert machine.apply(c.keep_alive(1, session=5)).status == c.SESSION_UNKNOWN


def test_nonsense_is_answered_to_its_session(machine: Machine) -> None:
    applied = machine.handle.apply(c.keys([99, 0], session=SESSION, sequence=4, lowest=2))
    assert (applied.session, applied.sequence, applied.status) == (SESSION, 4, c.COMMAND_INVALID)
    assert machine.handle.session_result(SESSION, 4)[0] == c.NOT_FOUND


# --- opening, closing, expiry -----------------------------------------------------------------------------------------
def test_open_is_answered_by_the_id_of_the_session() -> None:
    applied = Machine().handle.apply(c.open_session(5))
    assert (applied.session, applied.sequence) == (5, 0)


def test_opening_again_by_the_same_opener_is_idempotent(machine: Machine) -> None:
    add(machine, 1)
    machine.lease_ms = 500
    for envelope in ({}, {"session": SESSION}):
        assert machine.apply(c.open_session(SESSION, **envelope)).status == c.OK
    assert add(machine, 1).is_duplicate
    assert machine.handle.due_sessions(1500) == [(SESSION, 1500)]


def test_opening_again_on_other_terms_is_a_conflict(machine: Machine) -> None:
    assert machine.apply(c.open_session(SESSION, ttl_ms=7)).status == c.ID_CONFLICT
    assert machine.apply(c.open_session(SESSION, window=7)).status == c.ID_CONFLICT


@pytest.mark.parametrize("terms", [(0, 10, 10), (5, 0, 10), (5, (1 << 40) + 1, 10), (5, 10, 0)])
def test_terms_out_of_range_are_refused(terms: tuple[int, int, int]) -> None:
    assert Machine().apply(c.open_session(*terms)).status == c.COMMAND_INVALID


def test_ended_session_never_comes_back(machine: Machine) -> None:
    """1. OPEN is sent twice. 2. The session works and expires. 3. The second OPEN is applied late: were the id open
    again, an old command of it would be applied a second time."""
    add(machine, 1)
    machine.lease_ms = 2000
    machine.apply(c.expire_sessions(*machine.handle.due_sessions(2000)))
    assert add(machine, 1).status == c.SESSION_UNKNOWN
    assert machine.apply(c.open_session(SESSION)).status == c.SESSION_UNKNOWN
    assert add(machine, 1).status == c.SESSION_UNKNOWN
    assert number(machine) == 1


def test_every_entry_of_a_session_renews_it(machine: Machine) -> None:
    machine.lease_ms = 900
    add(machine, 1)
    due = machine.handle.due_sessions(1000)
    assert due == []
    machine.lease_ms = 1800
    add(machine, 1)  # a duplicate too
    assert machine.handle.due_sessions(2799) == []
    assert machine.handle.due_sessions(2800) == [(SESSION, 2800)]


@pytest.mark.parametrize("item", [(SESSION, 1000), (SESSION, 999), (5, 1000)])
def test_session_expiry_is_checked_again_at_apply(machine: Machine, item: tuple[int, int]) -> None:
    machine.lease_ms = 500
    add(machine, 1)  # its deadline is 1500 now
    machine.lease_ms = 1000
    machine.apply(c.expire_sessions(item))
    assert machine.handle.session_exists(SESSION)


def test_close_removes_the_session_and_its_results(machine: Machine) -> None:
    add(machine, 1)
    before = Machine()
    answer = machine.apply(c.close_session(SESSION, session=SESSION, sequence=2))
    assert answer.status == c.OK
    assert not machine.handle.session_exists(SESSION)
    assert machine.handle.session_result(SESSION, 1)[0] == c.SESSION_UNKNOWN
    assert machine.apply(c.close_session(SESSION)).status == c.SESSION_UNKNOWN
    assert before.handle.status().sessions == machine.handle.status().sessions == 0


def test_one_session_may_close_another(machine: Machine) -> None:
    machine.apply(c.open_session(5))
    close: Any = c.close_session(5, session=SESSION, sequence=1)
    assert machine.apply(close).status == c.OK
    assert machine.apply(close).is_duplicate


def test_session_result_after_an_install(machine: Machine) -> None:
    """An install resolves waiting tickets from the table."""
    answer = machine.handle.apply(c.keys(c.add(b"n", 1), session=SESSION, sequence=3, lowest=2))
    assert machine.handle.session_result(SESSION, 3) == (c.OK, answer.body, answer.revision)
    assert machine.handle.session_result(SESSION, 4)[0] == c.NOT_FOUND
    assert machine.handle.session_result(SESSION, 2)[0] == c.NOT_FOUND
    assert machine.handle.session_result(SESSION, 1)[0] == c.RESULT_EVICTED
    assert machine.handle.session_result(5, 1)[0] == c.SESSION_UNKNOWN


def test_ended_ids_are_remembered_in_bounded_number() -> None:
    machine = Machine()
    payloads = []
    for session in range(1, 65_540):
        payloads += [c.open_session(session), c.close_session(session)]
    assert set(machine.handle.apply_many(payloads)) == {c.OK}
    assert machine.apply(c.open_session(65_539)).status == c.SESSION_UNKNOWN
    assert machine.apply(c.open_session(4)).status == c.SESSION_UNKNOWN
    assert machine.apply(c.open_session(3)).status == c.OK


def test_state_hash_does_not_depend_on_when_it_is_asked() -> None:
    """What a session adds to it waits until someone asks. Init: two machines. Act: the same commands of two sessions in
    turn, one of which ends; one machine is asked after each. Check: both hashes, and that of the state loaded anew."""
    often, once = Machine(), Machine()
    commands = [c.open_session(SESSION), c.open_session(78)]
    for sequence in range(1, 40):
        session = 78 if sequence % 5 == 0 else SESSION
        commands.append(c.keys(c.add(b"n", 1), session=session, sequence=sequence, lowest=max(1, sequence - 7)))
    commands += [c.close_session(78), c.keys(c.add(b"n", 1), session=SESSION, sequence=40, lowest=1)]
    for command in commands:
        once.apply(command)
        often.apply(command)
        often.state_hash()
    assert often.state_hash() == once.state_hash() == loaded(once.handle.dump(1 << 16)).status().state_hash


@pytest.mark.parametrize("length", [0, 10, 11, 12, 13, 14, 15, 16, 40, 1000])
def test_results_of_any_length_are_kept_and_forgotten(machine: Machine, length: int) -> None:
    """Short results stand in the table itself, longer ones beside it; both come back to the byte and leave no trace."""
    machine.txn(c.put(b"k", b"v" * length))
    first = machine.apply(c.keys(c.get(b"k"), session=SESSION, sequence=1, lowest=1))
    again = machine.apply(c.keys(c.get(b"k"), session=SESSION, sequence=1, lowest=1))
    assert again.is_duplicate and again.body == first.body
    add(machine, 2, lowest=2)
    assert machine.state_hash() == loaded(machine.handle.dump(1 << 16)).status().state_hash
