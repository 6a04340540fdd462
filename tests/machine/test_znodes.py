"""Znodes in the machine: what the model does not say, and the numbers that must hold."""

from __future__ import annotations

import time
from typing import Any

import msgpack
import pytest

from raftmeta.operations import ZnodeStat
from tests.faces.machine import MachineHandle
from tests.machine import commands as c
from tests.machine import znodes as z
from tests.machine.machines import Answer, Machine, loaded

OWNER = 9


def machine_of_level_4() -> Machine:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 4))
    machine.apply(c.grant(OWNER, 1000))
    return machine


def ask(machine: Machine, *operations: list[Any], **envelope: Any) -> Answer:
    return machine.apply(z.request(*operations, **envelope))


def made(machine: Machine, *operations: list[Any], **envelope: Any) -> list[Any]:
    answer = ask(machine, *operations, **envelope)
    assert answer.status == c.OK, answer
    results: list[Any] = answer.body
    return results


def znodes(machine: Machine) -> dict[bytes, tuple[Any, ...]]:
    machine.handle.publish()
    unpacker = msgpack.Unpacker()
    unpacker.feed(machine.handle.range_shared(z.ROOT + b"/", z.ROOT + b"0")[1])
    return z.shown(list(unpacker))


def field(stat: bytes, name: str) -> int:
    number: int = getattr(ZnodeStat(*z.STAT.unpack(stat)), name)
    return number


def test_a_request_needs_the_feature_level() -> None:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 3))
    assert ask(machine, z.create(b"/a")).status == c.COMMAND_INVALID
    machine.apply(c.command(c.LEVEL, 4))
    assert ask(machine, z.create(b"/a")).status == c.OK


def test_the_first_request_makes_what_every_tree_has() -> None:
    machine = machine_of_level_4()
    answer = ask(machine, z.check(b"/"))
    assert (answer.status, answer.revision, answer.changed) == (c.OK, 1, 4)
    assert sorted(znodes(machine)) == sorted(z.FOUNDED)
    assert {field(shown[5], "czxid") for shown in znodes(machine).values()} == {0}
    assert ask(machine, z.check(b"/"), z.check(b"/zookeeper")).changed == 0


def test_a_refused_request_makes_no_tree() -> None:
    machine = machine_of_level_4()
    assert ask(machine, z.create(b"/a/b")).body == [0, z.NO_NODE]
    assert machine.keys() == []


def test_a_plain_key_is_in_the_way_of_a_tree() -> None:
    machine = machine_of_level_4()
    machine.txn(c.put(z.ROOT + b"/"))
    assert ask(machine, z.create(b"/a")).body == [0, z.TREE_BLOCKED]
    assert machine.keys() == [z.ROOT + b"/"]
    machine.txn(c.delete(z.ROOT + b"/"))
    assert ask(machine, z.create(b"/a")).status == c.OK


def test_a_plain_key_below_a_root_is_no_znode_but_in_the_way_of_one() -> None:
    machine = machine_of_level_4()
    machine.txn(c.put(z.ROOT + b"/plain"))
    assert ask(machine, z.create(b"/plain")).body == [0, z.NODE_EXISTS]
    assert ask(machine, z.set_data(b"/plain", b"")).body == [0, z.NO_NODE]
    assert ask(machine, z.create(b"/plain/child")).body == [0, z.NO_NODE]
    assert ask(machine, z.delete(b"/plain")).body == [0, z.NO_NODE]


def test_trees_of_two_roots_know_nothing_of_each_other() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/a"), root=b"one")
    made(machine, z.create(b"/b"), root=b"two")
    assert ask(machine, z.check(b"/a"), root=b"two").body == [0, z.NO_NODE]
    for root in (b"", b"with/slash", b"n" * 65):
        assert ask(machine, z.check(b"/"), root=root).status == c.COMMAND_INVALID


def test_sequence_numbers_are_those_of_the_children_made_before() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/q"))
    names = [made(machine, z.create(b"/q/n-", sequential=True, width=10))[0][0] for _ in range(3)]
    assert names == [b"/q/n-000000000%d" % number for number in range(3)]
    made(machine, z.delete(names[2]))
    assert made(machine, z.create(b"/q/", sequential=True, width=3))[0][0] == b"/q/003"
    assert field(znodes(machine)[b"/q"][5], "cversion") == 2 * 4 - 3


