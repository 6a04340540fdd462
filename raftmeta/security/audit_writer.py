"""The thread that writes an audit trail, and its files.

    AuditWriter.open    lock the folder, find the end of the trail, write the opening line and sync it
    _turn               lines of all records that wait -> the file; a new file when it is full; a sync once a second
    AuditWriter.end     everything that waits, the closing line, a sync

It decides when files begin, end and go. It never holds a request up: native threads push records into rings, and what
finds no room there is counted. A disk that is full is tried again until it has room; meanwhile the rings fill, records
are dropped, and the first line that is written again says how many.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from raftmeta.common import statuses
from raftmeta.common.apart import ApartThread
from raftmeta.common.flags import Flag
from raftmeta.errors import ConfigError, RaftmetaError, error_from_status
from raftmeta.security.audit import PURPOSE_CHAIN, PURPOSE_KEYS, Audit, derived, read_key
from raftmeta.security.audit_handle import CLASSES, AuditHandle, escaped
from raftmeta.security.audit_trail import FORMAT, LOCK, file_name, files_of, key_id, resume

__all__ = ["AuditWriter"]

FOLDER_MODE = 0o700
FILE_MODE = 0o600
WRITABLE_BY_OTHERS = 0o022
TUNE_BLOCK_BYTES = 256 * 1024  # of lines written at once
TUNE_PAUSE_S = 0.02  # records of so long are written together
TUNE_SYNC_S = 1.0
TUNE_RETRY_S = 0.25  # between two attempts to write to a full disk
IDLE_S = 60.0
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DROPPED_TOLD_S = 60.0  # so long dropped records are among the problems of a node
TOLD_MAX = 1024  # lines of this process that wait

_LOG = logging.getLogger("raftmeta")


class AuditWriter:
    """The trail of one run of a node. handle: for native threads. words: more verdicts, by status."""

    def __init__(self, audit: Audit, words: dict[int, str] | None = None) -> None:
        key = None if audit.key_file is None else read_key(audit.key_file)
        self._audit = audit
        self._chain_key = derived(key, PURPOSE_CHAIN)
        self.handle = AuditHandle(
            reads=audit.reads,
            writes=audit.writes,
            required=audit.required,
            chain_key=self._chain_key,
            keys_key=derived(key, PURPOSE_KEYS) if audit.keys == "hash" else None,
        )
        self._words = {**verdicts(), **(words or {})}
        self._told: deque[str] = deque()
        self._told_dropped = 0
        self._own_dropped = 0
        self._dropped = (0,) * len(CLASSES)
        self._suppressed = 0
        self._lock = -1
        self._file = -1
        self._number = 0  # of the file
        self._bytes = 0  # in it
        self._boot = 0
        self._left = b""  # of the lines that are being written
        self._behind: Callable[[], None] | None = None  # what follows when they are
        self._synced_s = time.monotonic()
        self._is_dirty = False
        self._has_more = False  # records wait that had no room in the block
        self._is_closing = False  # the closing line is the last one
        self._ended = Flag()
        self._thread: ApartThread | None = None
        self._dropped_s = 0.0  # when records were dropped last, on the monotonic clock
        self.failure = ""  # why the last write or sync failed; "": it did not

    # --- life -------------------------------------------------------------------------------------------------------

    def open(self, node: str, cluster: str, boot: int) -> None:
        """Go on with the trail in the folder, or begin one. Raises ConfigError, and nothing is open then."""
        folder = self._audit.path
        try:
            self._prepare(folder)
            found = resume(folder, self._chain_key)
            self.handle.begin(node, cluster, found.number, found.chain, self._words)
            self._boot = boot
            self._number = found.file
            self._open_file()
            self._left = (b"\n" if found.lacks_newline else b"") + self._opening(found.cause, found.torn)
            self._write_opening()
        except BaseException as error:
            self._close_files()
            if isinstance(error, OSError):
                raise ConfigError(f"audit.folder: {folder}: {error.strerror}", field="audit.folder") from None
            raise

    def start(self) -> None:
        self._thread = ApartThread(self._run, "raftmeta-audit")
        self._thread.start()

    def end(self, timeout_s: float) -> bool:
        """Write what waits and the closing line. False: the disk does not answer in time, and the thread stays."""
        self._ended.set()
        self.handle.wake()
        if self._thread is not None:
            return self._thread.wait(timeout_s)
        if self._file >= 0:
            self._run()
        return True

    def close_in_child(self) -> None:
        """In a fork child: only descriptors."""
        self._close_files()

    # --- what this process does itself ------------------------------------------------------------------------------

    def tell(self, operation: str, verdict: str, facts: dict[str, str]) -> None:
        """A line about the node's own process, from any thread."""
        if len(self._told) >= TOLD_MAX:
            self._own_dropped += 1
            return
        texts = {"principal": "process", "proof": "process", "peer": "", "operation": operation, **facts}
        fields = ",".join(f'"{name}":"{escaped(text.encode())}"' for name, text in texts.items())
        self._told.append(f'{fields},"verdict":"{verdict}"')
        self.handle.wake()

    @contextlib.contextmanager
    def telling(self, operation: str, **facts: str) -> Iterator[None]:
        """The block is the operation: its line says how it ended."""
        try:
            yield
        except RaftmetaError as error:
            self.tell(operation, type(error).__name__, facts)
            raise
        except BaseException:
            self.tell(operation, "OutcomeUnknown", facts)
            raise
        self.tell(operation, "ok", facts)

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        """Records without a line: the rings were full, because the disk was."""
        return sum(self.handle.dropped) + self._own_dropped

    @property
    def folder(self) -> Path:
        return self._audit.path

    @property
    def is_required(self) -> bool:
        return self._audit.required

    @property
    def has_dropped_lately(self) -> bool:
        return self.dropped > 0 and time.monotonic() - self._dropped_s < DROPPED_TOLD_S

    @property
    def metrics(self) -> dict[str, int]:
        return {
            "audit_lines": self.handle.number,
            "audit_records": self.handle.taken,
            "audit_dropped": self.dropped,
            "audit_suppressed": self.handle.suppressed,
            "audit_failing": int(bool(self.failure)),
        }

    # --- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._write_on()
        except Exception as error:  # no line may be lost in silence, whatever it was
            _LOG.exception("audit_stopped folder=%s", self._audit.path)
            self.failure = f"its thread ended: {error!r}"
            self.handle.is_failing = True
        finally:
            self._close_files()

    def _write_on(self) -> None:
        while not self._ended.is_set():
            was_busy = self._turn()
            if self.failure:
                self.handle.wait(TUNE_RETRY_S, True)
            elif not was_busy:
                self.handle.wait(max(0.0, self._until_sync_s()) if self._is_dirty else IDLE_S)
            elif not self._has_more:
                self.handle.wait(TUNE_PAUSE_S, True)
        while self._turn() and not self.failure:
            pass
        if not self.failure:
            self._left = self.handle.add('"audit":"end","cause":"close"', now_ms())
            self._is_closing = True
            self._write()
        if self._is_dirty and not self.failure:
            self._sync()

    def _turn(self) -> int:
        """Write once. The bytes that there were to write; 0: nothing happened."""
        if not self._left and self._behind is None:
            self._left = self._lines()
        count = len(self._left)
        if count or self._behind is not None:
            self._write()
        if not self.failure and self._is_dirty and self._until_sync_s() <= 0:
            self._sync()
        return count

    def _lines(self) -> bytes:
        parts = []
        dropped, suppressed = self.handle.dropped, self.handle.suppressed
        if dropped != self._dropped or self._own_dropped != self._told_dropped:
            counts = [now - before for now, before in zip(dropped, self._dropped, strict=True)]
            counts[-1] += self._own_dropped - self._told_dropped
            told = ",".join(f'"{name}":{count}' for name, count in zip(CLASSES, counts, strict=True) if count)
            parts.append(self.handle.add(f'"audit":"dropped","dropped":{sum(counts)},{told}', now_ms()))
            self._dropped, self._told_dropped = dropped, self._own_dropped
            self._dropped_s = time.monotonic()
            _LOG.warning("audit_dropped folder=%s records=%d", self._audit.path, sum(counts))
        if suppressed != self._suppressed:
            count = suppressed - self._suppressed
            parts.append(self.handle.add(f'"audit":"suppressed","refusals":{count}', now_ms()))
            self._suppressed = suppressed
        room = min(TUNE_BLOCK_BYTES, self._audit.file_bytes - self._bytes)
        while self._told and sum(map(len, parts)) < room:
            parts.append(self.handle.add(self._told.popleft(), now_ms()))
        parts.append(self.handle.take(max(1, room - sum(map(len, parts)))))
        lines = b"".join(parts)
        self._has_more = len(lines) >= room
        return lines

    def _until_sync_s(self) -> float:
        return self._synced_s + TUNE_SYNC_S - time.monotonic()

    # --- files ------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Go on with the lines at hand, and with what follows them. A full disk: the rest waits for the next time."""
        try:
            while self._left or self._behind is not None:
                if self._left:
                    count = os.write(self._file, self._left)
                    self._left = self._left[count:]
                    self._bytes += count
                    self._is_dirty = True
                elif self._behind is not None:
                    self._behind()
                if not self._left and self._behind is None and self._is_full():
                    self._rotate()
        except OSError as error:
            self._fails(error)
            return
        self._works()

    def _is_full(self) -> bool:
        return self._bytes >= self._audit.file_bytes and not self._is_closing

    def _write_opening(self) -> None:
        """A full disk keeps no node from starting, unless everything must be recorded: the rest follows later."""
        try:
            while self._left:
                count = os.write(self._file, self._left)
                self._left = self._left[count:]
                self._bytes += count
            self._sync()
        except OSError as error:
            if self._audit.required or error.errno not in FULL:
                raise
            self._fails(error)

    def _fails(self, error: OSError) -> None:
        if not self.failure:
            _LOG.warning("audit_unwritable folder=%s: %s", self._audit.path, error.strerror)
        self.failure = error.strerror or type(error).__name__
        self.handle.is_failing = True

    def _works(self) -> None:
        if self.failure:
            _LOG.warning("audit_writable folder=%s dropped=%d", self._audit.path, self.dropped)
            self.failure = ""
            self.handle.is_failing = False

    def _sync(self) -> None:
        """A file whose sync failed is not trusted any more: the trail goes on in another one."""
        self._synced_s = time.monotonic()
        try:
            os.fdatasync(self._file)
        except OSError as error:
            if self._thread is None:
                raise
            self._fails(error)
            self._is_dirty = False
            if not self._is_closing:
                self._rotate()
            return
        self._is_dirty = False

    def _rotate(self) -> None:
        """The closing line of this file; when that is written, another file."""
        self._left = self.handle.add(
            f'"audit":"end","cause":"rotation","next":"{file_name(self._number + 1)}"', now_ms()
        )
        self._behind = self._begin_next

    def _begin_next(self) -> None:
        with contextlib.suppress(OSError):  # one that failed before is told already
            os.fdatasync(self._file)
        before = self._file
        self._number += 1
        try:
            self._open_file()
        except OSError:
            self._number -= 1
            self._file = before
            raise
        os.close(before)
        self._behind = self._delete_oldest
        self._left = self._opening("rotation", b"")

    def _delete_oldest(self) -> None:
        """After the opening line, which says what is kept, is on the disk."""
        self._behind = None
        os.fdatasync(self._file)
        for number, path in files_of(self._audit.path):
            if number < self._oldest():
                path.unlink(missing_ok=True)
        _sync_folder(self._audit.path)

    def _oldest(self) -> int:
        return max(1, self._number - self._audit.files + 1)

    def _opening(self, cause: str, torn: bytes) -> bytes:
        facts = {
            "audit": "begin",
            "format": FORMAT,
            "file": self._number,
            "oldest": min([self._number, *(one for one, _ in files_of(self._audit.path) if one >= self._oldest())]),
            "boot": self._boot,
            "cause": cause,
            "keys": self._audit.keys,
            "secret": key_id(self._chain_key),
            "previous": self.handle.chain.hex(),
        }
        if torn:
            facts.update(torn=len(torn), torn_sha256=hashlib.sha256(torn).hexdigest())
        return self.handle.add(json.dumps(facts, separators=(",", ":"))[1:-1], now_ms())

    def _open_file(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._audit.path / file_name(self._number), flags, FILE_MODE)
        os.fchmod(self._file, FILE_MODE)
        self._bytes = os.fstat(self._file).st_size
        _sync_folder(self._audit.path)

    def _prepare(self, folder: Path) -> None:
        if not folder.exists():
            folder.mkdir(mode=FOLDER_MODE)
            _sync_folder(folder.parent)
        _check_unshared(folder)
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"audit.folder: another node writes into {folder}", field="audit.folder") from None

    def _close_files(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_unshared(folder: Path) -> None:
    """Who may write the folder may take lines out of it. Raises ConfigError."""
    for path in (folder, folder / LOCK, *(path for _, path in files_of(folder))):
        try:
            found = path.lstat() if path != folder else path.stat()
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            raise ConfigError(f"audit.folder: {path} is a symbolic link", field="audit.folder")
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & WRITABLE_BY_OTHERS:
            raise ConfigError(
                f"audit.folder: other users may write {path}: make sure that nobody has, then take the right away "
                "(chmod -R go-w)",
                field="audit.folder",
            )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def verdicts() -> dict[int, str]:
    """The word for each status that a request may end with: `ok`, `denied`, or the name of the error."""
    numbers = [number for name, number in vars(statuses).items() if name.isupper() and isinstance(number, int)]
    words = {number: type(error_from_status(number)).__name__ for number in numbers if number}
    return {**words, statuses.OK: "ok", statuses.PERMISSION_DENIED: "denied", statuses.ZNODE_REFUSED: "ZnodeRefused"}
