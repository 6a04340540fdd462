"""Offsets of groups, row by row of docs/kafka-topics.md."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.machine import commands as c
from tests.machine import groups as g
from tests.machine import topics as t
from tests.machine.machines import Machine, loaded
from tests.machine.test_rights import Guarded

A0, A1, B0 = (b"a", 0), (b"a", 1), (b"b", 0)
STATES = ["Dead", "Empty", "Preparing", "Completing", "Stable"]
MEMBER, OTHER, SIMPLE, OLD, FENCED, GONE_INSTANCE, PENDING = range(7)


def keys_below(machine: Machine, prefix: bytes) -> list[bytes]:
    every = machine.keys()
    return [key for key in every if key.startswith(prefix)]


def subscription(*topics: bytes) -> bytes:
    named = b"".join(struct.pack(">h", len(name)) + name for name in topics)
    return struct.pack(">hi", 0, len(topics)) + named + struct.pack(">i", -1)


CONSUMER: dict[str, Any] = {"kind": b"consumer", "protocols": ((b"range", subscription(b"a")),)}


def group_in(state: str, **asked: Any) -> tuple[Machine, bytes, int]:
    """A machine with the topics a and b, and a group in this state; its static member, and its generation."""
    machine = t.new_machine(1, 2, 3)
    machine.apply(t.create(b"a"))
    machine.apply(t.create(b"b", number=2))
    if state == "Dead":
        return machine, b"nobody-" + b"0" * 32, 1
    asked = CONSUMER | asked
    member = g.joined(machine, 1, instance=b"s", **asked)
    if state == "Empty":
        machine.apply(g.leave((member, b"s")))
        return machine, member, 2
    if state != "Completing":
        machine.apply(g.sync(1, member, instance=b"s"))
    if state == "Preparing":
        g.joined(machine, 2, **asked)
    found = g.shown(machine)
    assert found is not None
    assert found.state == {"Preparing": g.PREPARING, "Completing": g.COMPLETING, "Stable": g.STABLE}[state]
    return machine, member, 1


def commit_of(who: int, member: bytes, generation: int) -> bytes:
    if who == SIMPLE:
        return t.commit({A0: 7})
    if who == OTHER:
        return t.commit({A0: 7}, generation=generation, member=b"other-" + b"0" * 32)
    if who == FENCED:
        return t.commit({A0: 7}, generation=generation, member=b"other-" + b"0" * 32, instance=b"s")
    if who == GONE_INSTANCE:
        return t.commit({A0: 7}, generation=generation, member=member, instance=b"unknown")
    return t.commit({A0: 7}, generation=generation + (who == OLD), member=member, instance=b"s")


@pytest.mark.parametrize(
    ("who", "codes"),
    [
        (SIMPLE, [0, 0, 25, 25, 25]),
        (MEMBER, [22, 25, 0, 27, 0]),
        (OTHER, [22, 25, 25, 25, 25]),
        (OLD, [22, 25, 22, 22, 22]),
        (FENCED, [22, 25, 82, 82, 82]),
        (GONE_INSTANCE, [22, 25, 25, 25, 25]),
    ],
    ids=["simple", "member", "other", "old", "fenced", "gone instance"],
)
@pytest.mark.parametrize("state", STATES)
def test_a_commit_is_answered_as_the_table_says(state: str, who: int, codes: list[int]) -> None:
    machine, member, generation = group_in(state)
    before = machine.state_hash()
    answer = machine.apply(commit_of(who, member, generation))
    code = codes[STATES.index(state)]
    assert (answer.status, answer.body) == (c.OK, [code])
    assert t.offsets(machine) == ({A0: 7} if code == 0 else {})
    if code:
        assert machine.state_hash() == before


@pytest.mark.parametrize(
    ("kind", "codes"),
    [(b"consumer", [[69], [0, 0], [0, 86], [0, 86], [0, 86]]), (b"connect", [[69], [0, 0], [68], [68], [68]])],
)
@pytest.mark.parametrize("state", STATES)
def test_a_delete_of_offsets_is_answered_as_the_table_says(state: str, kind: bytes, codes: list[list[int]]) -> None:
    machine, _, _ = group_in(state, kind=kind)
    answer = machine.apply(t.forget(A0))
    assert (answer.status, answer.body) == (c.OK, codes[STATES.index(state)])


def test_a_delete_of_an_offset_leaves_what_members_read() -> None:
    machine, member, generation = group_in("Stable")
    machine.apply(t.commit({A0: 1, B0: 2}, generation=generation, member=member))
    assert machine.apply(t.forget(A0, B0, (b"c", 0))).body == [0, t.SUBSCRIBED, t.OK, t.UNKNOWN]
    assert t.offsets(machine) == {A0: 1}


def test_partitions_that_there_are_not_are_refused_alone() -> None:
    machine, member, generation = group_in("Stable")
    asked = {A0: 1, (b"a", 2): 2, (b"c", 0): 3, A1: 4}
    assert machine.apply(t.commit(asked, generation=generation, member=member)).body == [0, 3, 3, 0]
    assert t.offsets(machine) == {A0: 1, A1: 4}
    # They are looked at before the group is.
    assert machine.apply(t.commit(asked, generation=9, member=member)).body == [22, 3, 3, 22]


def test_metadata_that_is_too_long_is_refused_alone() -> None:
    machine, _, _ = group_in("Empty")
    assert machine.apply(t.commit({A0: 1}, metadata=b"m" * 4096)).body == [t.OK]
    assert machine.apply(t.commit({A0: 2}, metadata=b"m" * 4097)).body == [t.METADATA_TOO_LARGE]
    assert t.offsets(machine) == {A0: 1}


def test_a_pending_member_commits_nothing() -> None:
    machine, _, generation = group_in("Stable")
    answer = machine.apply(g.join(2, two_steps=True, **CONSUMER))
    assert answer.body[0] == g.ID_REQUIRED
    assert machine.apply(t.commit({A0: 7}, generation=generation, member=answer.body[1])).body == [g.UNKNOWN_MEMBER]


def test_a_commit_of_nobody_makes_an_empty_group() -> None:
    machine, _, _ = group_in("Dead")
    assert machine.apply(t.commit({A0: 1})).body == [t.OK]
    found = g.shown(machine)
    assert found is not None
    assert (found.state, found.generation, found.type) == (g.EMPTY, 0, b"")


def test_a_commit_of_no_partition_that_there_is_makes_no_group() -> None:
    machine, _, _ = group_in("Dead")
    assert machine.apply(t.commit({(b"c", 0): 1})).body == [t.UNKNOWN]
    assert g.shown(machine) is None


def test_a_commit_keeps_its_member_alive() -> None:
    machine, member, generation = group_in("Stable")
    machine.lease_ms += g.SESSION_MS - 1
    machine.apply(t.commit({A0: 1}, generation=generation, member=member))
    machine.lease_ms += 2
    assert 1 not in dict(machine.handle.due_leases(machine.lease_ms))


def test_offsets_go_with_their_group_once_it_was_empty_for_their_time() -> None:
    machine, member, generation = group_in("Stable")
    machine.apply(t.commit({A0: 1, A1: 2}, generation=generation, member=member))
    told = t.head(machine)
    assert told is not None
    assert not told.has_timer
    machine.apply(g.leave((member, b"s")))
    machine.lease_ms += t.RETENTION_MS - 1
    machine.apply(c.keep_alive(1, 2, 3))
    g.expire(machine)
    assert t.offsets(machine) == {A0: 1, A1: 2}
    machine.lease_ms += 1
    g.expire(machine)
    assert t.head(machine) is None
    assert g.shown(machine) is None
    assert not keys_below(machine, g.KEY)


def test_a_commit_to_an_empty_group_begins_its_time_anew() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}))
    machine.lease_ms += t.RETENTION_MS - 1
    machine.apply(t.commit({A0: 2}))
    machine.lease_ms += t.RETENTION_MS - 1
    g.expire(machine)
    assert t.offsets(machine) == {A0: 2}
    machine.lease_ms += 1
    g.expire(machine)
    assert t.head(machine) is None


def test_a_member_that_joins_lifts_the_timer() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}))
    assert t.head(machine) is not None
    g.joined(machine, 2, **CONSUMER)
    told = t.head(machine)
    assert told is not None
    assert not told.has_timer
    machine.lease_ms += 2 * t.RETENTION_MS
    machine.apply(c.keep_alive(1, 2, 3))
    g.expire(machine)
    assert t.offsets(machine) == {A0: 1}


def test_a_retention_is_at_most_the_life_of_a_lease() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}, retention_ms=t.RETENTION_MS_MAX))
    told = t.head(machine)
    assert told is not None and told.has_timer
    refused = machine.apply(t.commit({A0: 2}, retention_ms=t.RETENTION_MS_MAX + 1))
    assert refused.status == c.COMMAND_INVALID
    assert t.offsets(machine) == {A0: 1}


def test_offsets_without_a_retention_stay() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}, retention_ms=0))
    machine.lease_ms += 1 << 30
    g.expire(machine)
    assert t.offsets(machine) == {A0: 1}


def test_nobody_keeps_or_revokes_the_lease_of_a_timer() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}))
    told = t.head(machine)
    assert told is not None
    assert machine.apply(c.keep_alive(told.lease)).body == [0]
    assert machine.apply(c.revoke(told.lease)).status == c.GROUP_WRITE


def test_offsets_end_with_their_topic() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1, B0: 2}))
    machine.apply(t.delete(b"a"))
    assert t.offsets(machine) == {B0: 2}
    machine.apply(t.create(b"a", number=9))
    assert t.offsets(machine) == {B0: 2}
    machine.apply(t.commit({A0: 5}))
    assert t.offsets(machine) == {A0: 5, B0: 2}
    told = t.head(machine)
    assert told is not None
    assert told.count == 2


def test_an_empty_group_stays_without_offsets_until_its_time_ends() -> None:
    """As with Kafka's coordinator of version 3.7 and later: kafka-consumer-groups deletes such a group itself."""
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1, A1: 2}))
    ends_at = machine.lease_ms + t.RETENTION_MS
    machine.apply(t.forget(A0, A1))
    assert g.shown(machine) is not None
    machine.lease_ms = ends_at
    (due,) = [one for one in machine.handle.due_leases(ends_at) if one[1] == ends_at]
    machine.apply(c.expire(due))
    assert g.shown(machine) is None and t.head(machine) is None


