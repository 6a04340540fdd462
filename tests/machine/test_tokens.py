"""Tokens and the founding, one rule a test: who may make them, what they may do, and what ends them."""

from __future__ import annotations

import pytest

from tests.machine import commands as c
from tests.machine.machines import Machine, loaded
from tests.machine.test_rights import SESSION, Guarded

TOKEN = 0x1234


def guarded(*grants: bytes) -> Guarded:
    return Guarded(*(grants or (c.grant_of(c.READ | c.WRITE, b"a", b"b"),)))


def put_as(machine: Machine, token: int, sequence: int, key: bytes = b"a1", revision: int = 1 << 40) -> int:
    """The status of a put that a token speaks in the session of its user."""
    payload = c.keys(c.put(key, b"v"), session=SESSION, sequence=sequence)
    return machine.apply(c.spoken(payload, c.token_name(token), revision)).status


def test_a_token_has_the_rights_of_its_user() -> None:
    machine = guarded()
    assert machine.user(c.rights, c.TOKEN_PUT, b"", c.token_asked(TOKEN)).status == c.OK
    assert put_as(machine, TOKEN, 100) == c.OK
    assert put_as(machine, TOKEN, 101, b"z") == c.PERMISSION_DENIED
    assert put_as(machine, TOKEN + 1, 102) == c.AUTHENTICATION_FAILED


def test_a_token_changes_no_rights_but_its_own_end() -> None:
    """Not even that of an admin: it could make itself last."""
    machine = Guarded()
    assert machine.boss(c.rights, c.TOKEN_PUT, b"", c.token_asked(TOKEN)).status == c.OK

    def change(sequence: int, verb: int, name: bytes, data: bytes) -> int:
        payload = c.rights(verb, name, data, session=SESSION + 1, sequence=sequence)
        return machine.apply(c.spoken(payload, c.token_name(TOKEN))).status

    changes = [
        (c.USER_PUT, b"boss", c.secret()),
        (c.USER_PUT, b"mine", c.secret()),
        (c.TOKEN_PUT, b"", c.token_asked(TOKEN + 1)),
        (c.TOKEN_PUT, b"user", c.token_asked(TOKEN + 1)),
        (c.FOUND_AGAIN, b"", c.founding()),
        (c.CLAIM, b"mine", c.secret()),
        (c.TOKEN_REMOVE, b"", (TOKEN + 1).to_bytes(8, "little")),
    ]
    for number, asked in enumerate(changes):
        assert change(100 + number, *asked) == c.PERMISSION_DENIED
    assert change(200, c.TOKEN_REMOVE, b"", TOKEN.to_bytes(8, "little")) == c.OK
    assert change(201, c.TOKEN_REMOVE, b"", TOKEN.to_bytes(8, "little")) == c.AUTHENTICATION_FAILED


def test_a_token_ends_with_its_lease_and_nobody_keeps_it_alive() -> None:
    machine = guarded(c.grant_of(c.READ | c.WRITE | c.HOLD, b"", b""))
    machine.user(c.rights, c.TOKEN_PUT, b"", c.token_asked(TOKEN, 1000))
    deadline = machine.lease_ms + 1000
    machine.lease_ms += 900
    assert machine.denied(c.keep_alive, TOKEN)[0] == c.HOLD
    assert machine.denied(c.revoke, TOKEN)[0] == c.HOLD
    assert machine.denied(c.keys, c.put(b"a", b"v", lease=TOKEN))[0] == c.HOLD
    kept = machine.boss(c.keep_alive, TOKEN)
    assert kept.body == [0], "not even by an admin"
    assert put_as(machine, TOKEN, 100) == c.OK
    machine.lease_ms += 100
    machine.apply(c.expire((TOKEN, deadline)))
    assert put_as(machine, TOKEN, 101) == c.AUTHENTICATION_FAILED
    assert machine.handle.status().leases == 0


