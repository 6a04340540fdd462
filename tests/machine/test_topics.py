"""Topics, row by row of docs/kafka-topics.md."""

from __future__ import annotations

import pytest

from tests.machine import commands as c
from tests.machine import topics as t


def test_a_topic_is_made_extended_and_removed() -> None:
    machine = t.new_machine()
    assert machine.apply(t.create(b"a", 2, configs=[b"cleanup.policy", b"compact"])).body == [
        [t.OK, t.id_of(1), 2, c.pack([b"cleanup.policy", b"compact"])]
    ]
    assert t.topic(machine, b"a") == (t.id_of(1), 2)
    assert machine.apply(t.extend(b"a", 5)).body == [t.OK]
    assert t.topic(machine, b"a") == (t.id_of(1), 5)
    assert machine.apply(t.delete(b"a", t.id_of(1))).body == [t.OK]
    assert t.topic(machine, b"a") is None


@pytest.mark.parametrize("partitions", [0, -1, 10_001])
def test_a_topic_has_a_number_of_partitions(partitions: int) -> None:
    machine = t.new_machine()
    assert machine.apply(t.create(b"a", partitions)).body[0][0] == t.INVALID_PARTITIONS
    assert t.topic(machine, b"a") is None


@pytest.mark.parametrize("partitions", [0, 1, 2, 10_001])
def test_partitions_only_grow(partitions: int) -> None:
    machine = t.new_machine()
    machine.apply(t.create(b"a", 2))
    assert machine.apply(t.extend(b"a", partitions)).body == [t.INVALID_PARTITIONS]


def test_each_topic_of_a_request_is_judged_for_itself() -> None:
    machine = t.new_machine()
    machine.apply(t.create(b"a"))
    items = [b"a", t.id_of(2), 1, [], b"b", t.id_of(3), 1, [], b"b", t.id_of(4), 1, []]
    answer = machine.apply(t.command([t.CREATE, False, items]))
    assert [code for code, *_ in answer.body] == [t.EXISTS, t.OK, t.EXISTS]
    assert t.topic(machine, b"b") == (t.id_of(3), 1)
    removed = machine.apply(
        t.command([t.DELETE, [b"c", b"", b"c", t.id_of(1), b"b", t.id_of(1), b"b", b"", b"b", b""]])
    )
    assert removed.body == [t.UNKNOWN, t.UNKNOWN_ID, t.UNKNOWN_ID, t.OK, t.UNKNOWN]


def test_a_trial_changes_nothing() -> None:
    machine = t.new_machine()
    before = machine.state_hash()
    assert machine.apply(t.create(b"a", is_trial=True)).body[0][0] == t.OK
    assert machine.state_hash() == before
    machine.apply(t.create(b"a"))
    assert machine.apply(t.extend(b"a", 4, is_trial=True)).body == [t.OK]
    assert t.topic(machine, b"a") == (t.id_of(1), 2)


def test_configs_are_changed_one_by_one() -> None:
    machine = t.new_machine()
    machine.apply(t.create(b"a", 3, configs=[b"b", b"1", b"d", b"1", b"f", b"1"]))
    changes = [(t.SET, b"a", b"2", b""), (t.SET, b"d", b"2", b""), (t.UNSET, b"f", b"", b""), (t.UNSET, b"g", b"", b"")]
    assert machine.apply(t.configure(b"a", *changes, is_trial=True)).body == [t.OK]
    assert t.configs(machine, b"a") == {b"b": b"1", b"d": b"1", b"f": b"1"}
    assert machine.apply(t.configure(b"a", *changes)).body == [t.OK]
    assert t.configs(machine, b"a") == {b"a": b"2", b"b": b"1", b"d": b"2"}
    assert t.topic(machine, b"a") == (t.id_of(1), 3)
    assert machine.apply(t.configure(b"a", (t.SET, b"c", b"3", b""), is_whole=True)).body == [t.OK]
    assert t.configs(machine, b"a") == {b"c": b"3"}
    assert machine.apply(t.configure(b"nowhere", *changes)).body == [t.UNKNOWN]