def test_the_end_of_a_lease_counts_its_ephemerals_out_in_one_revision() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/p"))
    made(machine, z.create(b"/p/x", kind=z.EPHEMERAL), z.create(b"/p/y", kind=z.EPHEMERAL), owner=OWNER)
    before = machine.handle.status().revision
    machine.txn(c.put(b"plain", lease=OWNER))
    machine.apply(c.revoke(OWNER))
    parent = znodes(machine)[b"/p"][5]
    assert (field(parent, "children"), field(parent, "cversion"), field(parent, "pzxid")) == (0, 4, before + 2)
    assert machine.value(b"plain") is None
    assert ask(machine, z.check(b"/p"), owner=OWNER).body == [0, z.SESSION_EXPIRED]


def test_a_lease_with_as_many_ephemerals_as_it_may_have_ends_in_one_entry() -> None:
    """Each ephemeral has a parent of its own, so the entry changes twice as many keys as an entry may otherwise."""
    machine = machine_of_level_4()
    for first in range(0, c.CHANGES_MAX, 2500):
        parents = [b"/p%05d" % number for number in range(first, first + 2500)]
        made(machine, *map(z.create, parents))
        made(machine, *(z.create(path + b"/e", kind=z.EPHEMERAL) for path in parents), owner=OWNER)
    refused = ask(machine, z.create(b"/one-more", kind=z.EPHEMERAL), owner=OWNER)
    assert refused.status == c.TOO_MANY_CHANGES
    machine.lease_ms = 2000
    answer = machine.apply(c.expire(*machine.handle.due_leases(2000)))
    assert (answer.status, answer.changed) == (c.OK, 2 * c.CHANGES_MAX)
    assert machine.handle.status().keys == 4 + c.CHANGES_MAX
    assert loaded(machine.handle.dump()).status().state_hash == machine.state_hash()


def test_nobody_else_uses_a_lease_of_the_machine() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/t", kind=z.TTL, ttl_ms=50))
    machine.handle.publish()
    lease = machine.handle.get(z.ROOT + b"/t")[1][5]
    assert machine.apply(c.keep_alive(lease)).body == [0]
    assert machine.apply(c.revoke(lease)).status == c.ZNODE_WRITE
    assert machine.txn(c.put(b"key", lease=lease)).status == c.LEASE_EXPIRED
    assert ask(machine, z.check(b"/t"), owner=lease).body == [0, z.SESSION_EXPIRED]


def test_native_writes_of_znodes_are_refused() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/a", b"data"))
    key = z.ROOT + b"/a"
    for write in (
        c.put(key),
        c.update(key),
        c.delete(key),
        c.add(key, 1),
        c.delete_range(key, b""),
        c.put(key, flags=16),
    ):
        assert machine.txn(c.put(b"other"), write).status == c.ZNODE_WRITE
    assert machine.txn(c.create(key)).status == c.KEY_EXISTS
    assert machine.value(key) == b"data"
    assert machine.txn(compares=[[c.VALUE, c.EQUAL, key, b"data"]]).body[0] is True


def in_session(machine: Machine, sequence: int, after: int, path: bytes, lowest: int = 0) -> Answer:
    return ask(machine, z.create(path), session=5, sequence=sequence, after=after, lowest=lowest)


def test_a_request_does_not_overtake_the_one_before_it() -> None:
    machine = machine_of_level_4()
    machine.apply(c.open_session(5))
    assert in_session(machine, 2, 1, b"/second").status == c.OUT_OF_ORDER
    assert machine.handle.session_result(5, 2)[0] == c.NOT_FOUND
    assert in_session(machine, 1, 0, b"/first").status == c.OK
    assert in_session(machine, 2, 1, b"/second").status == c.OK
    assert in_session(machine, 2, 1, b"/second").is_duplicate
    # A refusal is an answer, too: what follows may go on.
    assert in_session(machine, 3, 2, b"/second").status == c.ZNODE_REFUSED
    assert in_session(machine, 4, 3, b"/fourth").status == c.OK
    # What its caller has seen is forgotten, and was applied.
    assert in_session(machine, 5, 4, b"/fifth", lowest=5).status == c.OK


