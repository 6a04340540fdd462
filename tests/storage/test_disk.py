"""DiskPort, the real and the simulated one: the same calls do the same; and what only the real one has."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from raftmeta.storage.storage_handle import DiskError
from tests.faces.disk import SimulatedDisk
from tests.faces.storage import FolderDisk, WalHandle, make_record
from tests.storage.driver import LogModel
from tests.storage.names import Status, WalState

Disk = FolderDisk | SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return FolderDisk(tmp_path / "node") if request.param == "real" else SimulatedDisk()


def status_of(call: Callable[[], object]) -> int:
    with pytest.raises(DiskError) as caught:
        call()
    return caught.value.status


# --- both -------------------------------------------------------------------------------------------------------------
def test_what_is_written_in_parts_is_read_as_one(disk: Disk) -> None:
    file = disk.open("a", create=True)
    disk.write(file, 0, b"one", b"", b"two", b"three")
    disk.write(file, 3, b"TWO")
    disk.sync(file)
    assert disk.read(file, 0, 100) == b"oneTWOthree"
    assert disk.read(file, 11, 5) == b""
    assert disk.size(file) == 11
    disk.close_file(file)


def test_a_write_beyond_the_end_leaves_zeros_between(disk: Disk) -> None:
    file = disk.open("a", create=True)
    disk.write(file, 5000, b"x")
    assert disk.read(file, 0, 6000) == bytes(5000) + b"x"
    disk.truncate(file, 10)
    assert disk.size(file) == 10
    disk.truncate(file, 20)
    assert disk.read(file, 0, 100) == bytes(20)


def test_many_parts_are_one_write(disk: Disk) -> None:
    """More parts than the kernel takes at once (IOV_MAX)."""
    parts = [bytes([number % 256]) * (number % 7) for number in range(3000)]
    file = disk.open("a", create=True)
    disk.write(file, 100, *parts)
    assert disk.read(file, 100, 100_000) == b"".join(parts)


def test_whole_blocks_and_odd_bytes_of_one_file_go_together(disk: Disk) -> None:
    """The real disk writes whole blocks past the page cache, and more of them at once than its buffer holds."""
    parts = [bytes([number % 251 + 1]) * (4096 + 512 * (number % 9 - 4)) for number in range(9 * 32)]
    blocks = b"".join(parts)
    assert len(blocks) % 4096 == 0 and len(blocks) > 2 * 512 * 1024
    file = disk.open("a", create=True)
    disk.write(file, 4096, *parts)
    assert disk.read(file, 0, 2**21) == bytes(4096) + blocks
    disk.write(file, 5000, b"odd")
    disk.write(file, 8192, bytes(4096))
    disk.sync(file)
    expected = bytearray(bytes(4096) + blocks)
    expected[5000:5003] = b"odd"
    expected[8192:12288] = bytes(4096)
    assert disk.read(file, 0, 2**21) == expected
    assert disk.read(disk.open("a"), 0, 2**21) == expected


def test_names_are_created_renamed_listed_and_removed(disk: Disk) -> None:
    assert status_of(lambda: disk.open("a")) == Status.NOT_FOUND
    for name in ("a", "b"):
        file = disk.open(name, create=True)
        disk.write(file, 0, name.encode())
        disk.close_file(file)
    disk.rename("a", "b")
    disk.sync_directory()
    assert disk.list_names() == ["b"]
    assert disk.list_names() == ["b"]
    assert disk.read(disk.open("b"), 0, 10) == b"a"
    disk.remove("b")
    assert disk.list_names() == []
    assert status_of(lambda: disk.remove("b")) == Status.NOT_FOUND
    assert status_of(lambda: disk.rename("b", "c")) == Status.NOT_FOUND


def test_room_is_told_in_bytes(disk: Disk) -> None:
    assert disk.free_bytes() > 1 << 20


# --- the simulated one ------------------------------------------------------------------------------------------------
def test_a_synced_file_survives_and_an_unsynced_one_may_not() -> None:
    """decisions/log.md D1: three fates of a sector, all of them seen."""
    fates = set()
    for seed in range(60):
        disk = SimulatedDisk(seed=seed)
        file = disk.open("a", create=True)
        disk.write(file, 0, b"s" * 512)
        disk.sync(file)
        disk.sync_directory()
        disk.write(file, 0, b"u" * 512)
        disk.crash()
        found = disk.read(disk.open("a"), 0, 512)
        fates.add("kept" if found == b"u" * 512 else "lost" if found == b"s" * 512 else "torn")
    assert fates == {"kept", "lost", "torn"}


def test_a_name_is_durable_only_after_sync_directory() -> None:
    """decisions/log.md D10: the directory is an object of its own; changes are lost from some moment on, in order."""
    seen = set()
    for seed in range(40):
        disk = SimulatedDisk(seed=seed)
        for name in ("a", "b"):
            file = disk.open(name, create=True)
            disk.write(file, 0, b"x")
            disk.sync(file)
        assert disk.durable("a") is None
        disk.rename("a", "c")
        disk.crash()
        seen.add(tuple(disk.list_names()))
    assert seen == {(), ("a",), ("a", "b"), ("b", "c")}


def test_a_failed_sync_leaves_a_cache_that_lies_until_the_file_is_opened_anew() -> None:
    """decisions/log.md D5: the error is told once, the pages count as clean, the disk has the old bytes."""
    disk = SimulatedDisk()
    file = disk.open("a", create=True)
    disk.write(file, 0, b"old")
    disk.sync(file)
    disk.write(file, 0, b"new")
    disk.plan(fail_at_sync=1)
    assert status_of(lambda: disk.sync(file)) == Status.DISK_FAILED
    disk.sync(file)
    assert disk.read(file, 0, 3) == b"new"
    assert disk.durable("a") is None
    disk.reopen()
    assert disk.read(disk.open("a"), 0, 3) == b"old"


def test_after_the_power_cut_every_call_says_so() -> None:
    disk = SimulatedDisk()
    file = disk.open("a", create=True)
    disk.plan(cut_at_write=1)
    assert status_of(lambda: disk.write(file, 0, b"x")) == Status.POWER_CUT
    for call in (
        lambda: disk.write(file, 0, b"x"),
        lambda: disk.read(file, 0, 1),
        lambda: disk.sync(file),
        lambda: disk.size(file),
        lambda: disk.truncate(file, 0),
        lambda: disk.open("a"),
        lambda: disk.rename("a", "b"),
        lambda: disk.remove("a"),
        disk.list_names,
        disk.sync_directory,
        disk.free_bytes,
    ):
        assert status_of(call) == Status.POWER_CUT
    assert disk.is_cut
    disk.crash()
    assert not disk.is_cut
    assert status_of(lambda: disk.read(file, 0, 1)) == Status.DISK_FAILED


def test_the_same_seed_has_the_same_fate() -> None:
    """One seed, one run."""

    def life(seed: int) -> bytes:
        disk = SimulatedDisk(seed=seed)
        file = disk.open("a", create=True)
        disk.sync_directory()
        disk.write(file, 0, bytes(range(256)) * 64)
        disk.crash()
        return disk.durable("a") or b""

    assert life(7) == life(7)
    assert len({life(seed) for seed in range(10)}) == 10


def test_a_full_disk_refuses_to_grow_and_overwrites() -> None:
    disk = SimulatedDisk()
    file = disk.open("a", create=True)
    disk.plan(capacity_bytes=1000)
    disk.write(file, 0, bytes(900))
    assert disk.free_bytes() == 100
    assert status_of(lambda: disk.write(file, 900, bytes(101))) == Status.NO_SPACE
    disk.write(file, 0, b"x" * 900)
    disk.write(file, 900, bytes(100))


# --- the real one -----------------------------------------------------------------------------------------------------
def test_whole_blocks_do_not_pass_through_the_page_cache(tmp_path: Path) -> None:
    """Else every segment of the log takes fresh memory of the machine. Where there are no such writes, others do."""
    disk = FolderDisk(tmp_path / "node")
    file = disk.open("a", create=True)

    def is_direct() -> bool:
        return bool(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT)

    disk.write(file, 8192, bytes(4096), b"x" * 8192)
    if not is_direct():  # this file system refused
        assert not has_direct_writes(tmp_path)
    assert disk.read(file, 4096, 3 * 4096 + 8192) == bytes(2 * 4096) + b"x" * 8192
    for offset, length in ((8192, 100), (100, 4096), (0, 0)):
        disk.write(file, offset, bytes(length))
        assert not is_direct()


def has_direct_writes(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "probe", os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    return True


def test_a_folder_whose_parent_is_missing_is_not_found(tmp_path: Path) -> None:
    assert status_of(lambda: FolderDisk(tmp_path / "missing" / "node")) == Status.NOT_FOUND
    (tmp_path / "file").write_text("x")
    assert status_of(lambda: FolderDisk(tmp_path / "file")) == Status.DISK_FAILED


def test_files_are_private_and_never_inherited(tmp_path: Path) -> None:
    """Another user reads nothing; a program that the host starts gets no descriptor."""
    disk = FolderDisk(tmp_path / "node")
    file = disk.open("a", create=True)
    assert not os.get_inheritable(file)
    assert stat.S_IMODE((tmp_path / "node").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "node" / "a").stat().st_mode) == 0o600


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    disk = FolderDisk(tmp_path / "node")
    (tmp_path / "node" / "identity").symlink_to(outside)
    assert status_of(lambda: disk.open("identity", create=True)) == Status.DISK_FAILED
    assert outside.read_text() == "precious"


LIMITED = """
import resource, sys
from raftmeta.storage.storage_handle import DiskError
from tests.faces.storage import FolderDisk
disk = FolderDisk(sys.argv[1])
file = disk.open("a", create=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    disk.write(file, 0, b"x" * 6000, b"y" * 6000)
except DiskError as error:
    print(error.status, disk.size(file))
"""


def test_a_write_that_stops_short_is_no_space(tmp_path: Path) -> None:
    """decisions/log.md D6, D7: the kernel takes a part, then refuses the rest by a limit on the size."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "node")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(Status.NO_SPACE.value), "10000"]


def test_what_is_no_file_is_a_failed_disk(tmp_path: Path) -> None:
    (tmp_path / "node" / "a").mkdir(parents=True)
    assert status_of(lambda: FolderDisk(tmp_path / "node").open("a")) == Status.DISK_FAILED


def test_a_folder_is_locked_once_in_a_process_and_names_the_holder(tmp_path: Path) -> None:
    """A folder in use: refused at once, with the pid."""
    first, second = FolderDisk(tmp_path / "node"), FolderDisk(tmp_path / "node")
    assert first.lock() == (Status.OK, os.getpid())
    began = time.monotonic()
    assert second.lock() == (Status.IN_USE, os.getpid())
    assert time.monotonic() - began < 5
    first.close()
    assert second.lock() == (Status.OK, os.getpid())
    second.close()


HOLDER = """
import sys, raftmeta.storage.storage_handle as storage
disk = storage.FolderDisk(sys.argv[1])
print(disk.lock()[0], flush=True)
sys.stdin.read()
"""


def test_a_killed_holder_leaves_the_folder_free(tmp_path: Path) -> None:
    """The lock is the kernel's: no stale file keeps a restarted node out."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "node")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline().strip() == str(Status.OK.value)
        mine = FolderDisk(tmp_path / "node")
        assert mine.lock() == (Status.IN_USE, holder.pid)
        holder.send_signal(signal.SIGKILL)
    assert mine.lock() == (Status.OK, os.getpid())
    mine.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_child_neither_keeps_the_folder_locked_nor_frees_it(tmp_path: Path) -> None:
    """A child only closes; the lock ends with the parent's close, whoever else has a copy."""
    disk = FolderDisk(tmp_path / "node")
    assert disk.lock()[0] == Status.OK
    told, tell = os.pipe()
    done, finish = os.pipe()
    child = os.fork()
    if child == 0:
        disk.close_in_child()
        os.write(tell, b"closed")
        os.read(done, 1)
        os._exit(0)
    idle = os.fork()
    if idle == 0:  # has never heard of the folder and keeps its descriptors
        os.read(done, 1)
        os._exit(0)
    assert os.read(told, 6) == b"closed"
    other = FolderDisk(tmp_path / "node")
    assert other.lock()[0] == Status.IN_USE
    disk.close()
    assert other.lock()[0] == Status.OK
    other.close()
    os.write(finish, b"xx")
    for pid in (child, idle):
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for descriptor in (told, tell, done, finish):
        os.close(descriptor)


def test_a_log_on_a_real_disk_comes_back(tmp_path: Path) -> None:
    """The same code on the same port: rolls, a spare, compaction and a second life."""
    disk = FolderDisk(tmp_path / "node")
    wal = WalHandle(disk, segment_bytes=65536, reserve_bytes=16384, alignment_bytes=4096)
    assert wal.open().state == WalState.WAL_BLANK
    assert wal.begin(hard_state=(1, 0, 0), membership=b"members") == Status.OK
    model = LogModel(begun=True, hard_state=(1, 0, 0))
    while not wal.prepare(8192)[1]:
        pass
    for index in range(1, 60):
        record, _ = make_record(index, 1, bytes([index]) * 3000, previous_chain=model.chain_before(index))
        assert wal.append(index, [record]) == Status.OK
        model = model.written(index, [record])
    assert wal.append(60, [], hard_state=(2, 7, 3)) == Status.OK
    assert wal.compact(model.point(40)) == Status.OK
    assert wal.read(50)[1][0] == model.records[49]
    wal.close()
    opened = WalHandle(disk, segment_bytes=65536, alignment_bytes=4096).open()
    assert opened.status == Status.OK and opened.state == WalState.WAL_CLEAN
    assert (opened.last, opened.hard_state, opened.membership) == (59, (2, 7, 3), b"members")
    assert tuple(opened.records) == model.records[opened.start[0] :]
    assert 0 < opened.start[0] <= 40


KILLED = """
import sys
from tests.faces.storage import FolderDisk, WalHandle, make_record
wal = WalHandle(FolderDisk(sys.argv[1]), segment_bytes=32768, alignment_bytes=4096)
opened = wal.open()
chain = 0
index = 1
if opened.state == 5:
    wal.begin()
elif opened.records:
    from tests.faces.storage import record_fields
    index, _, chain, _ = record_fields(opened.records[-1])
    index += 1
while True:
    record, chain = make_record(index, 1, b"%d" % index * 50, previous_chain=chain)
    assert wal.append(index, [record]) == 0
    print(index, flush=True)
    index += 1
"""


def test_a_killed_writer_loses_nothing_that_it_said(tmp_path: Path) -> None:
    """kill -9 in the middle of appends, three times over one folder."""
    said = 0
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "node")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            goal = said + 60
            while said < goal:
                said = int(writer.stdout.readline())
            writer.kill()
            rest = writer.stdout.read().split("\n")[:-1]
        said = max([said, *map(int, rest)])
        opened = WalHandle(FolderDisk(tmp_path / "node"), segment_bytes=32768, alignment_bytes=4096).open()
        assert opened.status == Status.OK and opened.state in (WalState.WAL_CLEAN, WalState.WAL_TORN_TAIL)
        assert said <= opened.last <= said + 1
        said = opened.last


def read_bytes() -> int:
    """What this process has asked for by read calls so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def test_an_open_does_not_read_the_room_for_batches_to_come(tmp_path: Path) -> None:
    """decisions/log.md "What an open reads": the used part, and a sixteenth of a segment behind it."""
    size_bytes = 32 * 1024 * 1024
    disk = FolderDisk(tmp_path)
    wal = WalHandle(disk, segment_bytes=size_bytes, alignment_bytes=4096)
    assert wal.open().status == 0 and wal.begin() == 0
    while not wal.prepare(size_bytes)[1]:
        pass
    record = make_record(1, 1, b"x" * 100_000)[0]
    assert wal.append(1, [record]) == 0
    wal.close()
    disk.close()
    again = FolderDisk(tmp_path)
    before = read_bytes()
    opened = WalHandle(again, segment_bytes=size_bytes, alignment_bytes=4096).open()
    assert opened.records == [record]
    assert read_bytes() - before < size_bytes // 16 + 2 * 1024 * 1024
    again.close()
