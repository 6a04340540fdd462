"""The local checkpoint: layers of checked rows, replaced whole or not at all (docs/formats.md "Checkpoint")."""

from __future__ import annotations

import errno
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from raftmeta.native.native_handle import crc32c
from raftmeta.storage.checkpoint import (
    FORMAT_BASE,
    FORMAT_DIFFERENCE,
    CheckpointDamaged,
    CheckpointFailed,
    CheckpointNewerFormat,
    CheckpointNoSpace,
    CheckpointStore,
    Manifest,
)

HEAD = Manifest(
    cluster_low=1,
    cluster_high=2,
    index=10,
    term=3,
    chain=4,
    wall_ms=5,
    membership_index=6,
    membership=b"membership",
    feature_level=1,
    state_hash_low=7,
    state_hash_high=8,
)
BASE = [(b"a" * 90_000, 3), (b"b" * 70_000, 2)]
CHANGED = [(b"c" * 5_000, 1)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CheckpointStore]:
    opened = CheckpointStore(tmp_path / "checkpoint")
    yield opened
    opened.close()


def reopened(store: CheckpointStore) -> CheckpointStore:
    store.close()
    return CheckpointStore(store.path)


def rows(store: CheckpointStore) -> dict[bytes, bytes]:
    """Every row of a closed store, read without its code."""
    store.close()
    with lmdb.open(str(store.path), lock=False) as environment, environment.begin() as transaction:
        return dict(transaction.cursor())


def replace_row(store: CheckpointStore, key: bytes, row: bytes | None) -> None:
    store.close()
    with lmdb.open(str(store.path), lock=False, sync=False) as environment, environment.begin(write=True) as txn:
        assert txn.delete(key) if row is None else txn.put(key, row)


# --- what is written --------------------------------------------------------------------------------------------------
def test_nothing_is_made_before_the_first_write(store: CheckpointStore) -> None:
    assert store.open() is None
    assert store.is_base_due()
    assert not store.path.exists()


def test_a_base_and_its_differences_are_read_in_order(store: CheckpointStore) -> None:
    store.write(HEAD, BASE, is_base=True)
    for step in range(3):
        assert not store.is_base_due()
        written = store.write(HEAD, [(b"%d" % step * 1000, 1)], is_base=False)
    again = reopened(store)
    assert again.open() == written
    assert [layer.kind for layer in written.layers] == [FORMAT_BASE] + [FORMAT_DIFFERENCE] * 3
    assert list(again.records()) == [b"a" * 90_000, b"b" * 70_000, b"0" * 1000, b"1" * 1000, b"2" * 1000]
    again.close()


def test_chunks_are_read_ahead(store: CheckpointStore) -> None:
    """After a power cut nothing of the file is in memory; one wait for each page made a start last seconds.

    The kernel tells for each mapping whether it was told that pages are read in no order (man 5 proc, smaps, "rr").
    """
    store.write(HEAD, BASE, is_base=True)
    again = reopened(store)
    try:
        again.open()
        mappings = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
        (flags,) = (
            re.findall(r"^VmFlags: (.*)$", mapping, flags=re.MULTILINE)[0].split()
            for mapping in mappings
            if f"{store.path}/data.mdb" in mapping
        )
        assert "rd" in flags
        assert "rr" not in flags
    finally:
        again.close()


def test_a_base_is_due_when_differences_outgrow_a_quarter_of_it(store: CheckpointStore) -> None:
    store.write(HEAD, BASE, is_base=True)
    store.write(HEAD, [(bytes(40_000), 1)], is_base=False)
    assert not store.is_base_due()
    store.write(HEAD, [(b"x", 1)], is_base=False)
    assert store.is_base_due()
    store.write(HEAD, CHANGED, is_base=True)
    assert store.is_base_due() is False


def test_a_new_base_leaves_no_row_of_the_layers_before(store: CheckpointStore) -> None:
    store.write(HEAD, BASE, is_base=True)
    store.write(HEAD, CHANGED, is_base=False)
    store.write(HEAD, CHANGED, is_base=True)
    assert sorted(rows(store)) == [b"c" + struct.pack(">QI", 3, 0), b"m"]


def test_rows_are_as_the_document_says(store: CheckpointStore) -> None:
    store.write(HEAD, CHANGED, is_base=True)
    found = rows(store)
    key = b"c" + struct.pack(">QI", 1, 0)
    records = CHANGED[0][0]
    assert found[key] == struct.pack("<II", crc32c(key + records), 0) + records
    manifest = found[b"m"]
    assert manifest[:4] == b"RCKP"
    assert struct.unpack("<I", manifest[4:8]) == (crc32c(manifest[8:]),)
    assert manifest[8:16] == struct.pack("<B3xI", 1, 1)
    assert manifest[16:72] == struct.pack("<7Q", 1, 2, 10, 3, 4, 5, 6)
    assert manifest[72:96] == struct.pack("<IIQQ", 10, 1, 7, 8)
    assert manifest[96:106] == b"membership"
    assert manifest[106:138] == struct.pack("<QIIQQ", 1, 1, 1, 1, 5000)
    assert len(manifest) == 154


