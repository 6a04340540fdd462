"""Does a store into a mapped file wait for the disk? (docs/decisions/recorder.md)

    python -m benchmarks.mapped_ring --seconds 30 --folder DIR

One process stores records of 64 bytes, up to a thousand a second, by turns into a mapped file and into its own memory.
A process beside it appends to another file of the same file system and syncs it, again and again. A third one syncs
the mapped file every second, as a recorder must that survives a power cut. Both kinds of stores meet the same
scheduler, so their difference is that of the mapping.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.results import machine

RECORD = bytes(range(64))
RING_BYTES = 1024 * 1024
PAUSE_S = 0.001
BLOCK = b"x" * 64 * 1024


def append_and_sync(path: str) -> None:
    """Until the process is ended."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    at = 0
    while True:
        os.pwrite(file, BLOCK, at)
        os.fdatasync(file)
        at = (at + len(BLOCK)) % (256 * 1024 * 1024)


def sync_every_second(path: str) -> None:
    """Until the process is ended."""
    file = os.open(path, os.O_RDWR)
    while True:
        time.sleep(1.0)
        os.fdatasync(file)


def stores(ring: mmap.mmap, memory: bytearray, seconds: float) -> tuple[list[int], list[int]]:
    """How long each took, in ns: into the mapping, into memory."""
    mapped_ns, memory_ns = [], []
    end_s = time.monotonic() + seconds
    at = 0
    gc.disable()
    while time.monotonic() < end_s:
        begun_ns = time.perf_counter_ns()
        ring[at : at + 64] = RECORD
        middle_ns = time.perf_counter_ns()
        memory[at : at + 64] = RECORD
        memory_ns.append(time.perf_counter_ns() - middle_ns)
        mapped_ns.append(middle_ns - begun_ns)
        at = (at + 64) % RING_BYTES
        time.sleep(PAUSE_S)
    return mapped_ns, memory_ns


def shape(times_ns: list[int]) -> dict[str, float]:
    """In µs, and how many stores took a millisecond."""
    ordered = sorted(times_ns)
    return {
        "count": len(ordered),
        "median_us": statistics.median(ordered) / 1e3,
        "p99_us": ordered[len(ordered) * 99 // 100] / 1e3,
        "p999_us": ordered[len(ordered) * 999 // 1000] / 1e3,
        "max_us": ordered[-1] / 1e3,
        "over_1_ms": sum(one > 1_000_000 for one in ordered),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="Stores into a mapped file beside a disk that syncs.")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument(
        "--folder", default=None, help="On the disk to measure; default: the folder for temporary files."
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        path = os.path.join(scratch, "ring")
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(file, 0, RING_BYTES)
        ring = mmap.mmap(file, RING_BYTES)
        others = [
            multiprocessing.Process(target=append_and_sync, args=(os.path.join(scratch, "log"),), daemon=True),
            multiprocessing.Process(target=sync_every_second, args=(path,), daemon=True),
        ]
        for other in others:
            other.start()
        mapped_ns, memory_ns = stores(ring, bytearray(RING_BYTES), asked.seconds)
        for other in others:
            other.kill()
            other.join()
        told = {
            "mapped": shape(mapped_ns),
            "memory": shape(memory_ns),
            "load": os.getloadavg()[0],
            "machine": machine(Path(scratch)),
        }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