def test_a_loader_refuses_an_extension_that_no_machine_wrote() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/a", b"data", kind=z.EPHEMERAL), owner=OWNER)
    machine.apply(c.compact(1))
    chunk = b"".join(machine.handle.dump())
    meta = chunk.index(b"data") + 4
    assert MachineHandle().load_chunk(chunk) == c.OK
    for offset, value in (
        (52, b"\xff\xff\xff\xff"),
        (56, b"\x07"),
        (57, b"\x04"),
        (58, b"\1"),
        (48, b"\1"),
        (0, b"\xff" * 8),
    ):
        broken = bytearray(chunk)
        broken[meta + offset : meta + offset + len(value)] = value
        assert MachineHandle().load_chunk(bytes(broken)) == c.BAD_FIELD, offset


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [
        ("/é", True), ("/a.b", True), ("/...", True), ("/.a", True), ("/a..", True), ("/\ud7ff", True),
        ("/\uf900", True),
        ("/.", False), ("/..", False), ("/a/./b", False), ("/a//b", False), ("/a/", False), ("/\x7f", False),
        ("/\x85", False), ("/\ue000", False), ("/\ufff0", False), ("/\U0001f600", False), ("/\x1f", False),
    ],
)  # fmt: skip
def test_a_path_is_what_zookeeper_takes(path: str, is_taken: bool) -> None:
    """PathUtils.validatePath of 3.9; characters beyond the basic plane are surrogates to Java."""
    machine = machine_of_level_4()
    made(machine, z.create(b"/a"))
    answer = ask(machine, z.set_data(path.encode(), b""))
    assert answer.body == [0, z.NO_NODE if is_taken else z.BAD_ARGUMENTS]


@pytest.mark.parametrize(
    ("name", "host", "is_allowed"),
    [
        (b"10.1.0.0/16", b"10.1.2.3", True), (b"10.1.0.0/16", b"10.2.2.3", False), (b"10.1.2.3", b"10.1.2.3", True),
        (b"10.1.2.0/23", b"10.1.3.9", True), (b"10.1.2.0/23", b"10.1.4.9", False), (b"::1", b"::1", True),
        (b"0.0.0.0/0", b"1.2.3.4", True), (b"0.0.0.0/0", b"::1", False), (b"fe80::/10", b"fe80::1", True),
        (b"::1", b"0:0:0:0:0:0:0:1", True), (b"1:2:3:4:5:6:7:8", b"1:2:3:4:5:6:7:8", True),
        (b"2001:db8::/32", b"2001:db8:0:0:0:0:0:1", True), (b"2001:db8::/32", b"2001:db9:0:0:0:0:0:1", False),
    ],
)  # fmt: skip
def test_rights_by_address_are_those_of_a_network(name: bytes, host: bytes, is_allowed: bool) -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/a", acl=[[z.WRITE, b"ip", name]]))
    answer = ask(machine, z.set_data(b"/a", b"x"), identities=[(b"ip", host)])
    assert (answer.status == c.OK) == is_allowed


@pytest.mark.parametrize("name", [b"", b"10.1", b"10.0.0.0/33", b"10.0.0.0/", b"::/129", b"x" * 60, b"10.0.0.0/-1"])
def test_an_address_that_is_none_gives_no_rights(name: bytes) -> None:
    machine = machine_of_level_4()
    assert ask(machine, z.create(b"/a", acl=[[z.ALL, b"ip", name]])).body == [0, z.INVALID_ACL]


def test_a_container_goes_a_while_after_its_last_child() -> None:
    machine = machine_of_level_4()
    made(machine, z.create(b"/c", kind=z.CONTAINER))
    made(machine, z.create(b"/c/x"))
    made(machine, z.delete(b"/c/x"))
    machine.lease_ms = z.CONTAINER_MS - 1
    assert machine.handle.due_leases(machine.lease_ms) == [(OWNER, 1000)]
    machine.lease_ms = z.CONTAINER_MS
    machine.apply(c.expire(*machine.handle.due_leases(machine.lease_ms)))
    assert b"/c" not in znodes(machine)
    assert machine.handle.status().leases == 0


def test_ten_children_of_a_million_descendants_cost_ten_seeks() -> None:
    """Direct children by the delimiter, as doors read them. Less than 1 ms, also beside other work: the best of ten."""
    machine = machine_of_level_4()
    made(machine, *(z.create(b"/%d" % number) for number in range(10)))
    per_child = 100_000
    payloads = [
        c.keys(*(c.put(z.ROOT + b"/%d/%06d" % (child, number)) for number in range(first, first + 10_000)))
        for child in range(10)
        for first in range(0, per_child, 10_000)
    ]
    assert set(machine.handle.apply_many(payloads)) == {c.OK}
    best_s = 1.0
    for _ in range(10):
        started = time.perf_counter()
        _, _, count, more, _ = machine.handle.range_shared(
            z.ROOT + b"/", z.ROOT + b"0", delimiter=b"/", skip=len(z.ROOT) + 1
        )
        best_s = min(best_s, time.perf_counter() - started)
    # The root itself, eleven znodes, and what is below each of them.
    assert (count, more) == (1 + 11 + 11, False)
    assert best_s < 0.001