def test_rows_of_a_layer_that_stays_are_not_walked_over(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a busy thread of Python each step of a cursor waits for the GIL: a base of 350 rows took seconds."""
    store.write(HEAD, [(b"x", 1)] * 500, is_base=True)
    store = reopened(store)
    store.open()
    steps: list[bytes] = []

    class Counted:
        def __init__(self, cursor: lmdb.Cursor) -> None:
            self.cursor = cursor

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *_: object) -> None:
            self.cursor.close()

        def __getattr__(self, name: str) -> object:
            steps.append(name.encode())
            return getattr(self.cursor, name)

    class Transaction:
        def __init__(self, transaction: lmdb.Transaction) -> None:
            self.transaction = transaction

        def cursor(self) -> Counted:
            return Counted(self.transaction.cursor())

    remove = CheckpointStore._remove_rows
    monkeypatch.setattr(
        CheckpointStore, "_remove_rows", staticmethod(lambda txn, named: remove(Transaction(txn), named))
    )
    for _ in range(3):
        store.write(HEAD, CHANGED, is_base=False)
    assert 0 < len(steps) < 60
    assert len(rows(store)) == 504


@pytest.mark.parametrize("is_same_process", [False, True])
def test_a_large_layer_is_committed_in_parts_and_counts_when_the_last_is(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, is_same_process: bool
) -> None:
    monkeypatch.setattr("raftmeta.storage.checkpoint.TUNE_TRANSACTION_BYTES", 10_000)
    store.write(HEAD, CHANGED, is_base=True)
    before = store.manifest

    def interrupted() -> Iterator[tuple[bytes, int]]:
        yield from [(bytes(9000), 1)] * 5
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write(HEAD, interrupted(), is_base=True)
    again = store
    if not is_same_process:
        assert len(rows(store)) > 2  # parts of it are there, and nobody names them
        again = CheckpointStore(store.path)
        assert again.open() == before
    again.write(HEAD, [(bytes(9000), 1)] * 3, is_base=True)
    assert list(map(len, again.records())) == [9000] * 3
    assert len(rows(again)) == 4


def test_a_process_killed_while_it_writes_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    """Killed at any time, the last manifest that was committed is whole."""
    program = """
import sys
from pathlib import Path
from raftmeta.storage.checkpoint import CheckpointStore
from dataclasses import replace
from tests.storage.test_checkpoint import HEAD
store = CheckpointStore(Path(sys.argv[1]))
for index in range(1, 1_000_000):
    store.write(replace(HEAD, index=index), [(b"%d" % index * 20_000, 1)] * 3, is_base=store.is_base_due())
    print(index, flush=True)
"""
    generator = random.Random(5)
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "c")], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(generator.randrange(1, 12))]
        child.kill()
        rest = child.stdout.read().split()
        child.wait()
        child.stdout.close()
        store = CheckpointStore(tmp_path / "c")
        manifest = store.open()
        assert manifest is not None
        assert manifest.index in (int((rest or lines)[-1]), int((rest or lines)[-1]) + 1)
        last = list(store.records())[-1]
        assert last == b"%d" % manifest.index * 20_000
        store.remove()


# --- what is refused --------------------------------------------------------------------------------------------------
def test_a_flipped_bit_in_any_byte_of_a_row_is_found(store: CheckpointStore) -> None:
    store.write(HEAD, [(b"records of the base", 1)], is_base=True)
    store.write(HEAD, [(b"what changed", 1)], is_base=False)
    for key, row in rows(store).items():
        for position in range(len(row)):
            flipped = bytearray(row)
            flipped[position] ^= 1 << position % 8
            replace_row(store, key, bytes(flipped))
            again = CheckpointStore(store.path)
            with pytest.raises((CheckpointDamaged, CheckpointNewerFormat)):
                again.open()
                list(again.records())
            again.close()
            replace_row(store, key, row)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_row_that_is_missing_or_another_ones_is_found(store: CheckpointStore, position: int) -> None:
    store.write(HEAD, [(b"one", 1), (b"two", 1)], is_base=True)
    store.write(HEAD, [(b"one", 1)], is_base=False)
    chunks = {key: row for key, row in rows(store).items() if key != b"m"}
    key = sorted(chunks)[position]
    other = chunks[sorted(chunks)[position - 1]]
    for wrong in (None, other, b""):
        replace_row(store, key, wrong)
        again = CheckpointStore(store.path)
        assert again.open() is not None
        with pytest.raises(CheckpointDamaged):
            list(again.records())
        again.close()
        replace_row(store, key, chunks[key])


def test_a_damaged_checkpoint_is_replaced_by_the_next_base(store: CheckpointStore) -> None:
    store.write(HEAD, BASE, is_base=True)
    replace_row(store, b"c" + struct.pack(">QI", 1, 0), b"damaged row")
    again = CheckpointStore(store.path)
    assert again.open() is not None
    with pytest.raises(CheckpointDamaged):
        list(again.records())
    assert again.is_base_due()
    again.write(HEAD, CHANGED, is_base=True)
    assert list(again.records()) == [CHANGED[0][0]]
    again.close()


@pytest.mark.parametrize("damage", ["cut", "no environment"])
def test_a_file_that_is_no_environment_is_found_and_replaced(store: CheckpointStore, damage: str) -> None:
    store.write(HEAD, BASE, is_base=True)
    store.close()
    file = store.path / "data.mdb"
    os.truncate(file, file.stat().st_size // 2) if damage == "cut" else file.write_bytes(b"x" * 50_000)
    again = CheckpointStore(store.path)
    with pytest.raises(CheckpointDamaged):
        again.open()
    again.write(HEAD, BASE, is_base=True)
    assert len(list(again.records())) == 2
    again.close()


def test_a_newer_format_is_told_and_left_alone(store: CheckpointStore) -> None:
    store.write(HEAD, CHANGED, is_base=True)
    manifest = bytearray(rows(store)[b"m"])
    manifest[8] += 2  # 2: with encryption
    manifest[4:8] = struct.pack("<I", crc32c(bytes(manifest[8:])))
    replace_row(store, b"m", bytes(manifest))
    before = (store.path / "data.mdb").read_bytes()
    again = CheckpointStore(store.path)
    with pytest.raises(CheckpointNewerFormat):
        again.open()
    again.close()
    assert (store.path / "data.mdb").read_bytes() == before


# --- failing disks ----------------------------------------------------------------------------------------------------
def test_a_full_map_keeps_the_checkpoint_before_and_may_be_tried_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint", map_bytes=1 << 20)
    before = store.write(HEAD, BASE, is_base=True)
    with pytest.raises(CheckpointNoSpace):
        store.write(HEAD, [(bytes(400_000), 1)] * 3, is_base=True)
    assert store.manifest == before
    assert list(map(len, store.records())) == [90_000, 70_000]
    assert store.write(HEAD, CHANGED, is_base=False).layers[0] == before.layers[0]
    store.close()


LIMITED = """
import resource, sys
from pathlib import Path
from raftmeta.storage.checkpoint import *
from tests.storage.test_checkpoint import BASE, HEAD
if sys.argv[2] == "full":
    import shutil
    shutil.disk_usage = lambda path: type("Usage", (), {"free": 0})
if sys.argv[2] == "drained":  # there is room again when the error is looked at
    import shutil
    shutil.disk_usage = lambda path: type("Usage", (), {"free": 1 << 40 if sys.exc_info()[0] else 0})
store = CheckpointStore(Path(sys.argv[1]))
before = store.write(HEAD, BASE, is_base=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
for attempt in range(2):
    try:
        store.write(HEAD, [(bytes(1_000_000), 1)] * 3, is_base=True)
    except CheckpointError as error:
        print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
try:
    store.write(HEAD, [(bytes(1_000_000), 1)] * 3, is_base=True)
except CheckpointError as error:
    print(type(error).__name__)
print(store.manifest == before, CheckpointStore.open(store) == before, len(list(store.records())))
"""


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        ("full", ["CheckpointNoSpace", "CheckpointNoSpace", "False False 3"]),
        ("drained", ["CheckpointNoSpace", "CheckpointNoSpace", "False False 3"]),
        ("failing", ["CheckpointFailed", "CheckpointFailed", "CheckpointFailed", "True True 2"]),
    ],
)
def test_a_write_that_fails_is_not_tried_again_unless_the_disk_was_full(
    tmp_path: Path, disk: str, expected: list[str]
) -> None:
    """LMDB tells a write that was cut short as an input/output error; the free room says which it was."""
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path / "c"), disk], capture_output=True, text=True)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == expected


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_without_room_for_the_folder_is_full_and_did_not_fail(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The node stopped as DiskFailed: the system tells this itself, and not LMDB."""

    def refuse(path: Path, *_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with pytest.raises(CheckpointNoSpace, match="no room for a checkpoint"):
            store.write(HEAD, BASE, is_base=True)
    store.write(HEAD, BASE, is_base=True)


def test_remove_leaves_nothing(store: CheckpointStore) -> None:
    store.write(HEAD, BASE, is_base=True)
    store.remove()
    assert not store.path.exists()
    assert store.open() is None
    store.write(HEAD, CHANGED, is_base=True)
    assert list(store.records()) == [CHANGED[0][0]]


def test_a_failed_store_says_so(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("raftmeta.storage.checkpoint.sync_directory", broken)
    with pytest.raises(CheckpointFailed, match="Input/output error"):
        store.write(HEAD, CHANGED, is_base=True)
    monkeypatch.undo()
    with pytest.raises(CheckpointFailed, match="before"):
        store.write(HEAD, CHANGED, is_base=True)