@pytest.mark.parametrize(
    ("kind", "old", "value", "fallback", "new"),
    [
        (t.APPEND, None, b"compact", b"delete", b"delete,compact"),
        (t.APPEND, b"compact", b"delete", b"delete", b"compact,delete"),
        (t.APPEND, b"compact", b"compact,compact", b"", b"compact"),
        (t.APPEND, b"", b",a,,b,a", b"x", b"a,b"),
        (t.SUBTRACT, None, b"delete", b"delete", b""),
        (t.SUBTRACT, b"a,b,a,c", b"a,c", b"", b"b,a"),
        (t.SUBTRACT, b"a", b"b", b"", b"a"),
    ],
)
def test_words_come_into_a_list_and_go(kind: int, old: bytes | None, value: bytes, fallback: bytes, new: bytes) -> None:
    machine = t.new_machine()
    machine.apply(t.create(b"a", configs=[] if old is None else [b"list", old]))
    assert machine.apply(t.configure(b"a", (kind, b"list", value, fallback))).body == [t.OK]
    assert t.configs(machine, b"a") == {b"list": new}


@pytest.mark.parametrize(
    "changes",
    [
        [(t.SET, b"%03d" % number, b"", b"") for number in range(65)],
        [(t.APPEND, b"list", b"a" * 4096, b"b")],
        [(t.APPEND, b"list", b",".join([b"a"] * 65), b"b")],
        [(t.SUBTRACT, b"list", b"a", b",".join([b"a"] * 65))],
    ],
)
def test_configs_have_bounds(changes: list[tuple[int, bytes, bytes, bytes]]) -> None:
    machine = t.new_machine()
    machine.apply(t.create(b"a", configs=[b"kept", b"1"]))
    assert machine.apply(t.configure(b"a", *changes)).body == [t.INVALID_CONFIG]
    assert t.configs(machine, b"a") == {b"kept": b"1"}


def test_another_key_is_no_topic() -> None:
    machine = t.new_machine()
    machine.txn(c.put(t.ROOT + b"a"))
    assert machine.apply(t.create(b"a")).body[0][0] == t.INVALID_NAME
    assert machine.apply(t.delete(b"a")).body == [t.UNKNOWN]


@pytest.mark.parametrize(
    "data",
    [
        [t.CREATE, False, [b"", t.id_of(1), 1, []]],
        [t.CREATE, False, [b"a\0", t.id_of(1), 1, []]],
        [t.CREATE, False, [b"a" * 250, t.id_of(1), 1, []]],
        [t.CREATE, False, [b"a", b"short", 1, []]],
        [t.CREATE, False, [b"a", t.id_of(1), 1, [b"y", b"", b"x", b""]]],
        [t.CREATE, False, [b"a", t.id_of(1), 1, [b"x"]]],
        [t.CREATE, False, [b"a", t.id_of(1), 1]],
        [t.CREATE, [b"a", t.id_of(1), 1, []]],
        [t.CONFIGS, False, False, [b"a", [t.SET, b"y", b"", b"", t.SET, b"x", b"", b""]]],
        [t.CONFIGS, False, False, [b"a", [t.SET, b"x", b"", b"", t.UNSET, b"x", b"", b""]]],
        [t.CONFIGS, False, False, [b"a", [4, b"x", b"", b""]]],
        [t.CONFIGS, False, False, [b"a", [t.SET, b"", b"", b""]]],
        [t.CONFIGS, False, False, [b"a", [t.SET, b"x", b"", b"y" * 4097]]],
        [t.CONFIGS, False, False, [b"a", [t.SET, b"x", b""]]],
        [t.CONFIGS, False, [b"a", []]],
        [t.COMMIT, b"g\0", -1, b"", b"", 0, []],
        [t.COMMIT, b"g", -2, b"", b"", 0, []],
        [t.COMMIT, b"g", -1, b"", b"", 0, [b"a", -1, 0, 0, b""]],
        [t.COMMIT, b"g", -1, b"", b"", 0, [b"a", 0, 0, -2, b""]],
        [7, False, []],
    ],
)
def test_bytes_that_no_node_writes_are_no_command(data: list[object]) -> None:
    machine = t.new_machine()
    before = machine.state_hash()
    assert machine.apply(t.command(data)).status == c.COMMAND_INVALID
    assert machine.state_hash() == before
