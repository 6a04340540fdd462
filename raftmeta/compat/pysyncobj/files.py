"""A `SyncObj` on the disk of this host: its dump, the entries applied since, and the engine's folder.

    fullDumpFile      the last dump of the object; written from the first start on
    journalFile       the entries that were applied since that dump
    FILE.raftmeta/    beside the journal, or else beside the dump: the engine's folder, and whichever of both
                      files the program did not name
    FOLDER/ADDRESS/   all of it, when the program was started with --folder and names no file

Without a file and a folder everything lies in a temporary folder, in memory where the system has /dev/shm. It goes with
the object.

The engine's folder is what survives a power cut. Dump and journal are a copy of applied entries: an object has
its state before there is a leader, and keeps it when the addresses of its cluster change. A program that removes all
files that it named begins anew: the folder is then removed, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgpack

from raftmeta.compat.pysyncobj.config import SyncObjConf
from raftmeta.compat.pysyncobj.journal import Entry, Journal

__all__ = ["Batch", "LocalFiles", "Position", "set_folder"]

FIRST_INDEX = 1  # of an object without a command, as in PySyncObj
SUFFIX = ".raftmeta"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
SHARED_BYTES_MIN = 2 << 30
TEMPORARY = "raftmeta-pysyncobj-"

_folder: list[Path] = []  # of --folder


def set_folder(folder: str) -> None:
    """Keep the state of every `SyncObj` of this process below a folder if it names no file."""
    _folder[:] = [Path(folder)]


class Position(NamedTuple):
    """How far a state is. lineage: of the cluster's state, drawn by its founding. revision: of the last batch in it."""

    lineage: str
    index: int  # type: ignore[assignment]  # tuple has a method of this name
    revision: int


NOWHERE = Position("", FIRST_INDEX, 0)


class Batch(NamedTuple):
    """Commands that one node put into the log together. number: counts the batches of that owner."""

    owner: str
    number: int
    commands: list[bytes]

    def pack(self) -> bytes:
        packed: bytes = msgpack.packb(list(self))
        return packed

    @classmethod
    def unpack(cls, data: bytes) -> Batch:
        return cls(*msgpack.unpackb(data))


class LocalFiles:
    """position: of the state that was found. dump: its bytes, None: none. batches: (revision, batch) applied since.

    members: of the cluster as of the dump, [] when it does not say.
    """

    def __init__(self, conf: SyncObjConf, name: str | None) -> None:
        named = [path for path in (conf.journalFile, conf.fullDumpFile) if path is not None]
        self.position = NOWHERE
        self.dump: bytes | None = None
        self.batches: list[tuple[int, Batch]] = []
        self.members: list[str] = []
        self.is_temporary = not (name and (named or _folder))
        if self.is_temporary:
            self.folder = _temporary_folder()
        elif named:
            self.folder = Path(named[0] + SUFFIX)
            if not any(os.path.exists(path) for path in named):
                shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.folder = _folder[0] / str(name).replace("/", "_")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.engine_folder = self.folder / "node"
        self._dump_path = Path(conf.fullDumpFile) if conf.fullDumpFile is not None else self.folder / "dump"
        self._keeps_dump = conf.fullDumpFile is not None or not self.is_temporary
        self.journal = Journal(None if self.is_temporary else conf.journalFile or str(self.folder / "journal"))
        self._read()

    def _read(self) -> None:
        has_dump = False
        with contextlib.suppress(OSError, ValueError, TypeError, msgpack.UnpackException):
            lineage, index, revision, members, dump = msgpack.unpackb(self._dump_path.read_bytes())
            self.position, self.members, self.dump = Position(lineage, index, revision), members, dump
            has_dump = True
        label = self.journal.label.decode()
        if not has_dump:
            self.position = self.position._replace(lineage=label)
        is_whole = label == self.position.lineage and all(map(self._take, self.journal[:]))
        if not is_whole and not has_dump:
            self.position, self.batches = NOWHERE, []  # there was a dump, and it is gone
        if not has_dump and self._keeps_dump:
            self._write_dump(Position(self.position.lineage, FIRST_INDEX, 0), None, [])

    def _take(self, entry: Entry) -> bool:
        """Whether the entry fits behind those before it."""
        command, index, revision = entry
        if index <= self.position.index:
            return True  # it is in the dump: the process ended between the two files
        if index != self.position.index + 1:
            return False
        batch = Batch.unpack(command)
        self.batches.append((revision, batch))
        self.position = self.position._replace(index=index + len(batch.commands) - 1, revision=revision)
        return True

    def applied(self, batch: Batch, first: int, revision: int) -> None:
        """A batch was applied; first: the index of its first command."""
        if not self.is_temporary:
            self.journal.add(batch.pack(), first, revision)

    def dumped(self, position: Position, dump: bytes | None, members: list[str]) -> None:
        """The state as of this position; what the journal has is in it."""
        if self._keeps_dump:
            self._write_dump(position, dump, members)
        self.journal.clear(position.lineage.encode())

    def _write_dump(self, position: Position, dump: bytes | None, members: list[str]) -> None:
        beside = self._dump_path.with_name(self._dump_path.name + ".new")
        beside.write_bytes(msgpack.packb([*position, members, dump]))
        os.replace(beside, self._dump_path)

    def set_engine_aside(self) -> None:
        """The engine's folder belongs to another address: keep it, as the only one of its kind, and begin a new one."""
        aside = self.folder / "node.before"
        shutil.rmtree(aside, ignore_errors=True)
        self.engine_folder.rename(aside)

    def close(self) -> None:
        self.journal._destroy()
        if self.is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _temporary_folder() -> Path:
    """A folder of this process, in memory if there is room. Folders of processes that were killed are removed."""
    below = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        if shutil.disk_usage(SHARED_MEMORY).free > SHARED_BYTES_MIN and os.access(SHARED_MEMORY, os.W_OK):
            below = SHARED_MEMORY
    for left in below.glob(f"{TEMPORARY}*-*"):
        pid = left.name.removeprefix(TEMPORARY).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{os.getpid()}-", dir=below))
