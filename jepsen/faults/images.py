"""Disks that can lose their power: small ext4 images on loop devices, root only.

    with Images(folder) as images:
        disk = images.make("a")
        ... a node writes below disk.mount ...
        cut_power([disk]); node.kill(); disk.remount()

A cut takes away what was not synced, as on a machine whose plug is pulled: from then on every call on that disk fails
(EIO), and the journal is not written out. It touches nothing but its own images: they, their mounts and their loop
devices go when the context ends, and also when this process is killed (the keeper).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from jepsen.keeper import Keeper

MIB = 1024 * 1024
SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125  # EXT4_IOC_SHUTDOWN, linux fs/ext4/ext4.h
WITHOUT_FLUSH = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH
NEEDED_TOOLS = ("mkfs.ext4", "mount", "umount")
LEFT_BYTES_MIN = 64 * 1024
BALLAST = "ballast"
DETACH_S = 5.0  # for the kernel to let go of what killed processes had
DETACH_PAUSE_S = 0.02


class ImageError(Exception):
    """A disk cannot be made or mounted; the message says which tool or right is missing, or what it said."""


def missing() -> str | None:
    """What this machine lacks for Images, in words that say what to do; None: nothing."""
    if os.geteuid() != 0:
        return "mounting images needs root"
    lacking = [tool for tool in NEEDED_TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"no {', '.join(lacking)} on this machine: install e2fsprogs and mount"
    return None if Path("/dev/loop-control").exists() else "no loop devices on this machine: load the module loop"


def cut_power(disks: Iterable[Disk]) -> None:
    """The power of all these disks fails, one right after the other. Their nodes must be killed before a remount."""
    handles = [os.open(disk.mount, os.O_RDONLY | os.O_CLOEXEC) for disk in disks]
    try:
        for handle in handles:
            fcntl.ioctl(handle, SHUTDOWN, WITHOUT_FLUSH)
    finally:
        for handle in handles:
            os.close(handle)


class Disk:
    """One image and the folder where it is mounted."""

    def __init__(self, image: Path, mount: Path) -> None:
        self.image = image
        self.mount = mount

    def attach(self) -> None:
        """Mount it; ext4 recovers what its journal has."""
        _run("mount", "-o", "loop", str(self.image), str(self.mount))

    def detach(self) -> None:
        """Unmount it; on return the kernel has let go of the file system.

        Raises ImageError after DETACH_S: a process still has a file of it open, or a copy of the mount.
        """
        deadline_s = time.monotonic() + DETACH_S
        while True:
            try:
                _run("umount", str(self.mount))
                break
            except ImageError:
                if time.monotonic() > deadline_s:
                    raise
            pause()
        # Each `ip netns exec` copies all mounts, and a copy dies a moment later than its process. While one is there
        # the image is in use, and the next mount would be this same file system: after a power cut a dead one.
        while self.is_in_use:
            if time.monotonic() > deadline_s:
                raise ImageError(f"{self.image}: in use after its unmount; a copy is in another mount namespace (lsns)")
            pause()

    @property
    def is_in_use(self) -> bool:
        """Whether a loop device has the image: it does until the last mount of it is gone."""
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):  # gone meanwhile
                if backing.read_text().strip() == str(self.image):
                    return True
        return False

    def remount(self) -> None:
        """Off and on again, after a cut and the end of the processes that used it."""
        self.detach()
        self.attach()

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.mount)
        return found.f_bavail * found.f_frsize

    def fill(self, left_bytes: int) -> int:
        """Leave only about so many bytes free, by a file of ballast; return how many. May be called again."""
        self.drain()
        return self.fill_up(left_bytes)

    def fill_up(self, left_bytes: int) -> int:
        """The same, and without giving back what the ballast has: what others freed meanwhile is taken, too."""
        with (self.mount / BALLAST).open("ab") as ballast:
            length = self.free_bytes - left_bytes
            while length > LEFT_BYTES_MIN:
                try:
                    os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, length)
                    break
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    length -= LEFT_BYTES_MIN  # the ballast itself takes blocks of the file system's own
        return self.free_bytes

    def drain(self) -> None:
        """Remove the ballast, for good: no power cut behind it gives it back."""
        (self.mount / BALLAST).unlink(missing_ok=True)
        folder = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class Images:
    """The disks of one run, in a folder that must not exist and does not afterwards."""

    def __init__(self, folder: Path, *, size_bytes: int = 128 * MIB) -> None:
        """size_bytes: of each disk, 8 MiB or more; only what is written takes room on this machine."""
        self.folder = folder.absolute()
        self.size_bytes = size_bytes
        self.disks: dict[str, Disk] = {}
        self._keeper = Keeper()

    def __enter__(self) -> Self:
        if (lacking := missing()) is not None:
            raise ImageError(lacking)
        self.folder.mkdir(parents=True)
        self._keeper.__enter__()
        self._keeper.announce("disks", self.folder)
        # What is mounted below it comes and goes in the mount namespaces of others, too (each broker in a network
        # namespace has one): a copy that stayed there would keep a dead file system alive, and its image in use.
        _run("mount", "--bind", str(self.folder), str(self.folder))
        _run("mount", "--make-private", str(self.folder))
        _run("mount", "--make-shared", str(self.folder))
        return self

    def __exit__(self, *error: object) -> None:
        """Raises KeeperFailed: the images could not be taken away; see mount, losetup."""
        self._keeper.__exit__(*error)

    def make(self, name: str) -> Disk:
        """A blank disk, mounted. Raises ImageError."""
        disk = Disk(self.folder / f"{name}.image", self.folder / name)
        with disk.image.open("wb") as file:
            file.truncate(self.size_bytes)
        # No reserve for root (nodes run as root here); all tables at once, so that nothing writes in the background.
        options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, str(disk.image))
        disk.mount.mkdir()
        disk.attach()
        (disk.mount / "lost+found").rmdir()
        self.disks[name] = disk
        return disk


def pause() -> None:
    """Between two looks whether the kernel has let go."""
    time.sleep(DETACH_PAUSE_S)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise ImageError(f"{' '.join(command)}: {error.stderr.strip()}") from error
