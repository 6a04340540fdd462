"""Is the stream of changes exactly once? A driver and its JVM are killed again and again while others write.

    python -m benchmarks.stream_kills --kills 20
    python -m benchmarks.stream_kills --kills 5 --rivals 2

One node and a writer live in this process. A driver with Spark streams the changes into Parquet, and all its processes
get SIGKILL: when a batch was begun, or somewhat after one was committed. The next one goes on from the checkpoint. At
the end every change must be there once: rows = distinct (revision, place) = what was written, and the last revision is
the tip. It never passes because nothing happened: each driver must have begun a batch before it is killed.

With rivals several drivers are started on the one checkpoint. All but one may end with an error of Spark's, which says
that another one was first; what they have written meanwhile must not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from raftmeta import Config, Node
from raftmeta.operations import Put
from raftmeta.spark import spark_session

KEYS_MAX = 3  # of a transaction
POLL_S = 0.02
# What Spark says to a driver when another one was first: at the offsets or commits, in the sink, at the beginning.
RIVALRY = ("CONCURRENT_STREAM_LOG_UPDATE", "Race while writing batch", "Multiple streaming queries are concurrently")
STALLED_S = 600.0  # a driver that begins no batch for so long is stuck
NODE = {"reserve_bytes": 0, "local_clients": True, "history_bytes_max": 1 << 30}


# --- the driver, in a process of its own ------------------------------------------------------------------------------
def drive(url: str, folder: Path, *, revisions_per_batch: int, is_last: bool) -> None:
    """Stream until killed; the last one up to what there is, and tells what was written."""
    with spark_session("local[2]", settings={"spark.sql.shuffle.partitions": "2"}) as spark:
        options = {"table": "changes", "url": url, "revisions_per_batch": str(revisions_per_batch)}
        stream = spark.readStream.format("raftmeta").options(**options).load().select("revision", "sub")
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "check"))
        if is_last:
            writer = writer.trigger(availableNow=True)
        writer.start(str(folder / "out")).awaitTermination()
        rows = spark.read.parquet(str(folder / "out"))
        told = {
            "rows": rows.count(),
            "distinct": rows.distinct().count(),
            "revisions": rows.select("revision").distinct().count(),
            "last": rows.agg({"revision": "max"}).first()[0],
        }
        print(json.dumps(told))


def processes_of(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found


class Driver:
    """One life of the driver."""

    def __init__(
        self, url: str, folder: Path, revisions_per_batch: int, *, number: int = 0, is_last: bool = False
    ) -> None:
        command = [sys.executable, "-m", "benchmarks.stream_kills", "--drive", url, "--folder", str(folder)]
        command += ["--revisions-per-batch", str(revisions_per_batch), *(["--last"] if is_last else [])]
        self.log = folder / f"driver-{number}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and the workers; all are gone on return. One that ended has ended its own."""
        for pid in processes_of(self.process.pid) if self.process.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def lost(self) -> bool:
        """Ended by itself, because another driver was first. Raises RuntimeError when it ended otherwise."""
        if self.process.poll() is None:
            return False
        if not any(sign in self.log.read_text() for sign in RIVALRY):
            raise RuntimeError(f"a driver ended: {self.log.read_text()[-2000:]}")
        return True

    def finish(self) -> dict[str, int]:
        """What the last driver tells. Raises RuntimeError when it fails."""
        out, _ = self.process.communicate(timeout=2 * STALLED_S)
        if self.process.returncode != 0:
            raise RuntimeError(f"the last driver failed: {self.log.read_text()[-2000:]}")
        told: dict[str, int] = json.loads(out.splitlines()[-1])
        return told


def wait_for(drivers: list[Driver], condition: Callable[[], bool], what: str) -> None:
    """Raises RuntimeError when all of them end or do nothing instead."""
    deadline = time.monotonic() + STALLED_S
    while not condition():
        lost = [driver.lost() for driver in drivers]
        if all(lost) or time.monotonic() > deadline:
            raise RuntimeError(f"the drivers ended or hang before {what}: {drivers[0].log.read_text()[-2000:]}")
        time.sleep(POLL_S)


# --- what it must go on with ------------------------------------------------------------------------------------------
def batches(folder: Path, what: str) -> int:
    """How many batches the checkpoint knows as begun (offsets) or ended (commits)."""
    names = [int(entry.name) for entry in (folder / "check" / what).glob("[0-9]*") if entry.name.isdecimal()]
    return max(names, default=-1) + 1


class Writer:
    """Writes transactions of one to three keys, as long as the stream is not too far behind."""

    def __init__(self, node: Node, folder: Path, revisions_per_batch: int) -> None:
        self._node, self._folder, self._each = node, folder, revisions_per_batch
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.changes = self.revision = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(POLL_S):
            while self.revision < (batches(self._folder, "commits") + 3) * self._each and not self._is_over.is_set():
                keys = self.revision % KEYS_MAX + 1
                puts = [Put(f"key-{self.revision % 1000}-{key}", str(self.revision)) for key in range(keys)]
                self.revision = int(self._node.txn([], puts, timeout_s=60.0).revision)
                self.changes += keys

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()


def kill_and_count(
    folder: Path, *, kills: int, revisions_per_batch: int, rivals: int = 1, seed: int = 1
) -> dict[str, Any]:
    """What the files hold after so many kills, beside what was written. Raises RuntimeError, AssertionError."""
    rng = random.Random(seed)
    (folder / "node").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        peers = {"a": f"127.0.0.1:{probe.getsockname()[1]}"}
    with Node("a", peers=peers, data_dir=folder / "node" / "a", config=Config(**NODE)) as node:  # type: ignore[arg-type]
        node.ready(60.0)
        url = f"raft+unix://{folder / 'node' / 'a'}"
        writer = Writer(node, folder, revisions_per_batch)
        moments = []
        lost = 0
        try:
            for number in range(kills):
                kind = ("offsets", "commits")[number % 2]
                before = batches(folder, kind)
                wanted = before + 1 + rng.randrange(3)
                drivers = [Driver(url, folder, revisions_per_batch, number=rival) for rival in range(rivals)]
                try:
                    wait_for(drivers, lambda: batches(folder, kind) >= wanted, f"{kind} {wanted}")  # noqa: B023
                    time.sleep(rng.random() * 0.3)
                    lost += sum(driver.lost() for driver in drivers)
                finally:
                    for driver in drivers:
                        driver.kill()
                moments.append(f"{kind} {batches(folder, kind)}")
        finally:
            writer.end()
        told = Driver(url, folder, revisions_per_batch, is_last=True).finish()
    found = {**told, "written": writer.changes, "tip": writer.revision, "kills": kills, "moments": moments}
    found |= {"rivals": rivals, "lost_to_rivals": lost}
    assert told["rows"] == told["distinct"] == writer.changes, found
    assert told["revisions"] == told["last"] == writer.revision, found
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rivals", type=int, default=1, help="drivers at a time on the one checkpoint")
    parser.add_argument("--revisions-per-batch", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of the checkpoint; by default a temporary one")
    parser.add_argument("--drive", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(given.drive, given.folder, revisions_per_batch=given.revisions_per_batch, is_last=given.last)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = kill_and_count(
            Path(folder),
            kills=given.kills,
            revisions_per_batch=given.revisions_per_batch,
            rivals=given.rivals,
            seed=given.seed,
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
