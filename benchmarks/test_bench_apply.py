"""Rates of the replicated machine alone: decode, session, plan, tree, history, result, publish, trim."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgpack
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.faces.machine import MachineHandle

PUTS = 20_000
SESSION = 77
OPEN, COMPACT, KEYS, PUT = 6, 9, 1, 1


def command(kind: int, *fields: object, sequence: int = 0, lowest: int = 0) -> bytes:
    session = SESSION if sequence else 0
    return msgpack.packb([kind, session, sequence, lowest, None, *fields], use_bin_type=True)


@pytest.mark.parametrize("keys", [1_000, 100_000])
@pytest.mark.parametrize("in_session", [False, True])
def test_single_puts(benchmark: BenchmarkFixture, keys: int, in_session: bool) -> None:
    """20,000 entries of one put of 256 bytes to a random key, published every 256; compacted between rounds."""
    machine = MachineHandle()
    machine.apply(command(OPEN, SESSION, 60_000, 4096))
    draw = random.Random(1)
    value = bytes(256)
    machine.apply_many([command(KEYS, [[], [[PUT, 0, b"key-%010d" % i, value, 0, 0]], []]) for i in range(keys)])
    sequence = 0

    def prepare() -> None:
        nonlocal sequence
        machine.apply(command(COMPACT, machine.status().revision))
        for _ in range(keys // 256 + 100):
            machine.publish()
        payloads = []
        for _ in range(PUTS):
            sequence += in_session
            txn = [[], [[PUT, 0, b"key-%010d" % draw.randrange(keys), value, 0, 0]], []]
            payloads.append(command(KEYS, txn, sequence=sequence, lowest=max(1, sequence - 1000) if in_session else 0))
        machine.prepare_many(payloads)

    applied: Callable[[], list[int]] = machine.apply_prepared
    benchmark.extra_info["puts"] = PUTS
    assert set(benchmark.pedantic(applied, setup=prepare, rounds=10)) == {0}
    assert machine.status().keys == keys