@pytest.mark.parametrize(
    "end",
    [
        lambda machine: machine.user(c.rights, c.USER_PUT, b"user", c.secret()),
        lambda machine: machine.boss(c.rights, c.USER_PUT, b"user", c.secret(flags=1)),
        lambda machine: machine.boss(c.rights, c.USER_REMOVE, b"user"),
        lambda machine: machine.user(c.rights, c.TOKEN_REMOVE, b"", TOKEN.to_bytes(8, "little")),
        lambda machine: machine.boss(c.rights, c.TOKEN_REMOVE, b"", TOKEN.to_bytes(8, "little")),
        lambda machine: machine.boss(c.revoke, TOKEN),
    ],
    ids=["its password", "a one-time password", "removal", "its user", "an admin", "its lease"],
)
def test_a_token_ends_early(end: object) -> None:
    """And leaves no lease behind. A later token of the same id is another one."""
    machine = guarded()
    machine.user(c.rights, c.TOKEN_PUT, b"", c.token_asked(TOKEN))
    assert end(machine).status == c.OK  # type: ignore[operator]
    assert put_as(machine, TOKEN, 100) == c.AUTHENTICATION_FAILED
    assert machine.handle.status().leases == 0
    if machine.apply(c.rights(c.TOKEN_PUT, b"user", c.token_asked(TOKEN))).status == c.OK:
        assert put_as(machine, TOKEN, 101, revision=3) == c.AUTHENTICATION_FAILED


def test_tokens_of_others_need_admin() -> None:
    machine = guarded()
    assert machine.denied(c.rights, c.TOKEN_PUT, b"boss", c.token_asked(TOKEN))[0] == c.ADMIN
    assert machine.boss(c.rights, c.TOKEN_PUT, b"boss", c.token_asked(TOKEN)).status == c.OK
    for id in (TOKEN, TOKEN + 1):
        assert machine.denied(c.rights, c.TOKEN_REMOVE, b"", id.to_bytes(8, "little"))[0] == c.ADMIN
    assert machine.boss(c.rights, c.TOKEN_PUT, b"user", c.token_asked(TOKEN + 1)).status == c.OK
    assert put_as(machine, TOKEN + 1, 100) == c.OK


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (c.token_asked(0), c.COMMAND_INVALID),
        (c.token_asked(TOKEN, 0), c.COMMAND_INVALID),
        (c.token_asked(TOKEN, 604_800_001), c.COMMAND_INVALID),
        (c.token_asked(TOKEN, iterations=0), c.COMMAND_INVALID),
        (c.token_asked(TOKEN)[:-1], c.COMMAND_INVALID),
        (c.token_asked(7), c.ID_CONFLICT),
    ],
)
def test_an_unsound_token_is_refused(data: bytes, status: int) -> None:
    machine = guarded()
    machine.apply(c.grant(7, 1000))
    before = machine.handle.status()
    assert machine.apply(c.rights(c.TOKEN_PUT, b"user", data)).status == status
    assert machine.handle.status().state_hash == before.state_hash


def test_a_user_has_64_tokens_at_most() -> None:
    machine = guarded()
    for id in range(1, 65):
        assert machine.apply(c.rights(c.TOKEN_PUT, b"user", c.token_asked(id))).status == c.OK
    assert machine.apply(c.rights(c.TOKEN_PUT, b"user", c.token_asked(99))).status == c.RIGHTS_LIMIT
    assert machine.apply(c.rights(c.TOKEN_PUT, b"boss", c.token_asked(99))).status == c.OK
    assert machine.handle.status().leases == 65


def test_a_dump_has_tokens_and_the_founder() -> None:
    """And it loads as it was; what it holds goes on ending."""
    machine = guarded()
    machine.apply(c.rights(c.TOKEN_PUT, b"user", c.token_asked(TOKEN)))
    machine.apply(c.rights(c.TOKEN_PUT, b"boss", c.token_asked(TOKEN - 1)))
    machine.apply(c.rights(c.FOUND_AGAIN, b"", c.founding()))
    again = Machine()
    again.handle = loaded(machine.handle.dump())
    assert again.handle.status().state_hash == machine.handle.status().state_hash
    assert put_as(again, TOKEN, 100) == c.OK
    again.apply(c.rights(c.USER_REMOVE, b"user"))
    assert put_as(again, TOKEN, 101) == c.AUTHENTICATION_FAILED


# --- the founding -----------------------------------------------------------------------------------------------------
def founded() -> Machine:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 3))
    assert machine.apply(c.rights(c.FOUND, b"", c.founding())).status == c.OK
    machine.apply(c.spoken(c.open_session(SESSION), c.FOUNDER))
    return machine


