"""A power cut takes what was not synced and nothing else; images never outlive the process that made them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.faults import images
from jepsen.faults.images import Disk, ImageError, Images, cut_power
from jepsen.faults.shim import Action, Calls, Page
from tests.jepsen.test_faults_shim import make_nothing, write_and_sync
from tests.processes.remote import ROOT, ProcessGone, RemoteProcess
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.mounts

BYTES = 10_000


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Images]:
    with Images(tmp_path / "disks", size_bytes=16 * images.MIB) as made:
        yield made


def mounts_below(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {folder}" in line]


def write_synced_then_not(disk: Disk) -> None:
    """A file whose first content is synced and whose second is not; another one that is not at all."""
    descriptor = os.open(disk.mount / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, b"a" * BYTES, 0)
    os.fsync(descriptor)
    os.pwrite(descriptor, b"b" * BYTES, 0)
    os.close(descriptor)
    (disk.mount / "unsynced").write_bytes(b"c")


def test_a_power_cut_takes_what_was_not_synced(disks: Images) -> None:
    """Of two disks at once; meanwhile every write and sync fails."""
    pair = [disks.make("a"), disks.make("b")]
    for disk in pair:
        write_synced_then_not(disk)
    cut_power(pair)
    for disk in pair:
        with pytest.raises(OSError) as caught:
            (disk.mount / "more").write_bytes(b"d")
        assert caught.value.errno in (errno.EIO, errno.EROFS)
        disk.remount()
        assert sorted(os.listdir(disk.mount)) == ["file"]
        assert (disk.mount / "file").read_bytes() == b"a" * BYTES
        (disk.mount / "more").write_bytes(b"d")  # works again


def test_an_unmount_without_a_cut_takes_nothing(disks: Images) -> None:
    """What was written and not synced is there: so it was the cut that took it."""
    disk = disks.make("a")
    write_synced_then_not(disk)
    disk.remount()
    assert sorted(os.listdir(disk.mount)) == ["file", "unsynced"]
    assert (disk.mount / "file").read_bytes() == b"b" * BYTES


@pytest.mark.parametrize(("action", "kept"), [(Action.CUT_BEFORE, 2), (Action.CUT_AFTER, 3)])
def test_the_shim_cuts_the_power_at_a_sync(disks: Images, tmp_path: Path, action: Action, kept: int) -> None:
    """The third sync of a process that writes and syncs in turn: before it, or after it was done."""
    disk = disks.make("a")
    page = Page.make(tmp_path / "page")
    page.cut_with([disk.mount])
    page.strike(Calls.SYNC, action, path=str(disk.mount), skip=2)
    process = RemoteProcess(make_nothing, log=tmp_path / "log", environment=page.environment())
    process.start()
    with pytest.raises(ProcessGone):
        process.call(write_and_sync, str(disk.mount / "file"), "x" * BYTES, 10)
    process.kill()
    disk.remount()
    assert (disk.mount / "file").stat().st_size == kept * BYTES


def test_a_disk_is_filled_and_drained(disks: Images) -> None:
    """As full as asked, then ENOSPC for what needs more, then as before."""
    disk = disks.make("a")
    before = disk.free_bytes
    for left_bytes in (1_000_000, 100_000):
        assert disk.fill(left_bytes) == pytest.approx(left_bytes, abs=images.LEFT_BYTES_MIN)
    with pytest.raises(OSError, match="No space left"):
        (disk.mount / "file").write_bytes(bytes(images.MIB))
    (disk.mount / "file").unlink()
    disk.drain()
    assert disk.free_bytes == pytest.approx(before, abs=images.LEFT_BYTES_MIN)


def test_a_disk_that_was_drained_stays_so_over_a_power_cut(disks: Images) -> None:
    """A cut right behind it gave the ballast back, and the disk stayed full to the end of the run."""
    disk = disks.make("a")
    before = disk.free_bytes
    disk.fill(100_000)
    write_synced_then_not(disk)
    disk.drain()
    cut_power([disk])
    disk.remount()
    assert disk.free_bytes == pytest.approx(before, abs=images.LEFT_BYTES_MIN)


def test_no_copy_of_a_mount_keeps_a_dead_disk(disks: Images) -> None:
    """A process in a mount namespace of its own, as in a network namespace, does not hold on to what it never used."""
    disk = disks.make("a")
    bystander = subprocess.Popen(["unshare", "--mount", "--propagation", "slave", "sleep", "60"])
    wait_until(
        lambda: os.readlink(f"/proc/{bystander.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"),
        timeout_s=30,
        what="its namespace",
    )
    cut_power([disk])
    disk.remount()
    backing = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert backing.count(str(disk.image)) == 1
    bystander.kill()
    bystander.wait()


@pytest.fixture
def holder(disks: Images) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a copy of all mounts that no unmount reaches, as one whose namespace is being removed."""
    disks.make("a")
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", "600"]) as process:
        wait_until(
            lambda: Path(f"/proc/{process.pid}/comm").read_text().strip() == "sleep", timeout_s=30, what="its namespace"
        )
        yield process
        process.kill()


def test_a_disk_comes_back_when_the_last_copy_of_its_mount_is_gone(
    disks: Images, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same image mounted again before that would be the file system that has lost its power: every call fails."""
    monkeypatch.setattr(images, "pause", holder.kill)
    disk = disks.disks["a"]
    write_synced_then_not(disk)
    cut_power([disk])
    disk.remount()
    assert os.listdir(disk.mount) == ["file"]
    (disk.mount / "more").write_bytes(b"d")


def test_a_disk_that_somebody_keeps_is_not_mounted_again(
    disks: Images, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the image and says who may hold it."""
    monkeypatch.setattr(images, "DETACH_S", 0.2)
    disk = disks.disks["a"]
    cut_power([disk])
    with pytest.raises(ImageError, match=r"a\.image: .* mount namespace"):
        disk.remount()
    assert not os.path.ismount(disk.mount)
    assert holder.poll() is None


def test_nothing_is_left_at_the_end(tmp_path: Path) -> None:
    """Neither mounts nor images, though a process still stands in one of the disks."""
    with Images(tmp_path / "disks", size_bytes=16 * images.MIB) as made:
        disk = made.make("a")
        process = subprocess.Popen(["sleep", "60"], cwd=disk.mount)
        assert len(mounts_below(made.folder)) == 2
    assert (mounts_below(made.folder), made.folder.exists()) == ([], False)
    process.kill()
    process.wait()


def test_images_die_with_the_process_that_made_them(tmp_path: Path) -> None:
    """It is killed and has no chance to clean up: the keeper does."""
    program = f"""
import sys, time
from pathlib import Path
from jepsen.faults.images import Images
with Images(Path({str(tmp_path / "disks")!r}), size_bytes={16 * images.MIB}) as made:
    made.make("a")
    print("made", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"made\n"
        assert len(mounts_below(tmp_path / "disks")) == 2
        process.kill()
    wait_until(lambda: not (tmp_path / "disks").exists(), timeout_s=20, what="the keeper to take the images away")
    assert mounts_below(tmp_path / "disks") == []


def test_a_tool_that_fails_is_quoted(disks: Images) -> None:
    """What mount said, and on what."""
    disk = Disk(disks.folder / "none.image", disks.folder)
    with pytest.raises(ImageError, match=r"mount -o loop .*none.image"):
        disk.attach()
