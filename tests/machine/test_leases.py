"""Leases on the replicated lease clock."""

from __future__ import annotations

import random

import pytest

from tests.machine import commands as c
from tests.machine.machines import Machine, loaded


@pytest.fixture
def machine() -> Machine:
    return Machine()


def expire_due(machine: Machine) -> int:
    """As the leader does when time has passed; the keys that went."""
    due = machine.handle.due_leases(machine.lease_ms)
    return machine.apply(c.expire(*due)).changed


def test_grant_answers_with_the_id(machine: Machine) -> None:
    machine.lease_ms = 1000
    assert machine.apply(c.grant(7, 300)).body == 7
    assert machine.handle.lease(7) == (c.OK, 300, 1300, 0)


def test_id_in_use_is_a_conflict(machine: Machine) -> None:
    """KIP-30 Group Membership: join throws on an id conflict."""
    machine.apply(c.grant(7, 300))
    machine.lease_ms = 100
    assert machine.apply(c.grant(7, 500)).status == c.ID_CONFLICT
    assert machine.handle.lease(7) == (c.OK, 300, 300, 0)


def test_chosen_ids_are_the_same_on_every_node_and_never_twice(machine: Machine) -> None:
    twin = Machine()
    ids = [machine.apply(c.grant(0, 300)).body for _ in range(50)]
    assert ids == [twin.apply(c.grant(0, 300)).body for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(0 < lease < 1 << 63 for lease in ids)


@pytest.mark.parametrize("ttl_ms", [0, (1 << 40) + 1])
def test_ttl_out_of_range_is_refused(machine: Machine, ttl_ms: int) -> None:
    assert machine.apply(c.grant(7, ttl_ms)).status == c.COMMAND_INVALID


def test_note_over_its_limit_is_refused(machine: Machine) -> None:
    assert machine.apply(c.grant(7, 300, bytes(4097))).status == c.VALUE_TOO_LARGE
    assert machine.apply(c.grant(7, 300, bytes(4096))).status == c.OK


def test_put_under_an_unknown_lease_is_refused(machine: Machine) -> None:
    assert machine.txn(c.put(b"k", lease=7)).status == c.LEASE_EXPIRED
    assert machine.apply(c.revoke(7)).status == c.LEASE_EXPIRED
    assert machine.keys() == []


def test_expiry_removes_all_keys_of_the_lease_in_one_revision(machine: Machine) -> None:
    """An ephemeral key never outlives its lease."""
    machine.apply(c.grant(7, 300))
    machine.txn(c.put(b"b", lease=7), c.put(b"a", lease=7), c.put(b"c", lease=7), c.put(b"stays"))
    machine.lease_ms = 300
    answer = machine.apply(c.expire(*machine.handle.due_leases(300)))
    assert (answer.changed, answer.revision) == (3, 2)
    # In key order: the order in which they were attached is not part of the state.
    assert [(after[0], after[6]) for after, _ in machine.handle.changes(3)] == [(b"a", 1), (b"b", 1), (b"c", 1)]
    assert machine.keys() == [b"stays"]
    assert machine.handle.lease(7)[0] == c.LEASE_EXPIRED


def test_lease_is_due_exactly_at_its_deadline(machine: Machine) -> None:
    """Exact, not up to twice as late."""
    machine.lease_ms = 50
    machine.apply(c.grant(7, 300))
    assert machine.handle.due_leases(349) == []
    assert machine.handle.due_leases(350) == [(7, 350)]


def test_expire_is_checked_again_at_apply(machine: Machine) -> None:
    """The leader sees a deadline pass; a keep-alive is applied before its entry: the lease must live."""
    machine.apply(c.grant(7, 300))
    machine.txn(c.put(b"k", lease=7))
    machine.lease_ms = 300
    due = machine.handle.due_leases(300)
    machine.apply(c.keep_alive(7))
    assert machine.apply(c.expire(*due)).changed == 0
    assert machine.handle.lease(7) == (c.OK, 300, 600, 1)


@pytest.mark.parametrize("item", [(7, 300), (7, 299), (8, 300)])
def test_expire_before_the_deadline_or_with_another_one_does_nothing(machine: Machine, item: tuple[int, int]) -> None:
    machine.apply(c.grant(7, 300))
    machine.lease_ms = 299
    assert machine.apply(c.expire(item)).status == c.OK
    assert machine.handle.lease(7)[0] == c.OK


def test_keep_alive_renews_many_and_tells_each(machine: Machine) -> None:
    """The answer to a renewal says whether the lease is still there."""
    machine.apply(c.grant(1, 100))
    machine.apply(c.grant(2, 200))
    machine.lease_ms = 90
    assert machine.apply(c.keep_alive(1, 99, 2)).body == [100, 0, 200]
    assert machine.handle.lease(1)[2] == 190
    assert machine.handle.lease(2)[2] == 290


def test_keep_alive_before_the_expire_entry_saves_a_late_lease(machine: Machine) -> None:
    """etcd#15247: a leader that was stuck must not take all leases with it; expiry comes after queued keep-alives."""
    for lease in range(1, 20):
        machine.apply(c.grant(lease, 100))
    machine.lease_ms = 100
    machine.apply(c.keep_alive(*range(1, 20)))
    assert machine.handle.due_leases(100) == []
    assert expire_due(machine) == 0
    assert machine.handle.status().leases == 19


def test_remaining_time_is_kept_by_snapshots_and_entries(machine: Machine) -> None:
    """etcd#13294, #17132: the ttl must not begin anew with an entry of another leader, nor with a snapshot."""
    machine.apply(c.grant(7, 300))
    for lease_ms in (50, 100, 150):
        machine.handle.apply(b"", entry_type=c.NOOP, lease_ms=lease_ms)
        machine.handle = loaded(machine.handle.dump())
    assert machine.handle.lease(7)[2] == 300
    assert machine.handle.due_leases(300) == [(7, 300)]


def test_time_stands_still_without_entries(machine: Machine) -> None:
    machine.apply(c.grant(7, 300))
    machine.lease_ms = 10
    machine.txn(c.put(b"k"))
    assert machine.handle.status().lease_ms == 10
    assert machine.handle.lease(7)[2] == 300


def test_overwriting_a_key_moves_it_between_leases(machine: Machine) -> None:
    machine.apply(c.grant(1, 100))
    machine.apply(c.grant(2, 100))
    machine.txn(c.put(b"k", lease=1))
    machine.txn(c.put(b"k", lease=2))
    assert [machine.handle.lease(lease)[3] for lease in (1, 2)] == [0, 1]
    assert machine.apply(c.revoke(1)).changed == 0
    machine.txn(c.put(b"k", flags=c.KEEP_LEASE))
    assert machine.handle.lease(2)[3] == 1
    machine.txn(c.put(b"k"))
    assert machine.handle.lease(2)[3] == 0
    assert machine.apply(c.revoke(2)).changed == 0
    assert machine.keys() == [b"k"]


def test_deleted_key_leaves_its_lease(machine: Machine) -> None:
    machine.apply(c.grant(1, 100))
    machine.txn(c.put(b"a", lease=1), c.put(b"b", lease=1), c.put(b"c", lease=1))
    machine.txn(c.delete(b"b"))
    assert machine.handle.lease(1)[3] == 2
    machine.txn(c.delete_range(b"", b""))
    assert machine.handle.lease(1)[3] == 0
    assert machine.apply(c.revoke(1)).changed == 0


def test_expire_of_several_leases_is_one_revision(machine: Machine) -> None:
    for lease in (3, 1, 2):
        machine.apply(c.grant(lease, 100))
        machine.txn(c.put(b"key-%d" % lease, lease=lease))
    machine.lease_ms = 100
    revision = machine.handle.status().revision
    assert expire_due(machine) == 3
    assert machine.handle.status().revision == revision + 1
    assert machine.handle.status().leases == 0


def test_lease_named_twice_in_one_entry_ends_once(machine: Machine) -> None:
    machine.apply(c.grant(7, 300))
    machine.apply(c.grant(8, 300))
    machine.txn(c.put(b"k", lease=7))
    machine.lease_ms = 300
    assert machine.apply(c.expire((7, 300), (7, 300))).changed == 1
    assert machine.handle.due_leases(300) == [(8, 300)]
    assert loaded(machine.handle.dump()).status().leases == 1  # loading counts the state hash anew


def test_due_leases_are_cut_at_most_and_stay_due(machine: Machine) -> None:
    for lease in range(1, 30):
        machine.apply(c.grant(lease, 100 + lease))
    assert machine.handle.due_leases(120, 5) == [(lease, 100 + lease) for lease in range(1, 6)]
    assert len(machine.handle.due_leases(120)) == 20
    assert len(machine.handle.due_leases(120)) == 20


def test_due_leases_are_right_whatever_was_granted_renewed_and_revoked(machine: Machine) -> None:
    generator = random.Random(4)
    deadlines: dict[int, int] = {}
    for step in range(3000):
        lease = generator.randrange(1, 60)
        if lease not in deadlines:
            ttl_ms = generator.choice([1, 10, 100, 1000, generator.randrange(1, 2000)])
            machine.apply(c.grant(lease, ttl_ms))
            deadlines[lease] = machine.lease_ms + ttl_ms
        elif generator.random() < 0.7:
            machine.apply(c.revoke(lease))
            del deadlines[lease]
        else:
            deadlines[lease] = machine.lease_ms + machine.apply(c.keep_alive(lease)).body[0]
        machine.lease_ms += generator.randrange(3)
        horizon_ms = machine.lease_ms + generator.randrange(300)
        due = machine.handle.due_leases(horizon_ms)
        assert sorted(due) == sorted(item for item in deadlines.items() if item[1] <= horizon_ms), step


def test_lease_holds_at_most_as_many_keys_as_an_entry_can_delete(machine: Machine) -> None:
    machine.apply(c.grant(1, 100))
    machine.apply(c.grant(2, 100))
    machine.txn(*(c.put(b"%05d" % i, lease=1) for i in range(c.CHANGES_MAX - 1)))
    assert machine.txn(c.put(b"x", lease=1), c.put(b"y", lease=1)).status == c.TOO_MANY_CHANGES
    assert machine.txn(c.put(b"x", lease=1)).status == c.OK
    assert machine.txn(c.put(b"y", lease=1)).status == c.TOO_MANY_CHANGES
    assert machine.txn(c.put(b"x", lease=1)).status == c.OK  # attached already
    assert machine.txn(c.put(b"y", lease=2)).status == c.OK
    machine.lease_ms = 100
    # Both are due, but their keys do not fit into one entry: the leader names the second one again.
    assert expire_due(machine) == c.CHANGES_MAX
    assert expire_due(machine) == 1
    assert machine.keys() == []
