"""Words of consumers as msgpack, and the keys of a consumer group as values (docs/formats.md "Consumer groups")."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgpack

from tests.machine import commands as c
from tests.machine import groups as g
from tests.machine import topics as t
from tests.machine.machines import Answer, Machine

CONSUMER = 5
LEVEL = 7
JOINS, LEAVES, PAUSES = 0, -1, -2
HAS_SUBSCRIPTION, HAS_ASSIGNOR, HAS_OWNED, HAS_REBALANCE, WANTS_ASSIGNMENT = 1, 2, 4, 8, 16
FENCED_EPOCH, UNRELEASED_INSTANCE, STALE_EPOCH = 110, 111, 113
STABLE, UNREVOKED, UNRELEASED = range(3)
GROUP_IS_CONSUMER, MEMBER_IS_CONSUMER = 8, 2
SESSION_MS, REBALANCE_MS = 10_000, 30_000
META = struct.Struct("<QQiiIIIB3x")
Partition = tuple[bytes, int]  # id of the topic, number


def partitions(found: Iterable[Partition]) -> bytes:
    """As a list of bytes."""
    topics: dict[bytes, list[int]] = {}
    for topic, partition in sorted(found):
        topics.setdefault(topic, []).append(partition)
    return b"".join(
        topic + struct.pack(f"<I{len(numbers)}I", len(numbers), *numbers) for topic, numbers in topics.items()
    )


def _listed(data: bytes) -> Iterator[Partition]:
    while data:
        topic, (count,) = data[:16], struct.unpack_from("<I", data, 16)
        assert count > 0
        for partition in struct.unpack_from(f"<{count}I", data, 20):
            yield topic, partition
        data = data[20 + 4 * count :]


def listed(data: bytes) -> frozenset[Partition]:
    found = list(_listed(data))
    assert found == sorted(set(found))
    return frozenset(found)


def subscription(names: Iterable[bytes]) -> bytes:
    ordered = sorted(set(names))
    return struct.pack(">hi", 0, len(ordered)) + b"".join(struct.pack(">H", len(name)) + name for name in ordered)


def word(
    member: bytes,
    epoch: int,
    *,
    names: Iterable[bytes] | None = None,
    owned: Iterable[Partition] | None = None,
    assignor: bytes | None = None,
    instance: bytes = b"",
    rebalance_ms: int | None = None,
    most: int = 5000,
    wants: bool = False,
    key: bytes = g.KEY,
    ttl_ms: int = SESSION_MS,
    **envelope: Any,
) -> bytes:
    has = HAS_SUBSCRIPTION * (names is not None) + HAS_ASSIGNOR * (assignor is not None) + WANTS_ASSIGNMENT * wants
    has += HAS_OWNED * (owned is not None) + HAS_REBALANCE * (rebalance_ms is not None)
    data = [CONSUMER, member, instance, b"c", t.ROOT, b"" if names is None else subscription(names), assignor or b""]
    data += [partitions(owned or ()), epoch, rebalance_ms or 0, most, has]
    return c.command(c.GROUPS, *([0, ttl_ms] if epoch == JOINS else [0]), key, c.pack(data), **envelope)


def join(member: bytes, names: Iterable[bytes] = (b"t",), **more: Any) -> bytes:
    return word(member, JOINS, names=names, owned=(), wants=True, **{"rebalance_ms": REBALANCE_MS, **more})


class Told(NamedTuple):
    """An answer. assignment: None, it is not told."""

    code: int
    member: bytes
    epoch: int
    assignment: frozenset[Partition] | None


def told(answer: Answer) -> Told:
    if answer.status == c.GROUP_REFUSED:
        return Told(answer.body, b"", 0, None)
    assert answer.status == c.OK, answer
    code, member, epoch, is_told, assigned = answer.body
    assert is_told or not assigned
    return Told(code, member, epoch, listed(assigned) if is_told else None)


class Consumer(NamedTuple):
    """A member of a consumer group as its key tells it."""

    state: int
    epoch: int
    previous: int
    target: frozenset[Partition]
    assigned: frozenset[Partition]
    revoking: frozenset[Partition]
    names: tuple[bytes, ...]
    assignor: bytes
    instance: bytes
    lease: int
    fence: int


class Group(NamedTuple):
    """epoch: of the group. target: the epoch that the targets of its members are for."""

    epoch: int
    target: int
    assignor: bytes
    fence: int
    members: dict[bytes, Consumer]

    @property
    def is_stable(self) -> bool:
        ready = all(one.state == STABLE and one.epoch == self.target for one in self.members.values())
        return ready and self.epoch == self.target


def _consumer(record: Any) -> Consumer:
    _, joined, assigned, _, listed_bytes, count, given, instance, client, flags = g.MEMBER.unpack_from(record[1])
    assert (joined, assigned, count, flags) == (0, 0, 1, MEMBER_IS_CONSUMER)
    words = g.parts(record[1], g.MEMBER.size, instance, client, listed_bytes, given)
    assignor, said = msgpack.unpackb(words[2])
    _, _, epoch, previous, *lengths, state = META.unpack_from(words[3])
    lists = [listed(part) for part in g.parts(words[3], META.size, *lengths)]
    names, at = [], 6
    while at < len(said):
        (length,) = struct.unpack_from(">H", said, at)
        names.append(said[at + 2 : at + 2 + length])
        at += 2 + length
    assert subscription(names) == said
    target, assigned_list, revoking = lists
    return Consumer(
        state, epoch, previous, target, assigned_list, revoking, tuple(names), assignor, words[0], record[5], record[2]
    )


def shown(machine: Machine, key: bytes = g.KEY) -> Group | None:
    """The group as its keys tell it; None: there is none, or it is of the other kind. Its invariants are checked."""
    records, _ = machine.results(c.read_range(key, key + b"\1"))[0]
    if not records:
        return None
    head = records[0]
    epoch, count, pending, joined, target, _, timer_ms, _, state, flags, *lengths = g.GROUP.unpack_from(head[1])
    if not flags & GROUP_IS_CONSUMER:
        return None
    kind, assignor, leader = g.parts(head[1], g.GROUP.size, *lengths)
    members = {record[0][len(key) + 1 :]: _consumer(record) for record in records[1:]}
    assert (pending, joined, timer_ms, head[5], leader) == (0, 0, 0, 0, b"")
    assert (kind, state, count) == (b"consumer", g.STABLE if members else g.EMPTY, len(members))
    assert target <= epoch
    held: set[Partition] = set()
    targets: set[Partition] = set()
    for one in members.values():
        mine = one.assigned | one.revoking
        assert len(mine) == len(one.assigned) + len(one.revoking)
        assert not mine & held, "a partition has two owners"
        assert not one.target & targets, "a partition is in two targets"
        assert one.epoch <= target
        assert bool(one.revoking) == (one.state == UNREVOKED)
        held |= mine
        targets |= one.target
    return Group(epoch, target, assignor, head[2], members)


def new_machine(topics: dict[bytes, int] | None = None, *, level: int = LEVEL) -> Machine:
    """With these topics, each with so many partitions."""
    machine = g.new_machine(level=level)
    for number, (name, count) in enumerate(({b"t": 4} if topics is None else topics).items()):
        assert machine.apply(t.create(name, count, number=number + 1)).status == c.OK
    return machine


class Client:
    """A consumer as KIP-848 has it: it gives back what it is not to have any more, says so, and takes what is new."""

    def __init__(self, machine: Machine, id: bytes, names: Iterable[bytes] = (b"t",), **more: Any) -> None:
        self.machine = machine
        self.id = id
        self.names = tuple(names)
        self.more = more
        self.epoch = JOINS
        self.held: frozenset[Partition] = frozenset()
        self.next: frozenset[Partition] = frozenset()  # that it was told last

    def _take(self, answer: Told) -> Told:
        if answer.code:
            self.epoch, self.held, self.next = JOINS, frozenset(), frozenset()
        else:
            self.epoch = answer.epoch
            if answer.assignment is not None:
                self.next = answer.assignment
        return answer

    def beat(self, *, is_lost: bool = False) -> Told:
        """One word with all that it has to say. is_lost: it never hears the answer."""
        if self.epoch == JOINS:
            payload = join(self.id, self.names, **self.more)
        else:
            payload = word(self.id, self.epoch, owned=self.held, wants=True, **self._instance())
        answer = told(self.machine.apply(payload))
        return answer if is_lost else self._take(answer)

    def reads(self, *names: bytes) -> Told:
        """It subscribes to something else."""
        self.names = names
        if self.epoch == JOINS:
            return self.beat()
        payload = word(self.id, self.epoch, owned=self.held, names=names, wants=True, **self._instance())
        return self._take(told(self.machine.apply(payload)))

    def revoke(self) -> None:
        """It stops to read what it is not to have any more, and then begins with what is new."""
        self.held = self.next

    def leave(self, epoch: int = LEAVES) -> Told:
        answer = told(self.machine.apply(word(self.id, epoch, **self._instance())))
        self.epoch, self.held, self.next = JOINS, frozenset(), frozenset()
        return answer

    def _instance(self) -> dict[str, Any]:
        return {"instance": self.more["instance"]} if "instance" in self.more else {}


def settle(machine: Machine, *clients: Client, rounds: int = 8) -> Group:
    """All beat and give back until nothing changes any more."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
            client.revoke()
    group = shown(machine)
    assert group is not None
    assert group.is_stable, group
    return group
