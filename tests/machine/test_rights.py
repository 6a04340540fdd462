"""Rights, one rule a test: who may do what, in the log, and who speaks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machine import commands as c
from tests.machine.machines import Answer, Machine, loaded

SESSION = 70


class Guarded(Machine):
    """A machine with rights on: `boss` may do everything, `user` what the test grants to the role `role`."""

    def __init__(self, *grants: bytes, **limits: int) -> None:
        super().__init__(**limits)
        self.sequence = 0
        self.apply(c.command(c.LEVEL, 3))
        for verb, name, data in (
            (c.USER_PUT, b"boss", c.secret()),
            (c.USER_PUT, b"user", c.secret()),
            (c.ROLE_PUT, b"all", b""),
            (c.ROLE_PUT, b"role", b""),
            (c.GRANT_RIGHT, b"all", c.grant_of(c.ADMIN)),
            (c.BIND, b"boss", b"all"),
            (c.BIND, b"user", b"role"),
        ):
            assert self.apply(c.rights(verb, name, data)).status == c.OK
        for grant in grants:
            assert self.apply(c.rights(c.GRANT_RIGHT, b"role", grant)).status == c.OK
        assert self.apply(c.rights(c.ENABLE)).status == c.OK
        self.apply(c.spoken(c.open_session(SESSION), b"user"))
        self.apply(c.spoken(c.open_session(SESSION + 1), b"boss"))

    def speak(self, name: bytes, make: Any, *fields: Any, **envelope: Any) -> Answer:
        """Apply a command of `user` or `boss`, in the session that is theirs."""
        self.sequence += 1
        session = SESSION + (name == b"boss")
        return self.apply(c.spoken(make(*fields, session=session, sequence=self.sequence, **envelope), name))

    def user(self, make: Any, *fields: Any, **envelope: Any) -> Answer:
        return self.speak(b"user", make, *fields, **envelope)

    def boss(self, make: Any, *fields: Any, **envelope: Any) -> Answer:
        answer = self.speak(b"boss", make, *fields, **envelope)
        assert answer.status == c.OK
        return answer

    def denied(self, make: Any, *fields: Any, **envelope: Any) -> Any:
        """A command of `user` that must be denied and change nothing; why, as [right, start, end]."""
        before = self.handle.status()
        answer = self.user(make, *fields, **envelope)
        assert answer.status == c.PERMISSION_DENIED
        after = self.handle.status()
        assert (after.revision, after.keys, after.leases) == (before.revision, before.keys, before.leases)
        return answer.body


def some(bits: int) -> bytes:
    return c.grant_of(bits, b"a", b"b")


def test_without_rights_nothing_of_them_is_state() -> None:
    """A machine that never had rights dumps what it always did: no record above those of user machines."""
    machine = Machine()
    machine.txn(c.put(b"k", b"v"))
    kinds = set()
    data = b"".join(machine.handle.dump())
    while data:
        length, kind = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
        kinds.add(kind)
        data = data[8 + length :]
    assert kinds <= {*range(1, 12), 255}
    assert machine.handle.allow(b"anybody", c.ADMIN, b"")


@pytest.mark.parametrize(
    ("operation", "missing"),
    [
        (c.put(b"z", b"v"), c.WRITE),
        (c.put(b"z", b"v", flags=c.WANT_PREVIOUS), c.READ),
        (c.put(b"z", flags=c.KEEP_VALUE), c.READ),
        (c.create(b"z", b"v"), c.READ),
        (c.update(b"z", b"v"), c.READ),
        (c.delete(b"z"), c.READ),
        (c.delete_range(b"a", b"c"), c.READ),
        (c.delete_range(b"", b""), c.READ),
        (c.get(b"z"), c.READ),
        (c.read_range(b"a", b"c"), c.READ),
        (c.read_range(b"a", b""), c.READ),
        (c.add(b"z", 1), c.READ),
    ],
)
def test_an_operation_needs_its_rights_over_all_its_keys(operation: list[Any], missing: int) -> None:
    """Alone, in either branch of a nested transaction, and behind one that is granted."""
    machine = Guarded(some(c.READ | c.WRITE))
    for wrapped in (
        c.txn([operation]),
        c.txn([], [], [operation]),
        c.txn([c.nested(c.nested(otherwise=[operation]))]),
        c.txn([c.get(b"a"), operation]),
    ):
        right, start, _ = machine.denied(lambda txn, **envelope: c.command(c.KEYS, txn, **envelope), wrapped)
        assert (right, start) == (missing, operation[2])


def test_a_plain_put_is_all_that_needs_no_read() -> None:
    machine = Guarded(some(c.WRITE))
    assert machine.user(c.keys, c.put(b"a", b"1")).status == c.OK
    for operation in (c.create(b"a1"), c.delete(b"a"), c.delete_range(b"a", b"b"), c.add(b"a2", 1), c.get(b"a")):
        assert machine.denied(c.keys, operation)[0] == c.READ
    assert machine.denied(c.keys, c.put(b"a", b"2", flags=c.WANT_PREVIOUS))[0] == c.READ


def test_compares_and_fences_need_read() -> None:
    machine = Guarded(some(c.READ | c.WRITE))
    for target in (c.VERSION, c.CREATE_REVISION, c.MOD_REVISION, c.LEASE):
        compare = [target, c.EQUAL, b"z", 0]
        assert machine.denied(c.keys, c.put(b"a"), compares=[compare]) == [c.READ, b"z", None]
        assert machine.denied(c.keys, c.nested(compares=[compare])) == [c.READ, b"z", None]
    assert machine.denied(c.keys, compares=[[c.VALUE, c.EQUAL, b"z", b"v"]]) == [c.READ, b"z", None]
    assert machine.denied(c.keys, compares=[[c.RANGE_EMPTY, c.EQUAL, b"a", b"c"]]) == [c.READ, b"a", b"c"]
    of_all = [c.VERSION + c.OF_ALL, c.EQUAL, b"a", [b"c", 1]]
    assert machine.denied(c.keys, compares=[of_all]) == [c.READ, b"a", b"c"]
    assert machine.denied(c.keys, c.put(b"a"), fence=(b"z", 1)) == [c.READ, b"z", None]
    assert machine.user(c.keys, c.put(b"a"), fence=(b"a", 1)).status == c.FENCED


def test_a_refusal_comes_before_anything_is_looked_at() -> None:
    """init: two machines that differ in a key that `user` must not see. check: all that it hears is the same."""
    machines = [Guarded(some(c.READ | c.WRITE)) for _ in range(2)]
    machines[0].boss(c.keys, c.put(b"z", b"secret"))
    machines[1].boss(c.keys, c.put(b"y", b"secret"))
    for operation in (c.get(b"z"), c.create(b"z"), c.delete(b"z"), c.add(b"z", 1), c.delete_range(b"y", b"z")):
        answers = [machine.user(c.keys, c.get(b"a"), operation) for machine in machines]
        assert answers[0] == answers[1]


def test_a_key_made_of_a_number_needs_the_right_over_all_numbers() -> None:
    machine = Guarded(c.grant_of(c.READ | c.WRITE, b"n", b"o"), c.grant_of(c.WRITE, b"q0", b"q5"))
    queue = c.put(b"q", b"item", flags=c.KEY_FROM_RESULT, result_from=0)
    assert machine.denied(c.keys, c.add(b"n", 1), queue) == [c.WRITE, b"q", None]
    machine.apply(c.rights(c.GRANT_RIGHT, b"role", c.grant_of(c.WRITE, b"q5", b"q:")))
    assert machine.user(c.keys, c.add(b"n", 1), queue).status == c.OK


def test_grants_cover_a_range_together() -> None:
    """Touching grants of several roles, in any order; a gap is a gap."""
    machine = Guarded(c.grant_of(c.READ, b"c", b"d"), c.grant_of(c.READ, b"a", b"b"))
    assert machine.denied(c.keys, c.read_range(b"a", b"d"))[0] == c.READ
    machine.apply(c.rights(c.ROLE_PUT, b"more"))
    machine.apply(c.rights(c.GRANT_RIGHT, b"more", c.grant_of(c.READ, b"b", b"c")))
    machine.apply(c.rights(c.BIND, b"user", b"more"))
    assert machine.user(c.keys, c.read_range(b"a", b"d")).status == c.OK
    assert machine.denied(c.keys, c.read_range(b"a", b""))[0] == c.READ
    machine.apply(c.rights(c.GRANT_RIGHT, b"more", c.grant_of(c.READ, b"cc", b"")))
    assert machine.user(c.keys, c.read_range(b"a", b"")).status == c.OK
    assert machine.user(c.keys, c.read_range(b"z", b"b")).status == c.OK


def test_a_right_that_was_taken_is_gone_with_the_entry() -> None:
    machine = Guarded(some(c.READ | c.WRITE))
    machine.apply(c.rights(c.REVOKE_RIGHT, b"role", some(c.READ)))
    assert machine.denied(c.keys, c.get(b"a")) == [c.READ, b"a", None]
    assert machine.user(c.keys, c.put(b"a")).status == c.OK
    machine.apply(c.rights(c.UNBIND, b"user", b"role"))
    assert machine.denied(c.keys, c.put(b"a")) == [c.WRITE, b"a", None]
    machine.apply(c.rights(c.BIND, b"user", b"role"))
    assert machine.user(c.keys, c.put(b"a")).status == c.OK
    machine.apply(c.rights(c.ROLE_REMOVE, b"role"))
    assert machine.denied(c.keys, c.put(b"a")) == [c.WRITE, b"a", None]


def test_a_denial_is_a_result_and_a_retry_gets_it_again() -> None:
    machine = Guarded(some(c.WRITE))
    payload = c.spoken(c.keys(c.put(b"z"), session=SESSION, sequence=9), b"user")
    assert machine.apply(payload).status == c.PERMISSION_DENIED
    machine.apply(c.rights(c.GRANT_RIGHT, b"role", c.grant_of(c.WRITE)))
    again = machine.apply(payload)
    assert (again.status, again.is_duplicate) == (c.PERMISSION_DENIED, True)


# --- leases -----------------------------------------------------------------------------------------------------------
def test_leases_need_their_right_and_are_their_owners() -> None:
    machine = Guarded(some(c.READ | c.WRITE))
    assert machine.denied(c.grant, 5, 1000) == [c.HOLD, b"", b""]
    machine.apply(c.rights(c.GRANT_RIGHT, b"role", some(c.HOLD)))
    assert machine.user(c.grant, 5, 1000).status == c.OK
    assert machine.user(c.keys, c.put(b"a", lease=5)).status == c.OK
    machine.boss(c.grant, 6, 1000)
    assert machine.denied(c.keys, c.put(b"a", lease=6)) == [c.HOLD, b"a", None]
    assert machine.denied(c.keep_alive, 5, 6)[0] == machine.denied(c.revoke, 6)[0] == c.HOLD
    assert machine.user(c.keep_alive, 5, 99).body == [1000, 0]
    assert machine.user(c.revoke, 5).status == c.OK
    assert machine.value(b"a") is None


def test_a_key_is_attached_only_where_leases_are_granted() -> None:
    machine = Guarded(c.grant_of(c.READ | c.WRITE, b"a", b"c"), c.grant_of(c.HOLD, b"b", b"c"))
    assert machine.user(c.grant, 5, 1000).status == c.OK
    assert machine.denied(c.keys, c.put(b"a", lease=5)) == [c.HOLD, b"a", None]
    assert machine.user(c.keys, c.put(b"b", lease=5)).status == c.OK


def test_to_revoke_a_lease_is_to_delete_its_keys() -> None:
    """init: a lease with two keys. act: the right to write one of them goes. check: it cannot be revoked any more."""
    machine = Guarded(c.grant_of(c.HOLD | c.READ, b"", b""), some(c.WRITE), c.grant_of(c.WRITE, b"z", b""))
    machine.user(c.grant, 5, 1000)
    machine.user(c.keys, c.put(b"a", lease=5), c.put(b"z", lease=5))
    machine.apply(c.rights(c.REVOKE_RIGHT, b"role", c.grant_of(c.WRITE, b"z", b"")))
    assert machine.denied(c.revoke, 5) == [c.WRITE, b"", b""]
    machine.boss(c.revoke, 5)
    assert machine.keys() == []


# --- who speaks -------------------------------------------------------------------------------------------------------
def test_a_client_never_passes_for_a_node() -> None:
    """A node that lags hands on the command of a client as it came: it is not applied, and not kept."""
    machine = Guarded()
    machine.apply(c.open_session(9))
    payload = c.keys(c.put(b"k"), session=9, sequence=1)
    assert machine.apply(payload).status == c.NOT_READY
    assert machine.apply(c.rights(c.DISABLE, session=9, sequence=2)).status == c.NOT_READY
    machine.apply(c.spoken(c.open_session(9)))
    assert machine.apply(payload).status == c.OK


def test_a_session_keeps_its_results_for_its_owner() -> None:
    machine = Guarded(some(c.READ))
    machine.boss(c.keys, c.put(b"z", b"secret"))
    secret = machine.boss(c.keys, c.get(b"z"))
    stolen = c.keys(c.get(b"z"), session=SESSION + 1, sequence=machine.sequence)
    assert secret.body[1][0][1] == b"secret"
    assert machine.apply(c.spoken(stolen, b"user")).body == [0, b"", b""]
    assert machine.apply(c.spoken(stolen, b"boss")).is_duplicate
    assert machine.apply(c.spoken(c.open_session(SESSION + 1), b"user")).status == c.PERMISSION_DENIED
    assert machine.denied(c.close_session, SESSION + 1)[0] == c.ADMIN


def test_a_session_from_before_belongs_to_the_first_who_speaks_in_it() -> None:
    machine = Guarded(some(c.WRITE))
    machine.apply(c.open_session(9))
    assert machine.apply(c.spoken(c.keys(c.put(b"a"), session=9, sequence=1), b"user")).status == c.OK
    other = c.spoken(c.keys(c.put(b"a"), session=9, sequence=2), b"boss")
    assert machine.apply(other).status == c.PERMISSION_DENIED


def test_who_is_unknown_or_proved_an_old_secret_is_not_believed() -> None:
    machine = Guarded(some(c.WRITE))
    payload = c.keys(c.put(b"a"), session=SESSION, sequence=1)
    assert machine.apply(c.spoken(payload, b"nobody")).status == c.AUTHENTICATION_FAILED
    machine.apply(c.rights(c.USER_PUT, b"user", c.secret(iterations=4096)))
    assert machine.apply(c.spoken(payload, b"user", 9)).status == c.AUTHENTICATION_FAILED
    assert machine.apply(c.spoken(payload, b"user", 10)).status == c.OK
    machine.apply(c.rights(c.USER_REMOVE, b"user"))
    machine.apply(c.rights(c.USER_PUT, b"user", c.secret()))
    again = c.spoken(c.keys(c.put(b"a"), session=SESSION, sequence=2), b"user")
    assert machine.apply(again).status == c.PERMISSION_DENIED  # another user of the name does not own the session


def test_a_one_time_user_may_only_put_its_own_secret() -> None:
    machine = Guarded(some(c.WRITE))
    machine.apply(c.rights(c.USER_PUT, b"user", c.secret(iterations=4096, flags=1)))
    machine.apply(c.rights(c.GRANT_RIGHT, b"role", c.grant_of(c.ADMIN)))
    assert machine.denied(c.keys, c.put(b"a"))[0] == c.ADMIN
    for verb, name, data in (
        (c.USER_PUT, b"user", c.secret(iterations=4096, flags=1)),
        (c.USER_PUT, b"boss", c.secret(iterations=4096)),
        (c.DISABLE, b"", b""),
    ):
        assert machine.denied(c.rights, verb, name, data)[0] == c.ADMIN
    assert machine.user(c.rights, c.USER_PUT, b"user", c.secret(iterations=5000)).status == c.OK
    assert machine.user(c.keys, c.put(b"a")).status == c.OK


@pytest.mark.parametrize(
    ("make", "fields", "right"),
    [
        (c.compact, (1,), c.ADMIN),
        (c.rights, (c.ENABLE,), c.ADMIN),
        (c.rights, (c.USER_PUT, b"boss", c.secret()), c.ADMIN),
        (c.rights, (c.GRANT_RIGHT, b"role", c.grant_of(c.ADMIN)), c.ADMIN),
        (lambda *fields, **envelope: c.command(c.USER, *fields, **envelope), (b"board", b"move"), c.READ),
    ],
)
def test_the_rest_needs_rights_of_its_own(make: Any, fields: tuple[Any, ...], right: int) -> None:
    machine = Guarded(some(c.READ | c.WRITE | c.HOLD | c.WATCH))
    assert machine.denied(make, *fields)[0] == right


def test_a_user_machine_counts_as_the_key_of_its_name() -> None:
    machine = Guarded(c.grant_of(c.READ, b"board", b"c"))

    def move(**envelope: Any) -> bytes:
        return c.command(c.USER, b"board", b"move", **envelope)

    assert machine.denied(move) == [c.WRITE, b"board", None]
    machine.apply(c.rights(c.GRANT_RIGHT, b"role", c.grant_of(c.WRITE, b"board", b"c")))
    assert machine.user(move).status == c.OK


# --- commands that change rights --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("verb", "name", "data", "status"),
    [
        (0, b"a", b"", c.COMMAND_INVALID),
        (11, b"a", b"", c.COMMAND_INVALID),
        (c.ENABLE, b"a", b"", c.COMMAND_INVALID),
        (c.USER_PUT, b"", c.secret(), c.COMMAND_INVALID),
        (c.USER_PUT, b"a" * 65, c.secret(), c.COMMAND_INVALID),
        (c.USER_PUT, b"a", c.secret()[:-1], c.COMMAND_INVALID),
        (c.USER_PUT, b"a", c.secret(flags=2), c.COMMAND_INVALID),
        (c.USER_PUT, b"a", c.secret(iterations=4095), c.COMMAND_INVALID),
        (c.USER_PUT, b"a", c.secret()[:-1] + b"x", c.COMMAND_INVALID),
        (c.ROLE_PUT, b"a", b"x", c.COMMAND_INVALID),
        (c.USER_REMOVE, b"role", b"", c.NAME_UNKNOWN),
        (c.ROLE_REMOVE, b"user", b"", c.NAME_UNKNOWN),
        (c.BIND, b"user", b"none", c.NAME_UNKNOWN),
        (c.BIND, b"none", b"role", c.NAME_UNKNOWN),
        (c.GRANT_RIGHT, b"none", c.grant_of(c.READ), c.NAME_UNKNOWN),
        (c.GRANT_RIGHT, b"role", c.grant_of(0), c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", c.grant_of(128), c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", c.grant_of(c.READ, b"b", b"a"), c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", c.grant_of(c.READ, b"a", b"a"), c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", c.grant_of(c.ADMIN, b"a", b"b"), c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", c.grant_of(c.READ, b"k" * 481), c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", c.grant_of(c.READ) + b"x", c.COMMAND_INVALID),
        (c.GRANT_RIGHT, b"role", b"", c.COMMAND_INVALID),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(verb: int, name: bytes, data: bytes, status: int) -> None:
    machine = Guarded()
    before = b"".join(machine.handle.dump())
    answer = machine.apply(c.rights(verb, name, data))
    assert answer.status == status
    applied, after = before, b"".join(machine.handle.dump())
    # Only the counters of the first record, and the hash of the last, know of the entry.
    assert after[72:-8] == applied[72:-8]


def test_below_their_level_there_are_no_rights() -> None:
    machine = Machine()
    assert machine.apply(c.rights(c.ENABLE)).status == c.COMMAND_INVALID
    assert machine.apply(c.spoken(c.keys(c.put(b"k")))).status == c.COMMAND_INVALID
    assert machine.keys() == []


def test_there_are_only_so_many_roles_of_a_user() -> None:
    machine = Guarded()
    for number in range(31):
        machine.apply(c.rights(c.ROLE_PUT, b"%d" % number))
        assert machine.apply(c.rights(c.BIND, b"user", b"%d" % number)).status == c.OK
    machine.apply(c.rights(c.ROLE_PUT, b"last"))
    assert machine.apply(c.rights(c.BIND, b"user", b"last")).status == c.RIGHTS_LIMIT
    assert machine.apply(c.rights(c.BIND, b"user", b"30")).status == c.OK


# --- dump and load ----------------------------------------------------------------------------------------------------
def rich() -> Guarded:
    machine = Guarded(some(c.READ | c.WRITE | c.HOLD), c.grant_of(c.READ, b"c", b""))
    machine.user(c.grant, 5, 1000)
    machine.user(c.keys, c.put(b"a", b"v", lease=5))
    machine.apply(c.spoken(c.open_session(9)))
    machine.apply(c.command(c.USER, b"board", b"move"))
    return machine


@pytest.mark.parametrize("bytes_max", [1, 64, 1 << 20])
def test_rights_and_owners_come_back_from_a_dump(bytes_max: int) -> None:
    machine = rich()
    chunks = list(machine.handle.dump(bytes_max))
    copy = rich()
    copy.handle = loaded(chunks)
    assert copy.state_hash() == machine.state_hash()
    assert b"".join(copy.handle.dump()) == b"".join(chunks)
    for each in (machine, copy):
        each.sequence = 100
    for make, fields in (
        (c.keys, (c.get(b"a"), c.put(b"a", b"w"))),
        (c.keys, (c.get(b"b"),)),
        (c.keep_alive, (5,)),
        (c.revoke, (5,)),
    ):
        assert copy.user(make, *fields) == machine.user(make, *fields)
    assert copy.state_hash() == machine.state_hash()
    for each in (machine, copy):
        assert each.apply(c.keys(c.put(b"k"), session=9, sequence=1)).status == c.OK


def test_a_difference_brings_rights_anew() -> None:
    machine = rich()
    base = machine.handle.dump_base()
    first = list(machine.handle.dump(base=base))
    machine.apply(c.rights(c.USER_REMOVE, b"user"))
    machine.apply(c.close_session(9, session=9, sequence=1))
    second = list(machine.handle.dump(base=base))
    copy = loaded(first, second)
    assert copy.status().state_hash == machine.state_hash()
    assert copy.allow(b"boss", c.ADMIN, b"") and not copy.allow(b"user", c.READ, b"a")


def test_the_state_hash_sees_rights_and_owners() -> None:
    machine = rich()
    seen = {machine.state_hash()}
    for payload in (
        c.rights(c.REVOKE_RIGHT, b"role", some(c.HOLD)),
        c.rights(c.DISABLE),
        c.rights(c.USER_PUT, b"user", c.secret(iterations=4096)),
    ):
        machine.apply(payload)
        seen.add(machine.state_hash())
    assert len(seen) == 4


def records_of(machine: Machine) -> list[bytearray]:
    data, records = b"".join(machine.handle.dump()), []
    while data:
        length = 8 + int.from_bytes(data[:4], "little")
        records.append(bytearray(data[:length]))
        data = data[length:]
    return records


def test_damaged_rights_are_refused() -> None:
    """Every byte of every record of rights, flipped: the load ends with a refusal, whatever it was."""
    from tests.faces.machine import MachineHandle

    records = records_of(rich())
    for position, record in enumerate(records):
        if not 12 <= record[4] <= 16:
            continue
        for place in range(len(record)):
            record[place] ^= 0x41
            machine = MachineHandle()
            status = machine.load_chunk(b"".join(records)) or machine.load_done()
            assert status in (c.BAD_FIELD, c.BAD_LENGTH, c.BAD_CHECKSUM), (position, place, status)
            record[place] ^= 0x41