def test_an_empty_group_without_offsets_can_be_deleted() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}))
    machine.apply(t.forget(A0))
    assert machine.apply(g.delete()).status == c.OK
    assert g.shown(machine) is None and t.head(machine) is None


def test_a_deleted_group_takes_its_offsets_with_it() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}))
    machine.apply(g.delete())
    assert not keys_below(machine, g.KEY)


def test_a_group_whose_name_goes_on_keeps_its_own() -> None:
    """The members of the group g\\x01 stand where the offsets of g do."""
    machine, _, _ = group_in("Empty")
    neighbour = g.KEY + b"\1"
    g.joined(machine, 3, key=neighbour, **CONSUMER)
    machine.apply(t.commit({A0: 1}))
    machine.apply(t.commit({A1: 2}, key=neighbour + b"x"))
    machine.apply(g.delete())
    found = g.shown(machine, neighbour)
    assert found is not None
    assert len(found.members) == 1
    assert t.offsets(machine, neighbour + b"x") == {A1: 2}


def test_a_key_that_is_no_group_is_left_alone() -> None:
    machine, _, _ = group_in("Dead")
    machine.txn(c.put(g.KEY, b"mine"))
    assert machine.apply(t.commit({A0: 1})).body == [g.INVALID_ID]
    assert machine.apply(t.forget(A0)).body == [g.INVALID_ID]
    assert machine.value(g.KEY) == b"mine"


