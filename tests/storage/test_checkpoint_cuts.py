"""The real checkpoint, on LMDB, under a power cut between any two of its calls: every acknowledged checkpoint is there.

A process writes checkpoints under tests/storage/recorder.c, which notes each write with its bytes and each sync. From
those notes the test makes disks that a cut could leave: all that was synced, and nothing, everything, or any pages of
the rest. The store must find the checkpoint that was acknowledged last, or the one under way. Nothing is mounted.
"""

from __future__ import annotations

import os
import random
import shlex
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from raftmeta.storage.checkpoint import CheckpointError, CheckpointStore
from tests.lint.sources import ROOT

WRITE, DURABLE_WRITE, SYNC, TRUNCATE = 1, 2, 3, 4
HEAD = struct.Struct("<IIQQ")
PAGE = 4096
ACKNOWLEDGED = "acknowledged"  # a file beside the checkpoint: a write of a number says that it is written
DATA, FOLDER, PARENT = "checkpoint/data.mdb", "checkpoint", ""

# What the process does; `lie` stands where a planted mistake goes.
SCRIPT = """
import os, sys
from pathlib import Path
import raftmeta.storage.checkpoint as checkpoint
{lie}
from tests.storage.test_checkpoint_cuts import chunks_of, head_of, steps
folder = Path(sys.argv[1])
told = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT, 0o600)
store = checkpoint.CheckpointStore(folder / "checkpoint")
for number, is_base in steps():
    store.write(head_of(number), chunks_of(number), is_base=is_base)
    os.pwrite(told, b"%04d" % number, 0)
"""
SYNC_OFF = """
real_open = checkpoint.lmdb.open
checkpoint.lmdb.open = lambda *args, **options: real_open(*args, **options, {option}=False)
"""


def steps() -> list[tuple[int, bool]]:
    """(number of the checkpoint, is it a base): bases whose pages are used again, with differences between them."""
    return [(number, number % 4 == 0) for number in range(13)]


def head_of(number: int):  # type: ignore[no-untyped-def]  # imported by the process, too
    from raftmeta.storage.checkpoint import Manifest

    return Manifest(1, 2, 10 + number, 3, 4, 5, 6, b"membership", 1, 7, number)


def chunks_of(number: int) -> list[tuple[bytes, int]]:
    """Of a base more than one transaction has; each chunk is unlike all others."""
    drawn = random.Random(number)
    size = 200_000 if number % 4 == 0 else 6_000
    return [(drawn.randbytes(size), 1) for _ in range(4)]


def records_of(number: int) -> bytes:
    """All records of checkpoint `number`: its base, then the differences up to it."""
    base = number - number % 4
    return b"".join(chunk for one in range(base, number + 1) for chunk, _ in chunks_of(one))


# --- what was recorded ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Call:
    kind: int
    path: str
    offset: int
    data: bytes


def calls_in(record: bytes) -> Iterator[Call]:
    at = 0
    while at < len(record):
        kind, path_bytes, offset, length = HEAD.unpack_from(record, at)
        at += HEAD.size
        path = record[at : at + path_bytes].decode()
        at += path_bytes
        size = length if kind in (WRITE, DURABLE_WRITE) else 0
        yield Call(kind, path, offset if kind != TRUNCATE else length, record[at : at + size])
        at += size


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """recorder.c, compiled."""
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    command = [*shlex.split(os.environ.get("CC", "cc")), "-std=gnu11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra"]
    subprocess.run([*command, "-Werror", "-o", str(library), str(source), "-ldl"], check=True, timeout=60)
    return library


def recorded(recorder: Path, folder: Path, lie: str = "") -> list[Call]:
    node = folder / "node"
    node.mkdir(parents=True)
    node = node.resolve()
    record = folder / "record"
    environment = {"LD_PRELOAD": str(recorder), "RECORDER_FOLDER": str(node), "RECORDER_FILE": str(record)}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(lie=lie), str(node)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return list(calls_in(record.read_bytes()))


