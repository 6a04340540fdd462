"""Differences between dumps: what changed, and no more; on the dump they were taken from, and on no other."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from tests.faces.machine import MachineHandle
from tests.machine import commands as c
from tests.machine.machines import Machine, loaded
from tests.machine.test_dump import records


def whole(machine: MachineHandle) -> bytes:
    return b"".join(machine.dump())


def layers_of_a_busy_machine() -> Iterator[tuple[Machine, list[list[bytes]]]]:
    """A machine and its layers so far, after each of some steps that leave nothing as it was."""
    machine = Machine()
    base = machine.handle.dump_base()
    layers: list[list[bytes]] = []
    machine.apply(c.command(c.LEVEL, 2))
    machine.apply(c.open_session(5, ttl_ms=500, window=4))
    machine.apply(c.grant(1, 100, b"note"))
    machine.txn(c.put(b"stays"), c.put(b"leased", lease=1), c.put(b"goes"), c.put(b"comes back"), c.add(b"n", 3))
    for step in range(4):
        machine.txn(c.put(b"own %d" % step), c.put(b"changes", b"%d" % step), session=5, sequence=step + 1)
        machine.apply(c.command(c.USER, b"board", b"move %d" % step))
        machine.txn(c.delete(b"goes") if step == 1 else c.put(b"goes", b"%d" % step))
        machine.txn(c.delete(b"comes back"), c.put(b"other"))
        machine.txn(c.create(b"comes back", b"%d" % step))
        if step == 1:
            machine.apply(c.compact(machine.handle.status().revision - 1))
        if step == 2:
            machine.apply(c.revoke(1))
            machine.apply(c.open_session(6))
            machine.txn(c.delete(b"own 1"))
            machine.apply(c.compact(machine.handle.status().revision))
            machine.txn(c.put(b"own 1", b"again"))
        layers.append(list(machine.handle.dump(100, base)))
        yield machine, layers


def test_layers_are_the_state_at_each_of_them() -> None:
    for machine, layers in layers_of_a_busy_machine():
        assert whole(loaded(*layers)) == whole(machine.handle)


def test_a_difference_tells_only_what_changed() -> None:
    """1 % of 20,000 keys, far apart: about 1 % of the bytes, whether history tells it or the floor has passed it."""
    machine = MachineHandle()
    keys = [b"key-%08d" % i for i in range(20_000)]
    generator = random.Random(7)
    for floor_passes in (False, True):
        machine.apply_many([c.keys(c.put(key, bytes(64))) for key in keys])
        machine.apply(c.compact(machine.status().revision))
        base = machine.dump_base()
        full_bytes = sum(map(len, machine.dump(base=base)))
        machine.apply_many([c.keys(c.put(key, b"\1" * 64)) for key in generator.sample(keys, 200)])
        if floor_passes:
            machine.apply(c.compact(machine.status().revision))
        changed_bytes = sum(map(len, machine.dump(base=base)))
        assert 0.009 < changed_bytes / full_bytes < 0.015


def test_a_key_that_is_gone_is_a_tombstone_of_the_difference() -> None:
    machine = Machine()
    base = machine.handle.dump_base()
    machine.txn(c.put(b"stays"), c.put(b"goes"))
    layers = [list(machine.handle.dump(base=base))]
    machine.txn(c.delete(b"goes"), c.put(b"stays", b"2"))
    machine.apply(c.compact(2))
    machine.handle.publish()
    layers.append(list(machine.handle.dump(base=base)))
    assert [record[4] for record in records(b"".join(layers[1]))] == [1, 6, 6, 255]
    assert loaded(*layers).get(b"goes") == (c.NOT_FOUND, None)


def test_an_unchanged_state_has_an_empty_difference() -> None:
    machine = Machine()
    base = machine.handle.dump_base()
    machine.txn(c.put(b"k"))
    layers = [list(machine.handle.dump(base=base)), list(machine.handle.dump(base=base))]
    assert [record[4] for record in records(b"".join(layers[1]))] == [1, 255]
    assert whole(loaded(*layers)) == whole(machine.handle)


def test_difference_goes_on_beside_apply() -> None:
    """Roots stay pinned and nothing below the floor goes while another thread takes the chunks."""
    machine = MachineHandle()
    base = machine.dump_base()
    machine.apply_many([c.keys(c.put(b"%05d" % (i % 3000), bytes(50))) for i in range(9000)])
    layers = [list(machine.dump(base=base))]
    for step in range(3):
        machine.apply_many([c.keys(c.put(b"%05d" % (i % 4000), b"%d" % step)) for i in range(5000)])
        machine.apply(c.compact(machine.status().revision - 1000 * step))
        expected = whole(machine)
        dump = machine.dump(4096, base)
        layers.append([])
        reader = threading.Thread(target=lambda dump=dump: layers[-1].extend(dump))
        reader.start()
        while reader.is_alive():
            machine.apply_many([c.keys(c.put(b"%05d" % i, bytes(50)), c.delete(b"%05d" % (i + 1))) for i in range(100)])
            machine.apply(c.compact(machine.status().revision))
        reader.join()
        assert whole(loaded(*layers)) == expected


# --- what is refused --------------------------------------------------------------------------------------------------
def load(layers: list[list[bytes]]) -> int:
    """The first status that is not OK."""
    machine = MachineHandle()
    for layer in layers:
        for chunk in layer:
            if (status := machine.load_chunk(chunk)) != c.OK:
                return status
    return machine.load_done()


def test_layers_that_are_missing_or_in_another_order_are_refused() -> None:
    *_, (_, layers) = layers_of_a_busy_machine()
    assert load(layers) == c.OK
    for i in range(len(layers) - 1):
        assert load(layers[:i] + layers[i + 1 :]) != c.OK, i
        assert load([*layers[:i], layers[i + 1], layers[i], *layers[i + 2 :]]) != c.OK, i
    for i in range(len(layers)):
        assert load([*layers[: i + 1], *layers[i:]]) != c.OK, i


def test_a_difference_of_another_machine_is_refused() -> None:
    """Same counters, other keys: the hash of the dump it builds on tells."""
    machines = [Machine(), Machine()]
    layers = []
    for number, machine in enumerate(machines):
        base = machine.handle.dump_base()
        machine.txn(c.put(b"%d" % number))
        layers.append([list(machine.handle.dump(base=base))])
        machine.txn(c.put(b"k"))
        layers[-1].append(list(machine.handle.dump(base=base)))
    assert load([layers[0][0], layers[1][1]]) == c.BAD_CHECKSUM


@pytest.mark.parametrize("layer", [1, 2])
def test_every_flipped_bit_is_refused(layer: int) -> None:
    *_, (_, layers) = layers_of_a_busy_machine()
    joined = b"".join(layers[layer])
    before = [b"".join(chunks) for chunks in layers[:layer]]
    for bit in range(8 * len(joined)):
        flipped = bytearray(joined)
        flipped[bit // 8] ^= 1 << bit % 8
        status = load([*([chunk] for chunk in before), [bytes(flipped)]])
        assert status in (c.BAD_FIELD, c.BAD_LENGTH, c.BAD_VERSION, c.BAD_CHECKSUM), bit


def test_difference_of_an_unfinished_dump_is_refused() -> None:
    end_bytes = 16
    _, layers = next(layers_of_a_busy_machine())
    machine = MachineHandle()
    joined = b"".join(layers[0])
    assert machine.load_chunk(joined[:-end_bytes]) == c.OK
    assert machine.load_done() == c.INCOMPLETE
    assert machine.load_chunk(joined) == c.BAD_FIELD
