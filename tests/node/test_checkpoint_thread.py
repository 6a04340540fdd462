"""The thread of checkpoints behind its port: whole states back, nobody kept waiting (snapshots/checkpoint.pxd)."""

from __future__ import annotations

import ctypes
import os
import random
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from raftmeta.storage.checkpoint import CheckpointStore, Manifest
from tests.faces.checkpoints import CheckpointPortHandle
from tests.faces.machine import MachineHandle
from tests.machine import commands as c
from tests.processes.waiting import wait_until

BASE, DIFFERENCE = 1, 2
NO_SPACE, NODE_CLOSED, NOT_FOUND, CORRUPT, NOT_READY = 35, 36, 73, 75, 33


@pytest.fixture
def port(tmp_path: Path) -> Iterator[CheckpointPortHandle]:
    handle = CheckpointPortHandle(tmp_path)
    yield handle
    assert handle.stop(10)


def fill(machine: MachineHandle, count: int = 20_000, value: bytes = bytes(64)) -> None:
    machine.apply_many([c.keys(c.put(b"key-%08d" % i, value)) for i in range(count)])


def change(machine: MachineHandle, seed: int, count: int = 200) -> None:
    generator = random.Random(seed)
    keys = [b"key-%08d" % generator.randrange(20_000) for _ in range(count)]
    machine.apply_many([c.keys(c.put(key, b"%d" % seed) if seed % 2 else c.delete(key)) for key in keys])
    machine.apply(c.grant(seed, 1000))
    machine.apply(c.compact(machine.status().revision - 50))


def took(port: CheckpointPortHandle, term: int = 1) -> int:
    """Take a checkpoint and return how it ended."""
    ended = []

    def has_ended() -> bool:
        status = port.poll()
        if status != NOT_READY:
            ended.append(status)
        return status != NOT_READY

    assert port.take(term, b"members") == c.OK
    wait_until(has_ended, timeout_s=20, what="the checkpoint")
    return ended[0]


def loaded(port: CheckpointPortHandle) -> MachineHandle:
    machine = MachineHandle()
    while (piece := port.next())[0] == c.OK:
        assert machine.load_chunk(piece[1]) == c.OK
    assert piece[0] == NOT_FOUND
    assert machine.load_done() == c.OK
    return machine


def dumped(machine: MachineHandle) -> bytes:
    return b"".join(machine.dump())


def test_a_blank_folder_has_no_checkpoint(port: CheckpointPortHandle, tmp_path: Path) -> None:
    assert port.open()[0] == NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_base_and_differences_come_back_as_the_state_of_the_last(port: CheckpointPortHandle, tmp_path: Path) -> None:
    machine = MachineHandle()
    fill(machine)
    port.begin_from(machine, is_kept=False)
    for term in range(1, 6):
        change(machine, term)
        assert took(port, term) == c.OK
    assert port.layers == [BASE] + [DIFFERENCE] * 4
    assert port.stop(10)
    again = CheckpointPortHandle(tmp_path)
    assert again.open() == (c.OK, (machine.status().applied, 5, b"members"))
    assert dumped(loaded(again)) == dumped(machine)
    assert again.stop(10)


def test_a_restarted_node_goes_on_with_differences(port: CheckpointPortHandle, tmp_path: Path) -> None:
    machine = MachineHandle()
    fill(machine)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    assert port.stop(10)
    again = CheckpointPortHandle(tmp_path)
    assert again.open()[0] == c.OK
    copy = loaded(again)
    again.begin_from(copy, is_kept=True)
    change(copy, 7)
    assert took(again) == c.OK
    assert again.layers == [BASE, DIFFERENCE]
    assert again.open()[0] == c.OK
    assert dumped(loaded(again)) == dumped(copy)
    assert again.stop(10)


def test_a_base_of_which_much_was_overwritten_is_not_kept_in_memory(port: CheckpointPortHandle) -> None:
    """A difference would be as long as a whole checkpoint; docs/decisions/README.md "Checkpoints"."""
    machine = MachineHandle()
    fill(machine, 80_000, b"")
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    change(machine, 1)
    port.tick()
    assert took(port) == c.OK
    assert port.layers == [BASE, DIFFERENCE]
    fill(machine, 80_000, b"other")
    machine.apply(c.compact(machine.status().revision))
    fill(machine, 80_000, b"again")  # while this is applied the history goes, a slice with each
    port.tick()
    assert took(port) == c.OK
    assert port.layers == [BASE]
    assert port.open()[0] == c.OK
    assert dumped(loaded(port)) == dumped(machine)


def test_after_an_install_the_next_one_is_whole(port: CheckpointPortHandle) -> None:
    """The other state shares no root with the one before; what was pinned of that is let go."""
    machine, installed = MachineHandle(), MachineHandle()
    fill(machine)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    fill(installed, value=b"another")
    port.begin_from(installed, is_kept=False)
    del machine
    assert took(port) == c.OK
    assert port.layers == [BASE]
    assert port.open()[0] == c.OK
    assert dumped(loaded(port)) == dumped(installed)