def as_founder(machine: Machine, sequence: int, verb: int, name: bytes, data: bytes) -> int:
    payload = c.rights(verb, name, data, session=SESSION, sequence=sequence)
    return machine.apply(c.spoken(payload, c.FOUNDER)).status


def test_the_founder_makes_the_first_admin_and_is_gone() -> None:
    machine = founded()
    assert not machine.handle.allow(b"boss", c.READ, b"a"), "rights are on"
    denied = [
        (c.USER_PUT, b"boss", c.secret()),
        (c.ENABLE, b"", b""),
        (c.FOUND_AGAIN, b"", c.founding()),
        (c.TOKEN_PUT, b"", c.token_asked(TOKEN)),
    ]
    for number, asked in enumerate(denied, 1):
        assert as_founder(machine, number, *asked) == c.PERMISSION_DENIED
    payload = c.keys(c.put(b"a"), session=SESSION, sequence=50)
    assert machine.apply(c.spoken(payload, c.FOUNDER)).status == c.PERMISSION_DENIED
    assert as_founder(machine, 60, c.CLAIM, b"boss", c.secret(iterations=4096)) == c.OK
    assert machine.handle.allow(b"boss", c.ADMIN, b"")
    assert as_founder(machine, 61, c.CLAIM, b"other", c.secret()) == c.AUTHENTICATION_FAILED
    assert machine.apply(c.rights(c.CLAIM, b"other", c.secret())).status == c.NAME_UNKNOWN


def test_rights_are_founded_once() -> None:
    machine = founded()
    before = machine.handle.status()
    assert machine.apply(c.rights(c.FOUND, b"", c.founding())).status == c.COMPARE_FAILED
    assert machine.handle.status().state_hash == before.state_hash
    assert machine.apply(c.rights(c.FOUND_AGAIN, b"", c.founding())).status == c.OK
    payload = c.rights(c.CLAIM, b"boss", c.secret(), session=SESSION, sequence=1)
    late = machine.apply(c.spoken(payload, c.FOUNDER, revision=1))
    assert late.status == c.AUTHENTICATION_FAILED, "what was proved with the token before counts no more"
    assert as_founder(machine, 2, c.CLAIM, b"boss", c.secret()) == c.OK


def test_a_user_of_that_name_becomes_an_admin_and_keeps_its_roles() -> None:
    machine = guarded()
    machine.apply(c.rights(c.DISABLE))
    machine.apply(c.rights(c.FOUND_AGAIN, b"", c.founding()))
    assert machine.handle.allow(b"nobody", c.ADMIN, b""), "rights stay off"
    assert machine.apply(c.rights(c.CLAIM, b"user", c.secret())).status == c.OK
    assert machine.handle.allow(b"user", c.ADMIN, b"")
    assert not machine.handle.allow(b"nobody", c.READ, b"a")


@pytest.mark.parametrize(
    ("verb", "name", "data"),
    [
        (c.FOUND_AGAIN, b"x", c.founding()),
        (c.FOUND_AGAIN, b"", c.founding(flags=0)),
        (c.FOUND_AGAIN, b"", c.founding(flags=1)),
        (c.FOUND_AGAIN, b"", c.founding()[:-1]),
        (c.FOUND_AGAIN, b"", c.secret(flags=2) + bytes(32)),
        (c.CLAIM, b"", c.secret()),
        (c.CLAIM, c.FOUNDER, c.secret()),
        (c.CLAIM, b"x", c.secret(flags=1)),
        (c.USER_PUT, c.FOUNDER, c.secret()),
        (c.USER_PUT, b"x", c.secret(flags=2)),
        (c.USER_PUT, c.token_name(TOKEN), c.secret()),
        (c.ENABLE, b"", b"short"),
        (c.DISABLE, b"", bytes(32)),
        (c.TOKEN_REMOVE, b"", b"short"),
        (c.TOKEN_REMOVE, b"x", TOKEN.to_bytes(8, "little")),
    ],
)
def test_an_unsound_founding_is_refused(verb: int, name: bytes, data: bytes) -> None:
    machine = founded()
    before = machine.handle.status()
    assert machine.apply(c.rights(verb, name, data)).status == c.COMMAND_INVALID
    assert machine.handle.status().state_hash == before.state_hash
