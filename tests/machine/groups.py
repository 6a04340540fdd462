"""Requests for worker groups as msgpack, and the keys of a group as Python values (docs/formats.md "Groups")."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack

from tests.machine import commands as c
from tests.machine.machines import Answer, Machine

JOIN, SYNC, LEAVE, DELETE = 1, 2, 3, 4
WAITS, DONE, ID_REQUIRED = 1, 2, 3
EMPTY, PREPARING, COMPLETING, STABLE = range(4)
OK, ILLEGAL_GENERATION, INCONSISTENT, INVALID_ID, UNKNOWN_MEMBER = 0, 22, 23, 24, 25
IN_PROGRESS, NON_EMPTY, NOT_FOUND, MAX_SIZE, FENCED_INSTANCE = 27, 68, 69, 81, 82
KEY = b"groups/g"
TYPE = b"worker"
SESSION_MS, REBALANCE_MS, INITIAL_MS = 10_000, 60_000, 3_000
PROTOCOLS = ((b"range", b"words"),)
GROUP = struct.Struct("<IIIIIIIQBBHHH")
MEMBER = struct.Struct("<QIIIIIIHHB3x")


def flat(pairs: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    return [half for pair in pairs for half in pair]


def join(
    lease: int,
    member: bytes = b"",
    *,
    instance: bytes = b"",
    protocols: Iterable[tuple[bytes, bytes]] = PROTOCOLS,
    kind: bytes = TYPE,
    rebalance_ms: int = REBALANCE_MS,
    initial_ms: int = 0,
    most: int = 5000,
    two_steps: bool = False,
    ttl_ms: int = 0,
    key: bytes = KEY,
    **envelope: Any,
) -> bytes:
    data = [JOIN, member, instance, b"c", kind, flat(protocols), rebalance_ms, initial_ms, most, two_steps]
    return c.command(c.GROUPS, *([lease, ttl_ms] if ttl_ms else [lease]), key, c.pack(data), **envelope)


def sync(
    generation: int,
    member: bytes,
    assignments: Iterable[tuple[bytes, bytes]] = (),
    *,
    instance: bytes = b"",
    kind: bytes = b"",
    protocol: bytes = b"",
    key: bytes = KEY,
    **envelope: Any,
) -> bytes:
    data = [SYNC, generation, member, instance, kind, protocol, flat(sorted(assignments))]
    return c.command(c.GROUPS, 0, key, c.pack(data), **envelope)


def leave(*pairs: tuple[bytes, bytes], key: bytes = KEY, **envelope: Any) -> bytes:
    return c.command(c.GROUPS, 0, key, c.pack([LEAVE, flat(pairs)]), **envelope)


def delete(*, key: bytes = KEY, **envelope: Any) -> bytes:
    return c.command(c.GROUPS, 0, key, c.pack([DELETE]), **envelope)


class Member(NamedTuple):
    joined: int
    assigned: int
    instance: bytes
    protocols: tuple[tuple[bytes, bytes], ...]
    assignment: bytes
    lease: int
    is_pending: bool
    fence: int


class Group(NamedTuple):
    state: int
    generation: int
    type: bytes
    protocol: bytes
    leader: bytes
    joined: int
    timer_ms: int
    lease: int
    fence: int
    members: dict[bytes, Member]
    pending: dict[bytes, Member]


def parts(value: bytes, at: int, *lengths: int) -> list[bytes]:
    found = []
    for length in lengths:
        found.append(value[at : at + length])
        at += length
    assert at == len(value)
    return found


def member_of(record: Any) -> Member:
    _, joined, assigned, _, listed, count, given, instance, client, flags = MEMBER.unpack_from(record[1])
    words = parts(record[1], MEMBER.size, instance, client, listed, given)
    names = msgpack.unpackb(words[2])
    assert len(names) == 2 * count
    protocols = tuple(zip(names[::2], names[1::2], strict=True))
    return Member(joined, assigned, words[0], protocols, words[3], record[5], bool(flags & 1), record[2])


def shown(machine: Machine, key: bytes = KEY) -> Group | None:
    """The group as its keys tell it; its own counts are compared with its members."""
    records, _ = machine.results(c.read_range(key, key + b"\1"))[0]
    if not records:
        return None
    head = records[0]
    assert head[0] == key
    assert head[6] == c.GROUP
    (generation, count, pending, joined, _, _, timer_ms, _, state, _, *lengths) = GROUP.unpack_from(head[1])
    words = parts(head[1], GROUP.size, *lengths)
    every = {record[0][len(key) + 1 :]: member_of(record) for record in records[1:]}
    assert all(record[6] == c.MEMBER_KEY for record in records[1:])
    members = {id: member for id, member in every.items() if not member.is_pending}
    waiting = {id: member for id, member in every.items() if member.is_pending}
    assert (count, pending) == (len(members), len(waiting))
    if state == PREPARING:
        assert joined == sum(member.joined == generation + 1 for member in members.values())
    assert (timer_ms != 0) == (head[5] != 0) == (state in (PREPARING, COMPLETING))
    return Group(state, generation, *words, joined, timer_ms, head[5], head[2], members, waiting)


def new_machine(*leases: int, ttl_ms: int = SESSION_MS, **limits: int) -> Machine:
    machine = Machine(**limits)
    machine.apply(c.command(c.LEVEL, 6))
    for lease in leases:
        machine.apply(c.grant(lease, ttl_ms))
    return machine


def joined(machine: Machine, lease: int, member: bytes = b"", **options: Any) -> bytes:
    """The id of a member whose join is not refused."""
    answer = machine.apply(join(lease, member, **options))
    assert answer.status == c.OK, answer
    found: bytes = answer.body[1]
    return found


def expire(machine: Machine) -> Answer:
    """What the leader proposes when leases are due."""
    return machine.apply(c.expire(*machine.handle.due_leases(machine.lease_ms)))