# --- the disk ---------------------------------------------------------------------------------------------------------
@dataclass
class Disk:
    """What one file is for certain, and the writes that a cut may still take."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Call] = field(default_factory=list)
    acknowledged: int = -1
    named: set[str] = field(default_factory=set)  # folders whose entries are durable

    def take(self, call: Call) -> None:
        if call.path == ACKNOWLEDGED:
            self.acknowledged = int(call.data)
        elif call.path == DATA and call.kind == SYNC:
            for one in self.pending:
                put(self.durable, one)
            self.pending.clear()
        elif call.path == DATA and call.kind == DURABLE_WRITE:
            put(self.durable, call)
        elif call.path == DATA:
            self.pending.append(call)
        elif call.kind == SYNC and call.path in (FOLDER, PARENT):
            self.named.add(call.path)

    def after_cut(self, drawn: random.Random, share: float) -> bytes:
        """share: of the pages that were not synced, so many reached the disk, in any order."""
        left = bytearray(self.durable)
        for call in self.pending:
            if call.kind == TRUNCATE:
                continue
            for begin in range(0, len(call.data), PAGE):
                if drawn.random() < share:
                    put(left, Call(WRITE, call.path, call.offset + begin, call.data[begin : begin + PAGE]))
        return bytes(left) if self.named == {FOLDER, PARENT} else b""


def put(content: bytearray, call: Call) -> None:
    if call.kind == TRUNCATE:
        content[call.offset :] = bytes(max(0, call.offset - len(content)))
        return
    if len(content) < call.offset:
        content += bytes(call.offset - len(content))
    content[call.offset : call.offset + len(call.data)] = call.data


def amiss(content: bytes, acknowledged: int, folder: Path) -> str:
    """What is wrong with the checkpoint on this disk; "": nothing."""
    path = folder / "checkpoint"
    path.mkdir(exist_ok=True)
    (path / "data.mdb").unlink(missing_ok=True)
    if content:
        (path / "data.mdb").write_bytes(content)
    store = CheckpointStore(path, is_read_only=True)
    try:
        manifest = store.open()
        found = -1 if manifest is None else manifest.index - 10
        records = b"" if manifest is None else b"".join(store.records())
    except CheckpointError as error:
        return "" if acknowledged < 0 else f"{acknowledged} was acknowledged: {error}"
    finally:
        store.close()
    if found not in (acknowledged, acknowledged + 1):
        return f"{acknowledged} was acknowledged, {found} is there"
    return "" if found < 0 or records == records_of(found) else f"the records of {found} are others"


def wrong_cuts(calls: list[Call], folder: Path) -> Iterator[str]:
    """A cut before each call and after the last, and for each several ways of what reached the disk."""
    drawn = random.Random(1)
    disk = Disk()
    for position in range(len(calls) + 1):
        for share in (0.0, 1.0, 0.5, 0.1, 0.9) if disk.pending else (0.0,):
            told = amiss(disk.after_cut(drawn, share), disk.acknowledged, folder)
            if told:
                yield f"cut before call {position} of {len(calls)}, {share} of the rest on the disk: {told}"
        if position < len(calls):
            disk.take(calls[position])


def test_no_cut_takes_an_acknowledged_checkpoint(recorder: Path, tmp_path: Path) -> None:
    calls = recorded(recorder, tmp_path / "recorded")
    assert sum(call.path == ACKNOWLEDGED for call in calls) == len(steps())
    # Each checkpoint syncs its pages and then writes the page that names them, durably.
    assert sum(call.path == DATA and call.kind == SYNC for call in calls) >= len(steps())
    assert sum(call.path == DATA and call.kind == DURABLE_WRITE for call in calls) >= len(steps())
    assert list(wrong_cuts(calls, tmp_path)) == []


@pytest.mark.parametrize(
    "lie",
    [
        SYNC_OFF.format(option="sync"),
        SYNC_OFF.format(option="metasync"),
        "checkpoint.sync_directory = lambda path: None",
    ],
    ids=["no_sync", "no_sync_of_the_root", "no_sync_of_the_names"],
)
def test_a_sync_that_is_left_out_is_found(recorder: Path, tmp_path: Path, lie: str) -> None:
    """So the test above can fail: with any one kind of sync missing there is a cut that takes a checkpoint."""
    calls = recorded(recorder, tmp_path / "recorded", lie)
    assert any("was acknowledged" in told for told in wrong_cuts(calls, tmp_path))
