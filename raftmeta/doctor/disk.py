"""The folder of a node: who may write it, what it stands on, how much room it has, and how long a sync takes."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raftmeta.config import Config
from raftmeta.doctor.findings import Finding, Level
from raftmeta.errors import ConfigError
from raftmeta.storage.privacy import check_unshared

__all__ = ["Mount", "check_file_system", "check_folder", "check_space", "check_syncs", "mounts", "sync_finding"]

MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY = {"tmpfs", "ramfs"}
OF_CONTAINER = {"overlay", "aufs"}
OVER_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p"}

SYNCED_BYTES = 4096
FILE_BYTES = 1 << 20
SYNCS_MAX = 2000
# etcd's guide to hardware asks for a 99th percentile below 10 ms of the log's syncs.
SLOW_S = 0.010
STALLED_S = 1.0
# A write, a sync and two system calls: a disk with a protected cache needs more.
TOO_FAST_S = 0.000_015


def _standing(folder: Path) -> Path:
    """The folder, or the nearest one above that is there."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


# --- rights -----------------------------------------------------------------------------------------------------------


def check_folder(folder: Path) -> Iterator[Finding]:
    """Whether this user may make and write the folder, and nobody else may."""
    place = _standing(folder)
    if not place.is_dir():
        yield Finding("folder", "failure", f"{place} is no folder", "name a folder that is there, or can be made")
        return
    try:
        check_unshared(folder)
    except ConfigError as error:
        yield Finding("folder", "failure", str(error).removeprefix("data_dir: "), "as the sentence says")
        return
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            "folder",
            "failure",
            f"the user {os.geteuid()} may not write {place}",
            "run the node as the user whom the folder belongs to, or give the folder to this user (chown)",
        )
        return
    yield Finding("folder", "ok", f"{folder} is there" if place == folder.absolute() else f"{folder} can be made")


# --- the file system --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo (proc(5))."""

    place: Path
    kind: str
    is_read_only: bool


def mounts(text: str) -> list[Mount]:
    """All mounts, in the order of the file: a later one hides an earlier one at the same place."""
    found = []
    for line in text.splitlines():
        words = line.split(" ")
        kind = words[words.index("-") + 1]
        place = words[4].encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
        found.append(Mount(Path(place), kind, "ro" in words[5].split(",")))
    return found


def _mount_of(folder: Path) -> Mount | None:
    place = _standing(folder).resolve()
    try:
        known = mounts(MOUNTS.read_text())
    except OSError:
        return None
    above = [mount for mount in known if place.is_relative_to(mount.place)]
    longest = max((len(mount.place.parts) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.place.parts) == longest), None)


def check_file_system(folder: Path) -> Iterator[Finding]:
    mount = _mount_of(folder)
    if mount is None:
        yield Finding("file system", "unknown", f"{MOUNTS} does not tell what {folder} stands on")
        return
    where = f"{folder} stands on {mount.kind}, mounted at {mount.place}"
    if mount.is_read_only:
        yield Finding("file system", "failure", f"{where}, which is read-only", "mount it for writing")
    elif mount.kind in IN_MEMORY:
        yield Finding(
            "file system",
            "failure",
            f"{where}: it is memory, and everything in it is gone when the machine stops",
            "put the folder on a disk",
        )
    elif mount.kind in OF_CONTAINER:
        yield Finding(
            "file system",
            "warning",
            f"{where}: it ends with its container",
            "put the folder on a volume that outlives the container",
        )
    elif mount.kind in OVER_NETWORK or mount.kind.startswith("fuse"):
        yield Finding(
            "file system",
            "warning",
            f"{where}: each sync waits for another machine, which may keep it in its memory",
            "put the folder on a disk of this machine",
        )
    else:
        yield Finding("file system", "ok", where)


def check_space(folder: Path, config: Config) -> Finding:
    """Room for the log as large as it may become; checkpoints need room for the state beside it."""
    try:
        free = shutil.disk_usage(_standing(folder)).free
    except OSError as error:
        return Finding("space", "unknown", f"the free room of {folder} is not known: {error.strerror}")
    told = f"{free >> 20:,} MiB are free"
    least = 2 * config.segment_bytes + config.reserve_bytes
    if free < least:
        return Finding("space", "failure", f"{told}; a log begins with {least >> 20:,} MiB", "free room on the disk")
    if free < config.wal_bytes_max:
        return Finding(
            "space",
            "warning",
            f"{told}; the log may take {config.wal_bytes_max >> 20:,} MiB (wal_bytes_max), a checkpoint more",
            "free room on the disk, or set wal_bytes_max to less",
        )
    return Finding("space", "ok", f"{told}; the log takes at most {config.wal_bytes_max >> 20:,} MiB")


# --- syncs ------------------------------------------------------------------------------------------------------------


def check_syncs(folder: Path, duration_s: float) -> Finding:
    """Write 4 KiB and sync, over and over, as the log does; in a file that has its room already."""
    try:
        times_s = _sync_times(_standing(folder), duration_s)
    except OSError as error:
        return Finding("sync", "unknown", f"no file could be written for {folder}: {error.strerror}")
    mount = _mount_of(folder)
    return sync_finding(times_s, is_memory=mount is not None and mount.kind in IN_MEMORY)


def _sync_times(place: Path, duration_s: float) -> list[float]:
    block = os.urandom(SYNCED_BYTES)
    times_s: list[float] = []
    with tempfile.TemporaryFile(prefix=".raftmeta-doctor-", dir=place) as file:
        os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
        os.fsync(file.fileno())
        ends = time.monotonic() + duration_s
        while not times_s or (time.monotonic() < ends and len(times_s) < SYNCS_MAX):
            began = time.monotonic()
            os.pwrite(file.fileno(), block, len(times_s) * SYNCED_BYTES % FILE_BYTES)
            os.fdatasync(file.fileno())
            times_s.append(time.monotonic() - began)
    return times_s


def sync_finding(times_s: list[float], *, is_memory: bool) -> Finding:
    """The verdict on the times of syncs, in seconds; at least one."""
    ordered = sorted(times_s)
    median_s, high_s, longest_s = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1]
    told = (
        f"{len(ordered)} syncs of 4 KiB: median {median_s * 1000:.2f} ms, 99 of 100 within {high_s * 1000:.2f} ms, "
        f"longest {longest_s * 1000:.1f} ms"
    )
    level: Level = "ok"
    advice = ""
    if longest_s >= STALLED_S:
        level = "failure"
        advice = "no write is answered during such a sync: find out what else loads the disk, or take another one"
    elif high_s >= SLOW_S:
        level = "warning"
        advice = f"every write waits for a sync; a disk for logs keeps 99 of 100 below {SLOW_S * 1000:.0f} ms"
    elif median_s < TOO_FAST_S and not is_memory:
        level = "warning"
        advice = "no disk is so fast: a cache answers for it. Make sure that the cache survives a power cut"
    return Finding("sync", level, told, advice)