def test_offsets_change_by_their_own_requests_alone() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.commit({A0: 1}))
    for key in [*keys_below(machine, g.KEY), *keys_below(machine, t.ROOT)]:
        assert machine.txn(c.put(key)).status == c.GROUP_WRITE
        assert machine.txn(c.delete(key)).status == c.GROUP_WRITE


def test_a_group_has_room_for_so_many_offsets() -> None:
    machine, _, _ = group_in("Empty")
    machine.apply(t.extend(b"a", 10_000))
    machine.apply(t.extend(b"b", 10_000))
    assert machine.apply(t.commit({(b"a", i): i for i in range(10_000)})).body == [t.OK] * 10_000
    assert machine.apply(t.commit({B0: 1, A0: 9})).body == [t.NO_ROOM, t.OK]
    machine.apply(g.delete())
    assert t.head(machine) is None


def test_a_dump_brings_topics_and_offsets() -> None:
    machine, member, generation = group_in("Stable")
    machine.apply(t.commit({A0: 1}, generation=generation, member=member))
    machine.apply(t.commit({A0: 1}, key=b"groups/simple"))
    assert loaded(machine.handle.dump()).status().state_hash == machine.state_hash()


def test_a_commit_waits_for_the_one_before_it() -> None:
    """A session sends commits without waiting; a new leader may take the second one first."""
    machine, _, _ = group_in("Empty")
    machine.apply(c.open_session(7))
    assert machine.apply(t.commit({A0: 2}, session=7, sequence=2, lowest=1, after=1)).status == c.OUT_OF_ORDER
    assert machine.apply(t.commit({A0: 1}, session=7, sequence=1, lowest=1)).body == [t.OK]
    assert machine.apply(t.commit({A0: 2}, session=7, sequence=2, lowest=1, after=1)).body == [t.OK]
    assert t.offsets(machine) == {A0: 2}


def test_below_its_level_a_request_is_refused() -> None:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 5))
    assert machine.apply(t.create(b"a")).status == c.COMMAND_INVALID
    assert machine.apply(t.commit({A0: 1})).status == c.COMMAND_INVALID


def test_a_commit_needs_the_group_and_sees_the_topic() -> None:
    machine = Guarded(
        c.grant_of(c.READ, t.ROOT, t.ROOT[:-1] + b"0"), c.grant_of(c.READ | c.WRITE, b"groups/g", b"groups/h")
    )
    machine.apply(c.command(c.LEVEL, 6))
    assert machine.apply(t.create(b"a")).status == c.OK
    assert machine.user(t.commit, {A0: 1}).body == [t.OK]
    assert machine.denied(t.commit, {A0: 1}, key=b"groups/x")[0] == c.READ
    assert machine.denied(t.delete, b"a")[0] == c.WRITE
    assert t.offsets(machine) == {A0: 1}


def test_a_topic_that_may_not_be_read_has_no_commit() -> None:
    machine = Guarded(c.grant_of(c.READ | c.WRITE, b"groups/", b"groups0"))
    machine.apply(c.command(c.LEVEL, 6))
    machine.apply(t.create(b"a"))
    assert machine.denied(t.commit, {A0: 1})[0] == c.READ