def test_apply_goes_on_while_a_checkpoint_is_written(port: CheckpointPortHandle) -> None:
    machine = MachineHandle()
    fill(machine)
    port.begin_from(machine, is_kept=False)
    for seed in range(3):
        expected = dumped(machine)
        assert port.take(1, b"") == c.OK
        while (status := port.poll()) == NOT_READY:
            change(machine, seed, 20)
        assert status == c.OK
        assert port.open()[0] == c.OK
        assert dumped(loaded(port)) == expected


def test_whoever_holds_the_gil_delays_the_checkpoint_and_nothing_else(port: CheckpointPortHandle) -> None:
    """take and poll return although the thread cannot run, and so before the checkpoint is written."""
    machine = MachineHandle()
    fill(machine, 1000)
    port.begin_from(machine, is_kept=False)
    assert port.take(1, b"") == c.OK
    ctypes.PyDLL(None).usleep(300_000)  # with the GIL held
    assert port.poll() == NOT_READY
    wait_until(lambda: port.poll() == c.OK, timeout_s=20, what="the checkpoint")


def test_damage_is_told_and_the_next_checkpoint_is_whole(port: CheckpointPortHandle, tmp_path: Path) -> None:
    machine = MachineHandle()
    fill(machine)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    assert port.stop(10)
    key = b"c" + struct.pack(">QI", 1, 1)
    with lmdb.open(str(tmp_path / "checkpoint"), lock=False) as environment, environment.begin(write=True) as txn:
        row = bytearray(txn.get(key))
        row[-1] ^= 1
        txn.put(key, bytes(row))
    again = CheckpointPortHandle(tmp_path)
    assert again.open()[0] == c.OK
    assert [again.next()[0], again.next()[0]] == [c.OK, CORRUPT]
    again.begin_from(machine, is_kept=False)
    assert took(again) == c.OK
    assert again.open()[0] == c.OK
    assert dumped(loaded(again)) == dumped(machine)
    assert again.stop(10)


def test_a_failed_checkpoint_leaves_the_one_before_and_the_next_difference_holds_both(
    port: CheckpointPortHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = MachineHandle()
    fill(machine)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    change(machine, 1)
    with monkeypatch.context() as patch:
        patch.setattr("raftmeta.storage.checkpoint._hash_of", full_map)
        assert took(port) == NO_SPACE
    change(machine, 3)
    assert took(port) == c.OK
    assert port.layers == [BASE, DIFFERENCE]
    assert port.open()[0] == c.OK
    assert dumped(loaded(port)) == dumped(machine)


def full_map(*_: object) -> None:
    raise lmdb.MapFullError("full")


def test_forget_removes_everything(port: CheckpointPortHandle, tmp_path: Path) -> None:
    machine = MachineHandle()
    fill(machine, 10)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    assert port.forget() == c.OK
    assert list(tmp_path.iterdir()) == []
    assert port.open()[0] == NOT_FOUND


def test_close_in_the_middle_ends_the_thread_and_keeps_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = MachineHandle()
    fill(machine)
    port = CheckpointPortHandle(tmp_path)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    before = dumped(machine)
    change(machine, 1)
    reached, closing = threading.Event(), threading.Event()
    write_layer = CheckpointStore._write_layer

    def wait_for_close(*arguments: Any) -> Manifest:
        reached.set()
        assert closing.wait(20)
        return write_layer(*arguments)

    monkeypatch.setattr("raftmeta.storage.checkpoint.CheckpointStore._write_layer", wait_for_close)
    assert port.take(1, b"") == c.OK
    assert reached.wait(20)
    assert not port.stop(0.01)
    closing.set()
    assert port.stop(20)
    assert port.poll() == NODE_CLOSED
    assert port.open()[0] == NODE_CLOSED
    monkeypatch.undo()
    again = CheckpointPortHandle(tmp_path)
    assert again.open()[0] == c.OK
    assert dumped(loaded(again)) == before
    assert again.stop(10)


def test_a_difference_waits_for_its_turn_and_nobody_waits_for_one_that_waits(port: CheckpointPortHandle) -> None:
    machine = MachineHandle()
    fill(machine, 100)
    port.begin_from(machine, is_kept=False)
    years = 10**9
    assert port.take(1, b"members", turn=years) == c.OK
    wait_until(lambda: port.poll() == c.OK, timeout_s=20, what="the base, which waits for nobody")
    change(machine, 1)
    assert took(port) == c.OK  # how long it takes says how long a turn is
    change(machine, 3)
    assert port.take(1, b"members", turn=years) == c.OK
    assert port.poll() == NOT_READY
    assert port.stop(20)
    assert port.poll() == NODE_CLOSED
    assert port.layers == [BASE, DIFFERENCE]


def test_a_fork_child_neither_hangs_nor_disturbs_the_checkpoints(port: CheckpointPortHandle) -> None:
    machine = MachineHandle()
    fill(machine, 100)
    port.begin_from(machine, is_kept=False)
    assert took(port) == c.OK
    child = os.fork()
    if child == 0:
        os._exit(0 if threading.active_count() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    change(machine, 1, 5)
    assert took(port) == c.OK
    assert port.open()[0] == c.OK
    assert dumped(loaded(port)) == dumped(machine)
