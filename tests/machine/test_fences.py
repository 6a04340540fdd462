"""Fences: no write passes once the lead, lock or membership it was made under is gone."""

from __future__ import annotations

from tests.machine import commands as c
from tests.machine.machines import Machine


def test_fence_passes_while_the_key_is_the_same() -> None:
    machine = Machine()
    machine.txn(c.create(b"lock"))
    machine.txn(c.put(b"lock", b"renewed"))  # the create revision is the token, not the value
    assert machine.txn(c.put(b"guarded", b"1"), fence=(b"lock", 1)).status == c.OK


def test_fence_refuses_a_missing_a_deleted_and_another_key() -> None:
    machine = Machine()
    assert machine.txn(c.put(b"guarded"), fence=(b"lock", 1)).status == c.FENCED
    machine.txn(c.create(b"lock"))
    machine.txn(c.delete(b"lock"))
    assert machine.txn(c.put(b"guarded"), fence=(b"lock", 1)).status == c.FENCED
    machine.txn(c.create(b"lock"))
    assert machine.txn(c.put(b"guarded"), fence=(b"lock", 1)).status == c.FENCED
    assert machine.txn(c.put(b"guarded"), fence=(b"lock", 3)).status == c.OK


def test_fence_is_checked_before_anything_else() -> None:
    machine = Machine()
    answer = machine.txn(c.update(b"missing"), fence=(b"lock", 1))
    assert (answer.status, answer.body) == (c.FENCED, None)


def test_fence_guards_every_kind_of_command() -> None:
    machine = Machine()
    machine.apply(c.grant(1, 100))
    before = machine.handle.status()
    for payload in (
        c.grant(2, 100, fence=(b"lock", 1)),
        c.revoke(1, fence=(b"lock", 1)),
        c.open_session(5, fence=(b"lock", 1)),
        c.compact(0, fence=(b"lock", 1)),
    ):
        assert machine.apply(payload).status == c.FENCED
    assert machine.handle.status()._replace(applied=before.applied) == before


def test_paused_holder_cannot_write_after_its_lease_expired() -> None:
    """The holder sleeps over its lease, another takes the lock, the late write is refused."""
    machine = Machine()
    machine.apply(c.grant(1, 50))
    first = machine.txn(c.create(b"lock", lease=1)).revision
    machine.lease_ms = 60
    machine.apply(c.expire(*machine.handle.due_leases(60)))
    machine.apply(c.grant(2, 50))
    second = machine.txn(c.create(b"lock", lease=2)).revision
    assert machine.txn(c.put(b"guarded", b"late"), fence=(b"lock", first)).status == c.FENCED
    assert machine.txn(c.put(b"guarded", b"new"), fence=(b"lock", second)).status == c.OK
    assert second > first  # tokens grow


def test_refused_fence_is_answered_again_to_a_retry() -> None:
    machine = Machine()
    machine.apply(c.open_session(5))
    late = c.keys(c.put(b"k"), session=5, sequence=1, lowest=1, fence=(b"lock", 1))
    assert machine.apply(late).status == c.FENCED
    machine.txn(c.create(b"lock"))
    answer = machine.apply(late)
    assert (answer.status, answer.is_duplicate) == (c.FENCED, True)
