"""The files of ZooKeeper 3.9, read as they were written: snapshots (ZKSN) and transaction logs (ZKLG).

It decides what is sound: it verifies every checksum, checks every length before it uses it, and allows nothing behind
the end. It never decides what a transaction does: raftmeta/migrate/zookeeper_tree.py replays them.

A snapshot, big-endian throughout, gzip or snappy around all of it or neither:

    "ZKSN", version, database id
    sessions          count, then (id, time-out in ms)
    lists of rights   count, then (number, entries: permissions, scheme, id)
    nodes             path, data (length -1: none), number of the list of rights, 60 bytes of stat; behind them path "/"
    seal              Adler32 of all before it, "/"
    digest, seal      since 3.6: (zxid, version, digest) of the tree, where that was on
    zxid, seal        since 3.9: of the last transaction in it

A transaction log is "ZKLG", version, database id, then (Adler32, length, transaction, "B") and zeros up to the size
that was allocated in advance. Its last record may be torn: the server died while it wrote. Everything else is damage.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from raftmeta.migrate.problems import SourceDamaged
from raftmeta.migrate.snappy_stream import SnappyFile
from raftmeta.migrate.zookeeper_handle import whole_nodes

__all__ = ["Acl", "LogRecord", "SnapshotFile", "read_acl", "read_log"]

FORMAT_SNAPSHOT = b"ZKSN"
FORMAT_LOG = b"ZKLG"
FORMAT_VERSION = 2
STAT_BYTES = 60
NODE_BYTES = 4 + 8 + STAT_BYTES  # of a record beside the data itself: its length, the number of its rights, its stat
LENGTH_MAX = 64 << 20  # of a string or of data; jute.maxbuffer is 1 MiB unless somebody raised it, and never so far
WINDOW_BYTES = 1 << 20
BATCH_NODES = 4096

_HEADER = struct.Struct(">4siq")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SESSION = struct.Struct(">qi")
_DIGEST = struct.Struct(">qiq")
_LOG_RECORD = struct.Struct(">qi")

Acl = tuple[tuple[int, str, str], ...]  # permissions, scheme, id


class LogRecord(NamedTuple):
    """One transaction as bytes. offset: of its record in the file path."""

    path: Path
    offset: int
    body: bytes


class _Window:
    """A stream read in large pieces, with the position and the Adler32 of the consumed bytes."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self.buffer = b""
        self.position = 0
        self.checksum = 1
        self._stream = stream
        self._before = 0  # bytes of the stream before the buffer

    @property
    def offset(self) -> int:
        return self._before + self.position

    def damaged(self, what: str) -> SourceDamaged:
        return SourceDamaged(self.path, self.offset, what, "use another copy, or an older snapshot with its logs")

    def has(self, length: int) -> bool:
        """Have so many bytes behind the position in the buffer; False: the stream ends before."""
        while len(self.buffer) - self.position < length:
            self._count_consumed()
            try:
                piece = self._stream.read(max(WINDOW_BYTES, length))
            except (OSError, EOFError, zlib.error, ValueError) as error:
                raise self.damaged(f"cannot be unpacked ({error})") from error
            if not piece:
                return False
            self.buffer += piece
        return True

    def need(self, length: int, what: str) -> None:
        if not 0 <= length <= LENGTH_MAX:
            raise self.damaged(f"{what} of {length} bytes")
        if not self.has(length):
            raise self.damaged(f"the file ends within {what}")

    def take(self, length: int, what: str) -> bytes:
        self.need(length, what)
        piece = self.buffer[self.position : self.position + length]
        self.position += length
        return piece

    def unpack(self, layout: struct.Struct, what: str) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size, what))

    def string(self, what: str) -> bytes:
        (length,) = self.unpack(_INT, what)
        return b"" if length == -1 else self.take(length, what)

    def text(self, what: str) -> str:
        try:
            return self.string(what).decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{what} that is not UTF-8") from error

    def count(self, what: str) -> int:
        """A count of elements of at least a byte each; a count above the longest string is no count."""
        count: int
        (count,) = self.unpack(_INT, what)
        if not -1 <= count <= LENGTH_MAX:
            raise self.damaged(f"{what}: a count of {count}")
        return max(count, 0)

    def checksum_here(self) -> int:
        self._count_consumed()
        return self.checksum

    def _count_consumed(self) -> None:
        """Extend the checksum to the position, and let go of the bytes before it."""
        self.checksum = zlib.adler32(memoryview(self.buffer)[: self.position], self.checksum)
        self._before += self.position
        self.buffer = self.buffer[self.position :]
        self.position = 0


class SnapshotFile:
    """One snapshot. Iterating nodes() to its end verifies it; the fields below it are set by then.

    sessions: id to time-out in ms. acls: number to list of rights. digest: (zxid, version, value) of the tree or None.
    last_zxid: as the file says, or None in those of before 3.9.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sessions: dict[int, int] = {}
        self.acls: dict[int, Acl] = {}
        self.digest: tuple[int, int, int] | None = None
        self.last_zxid: int | None = None

    def nodes(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Batches of (path, record): data with its length, number of the list of rights, stat.

        The root has the empty path. Raises SourceDamaged, at the latest after the last batch; then throw away the
        earlier batches.
        """
        with _unpacked(self.path) as stream:
            window = _Window(self.path, stream)
            self._read_front(window)
            yield from _read_nodes(window)
            _check_seal(window)
            self._read_back(window)

    def _read_front(self, window: _Window) -> None:
        magic, version, _ = window.unpack(_HEADER, "the header")
        if magic != FORMAT_SNAPSHOT or version != FORMAT_VERSION:
            window.position = 0
            raise window.damaged(f"no ZooKeeper snapshot of format {FORMAT_VERSION}")
        for _ in range(window.count("the sessions")):
            session, timeout_ms = window.unpack(_SESSION, "a session")
            self.sessions[session] = timeout_ms
        for _ in range(window.count("the lists of rights")):
            (number,) = window.unpack(_LONG, "a list of rights")
            entries = range(window.count("a list of rights"))
            self.acls[number] = tuple((*window.unpack(_INT, "a right"), *_identity(window)) for _ in entries)

    def _read_back(self, window: _Window) -> None:
        """Read the parts that newer servers write behind the first seal; each part has a seal of its own."""
        if window.has(1):
            zxid, version, value = window.unpack(_DIGEST, "the digest")
            _check_seal(window)
            self.digest = (zxid, version, value) if zxid > 0 else None
        if window.has(1):
            (self.last_zxid,) = window.unpack(_LONG, "the last zxid")
            _check_seal(window)
        if window.has(1):
            raise window.damaged("there is more behind the end of the snapshot")


def _unpacked(path: Path) -> BinaryIO:
    if path.name.endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]  # a GzipFile reads like a file
    if path.name.endswith(".snappy"):
        return SnappyFile(path)  # type: ignore[return-value]  # so does this
    return path.open("rb")


def _identity(window: _Window) -> tuple[str, str]:
    return window.text("the scheme of a right"), window.text("the id of a right")


def _read_nodes(window: _Window) -> Iterator[list[tuple[bytes, bytes]]]:
    """All nodes, as many at a time as stand whole in the window; _has_node judges a record that is no node."""
    is_first = True
    while _has_node(window):
        batch, window.position = whole_nodes(window.buffer, window.position, BATCH_NODES)
        if is_first and batch[0][0]:
            raise window.damaged("the first node is not the root")
        is_first = False
        yield batch
    if is_first:
        raise window.damaged("a snapshot without a root")


def _has_node(window: _Window) -> bool:
    """Have the next node whole in the window; False: the end of the nodes was there, and is consumed."""
    window.need(4, "a node")
    (path_length,) = _INT.unpack_from(window.buffer, window.position)
    if path_length < 0:
        raise window.damaged(f"a path of {path_length} bytes")
    window.need(4 + path_length, "a path")
    if window.buffer[window.position + 4 : window.position + 4 + path_length] == b"/":
        window.position += 5
        return False
    window.need(4 + path_length + 4, "a node")
    (data_length,) = _INT.unpack_from(window.buffer, window.position + 4 + path_length)
    if not -1 <= data_length <= LENGTH_MAX:
        raise window.damaged(f"a node with data of {data_length} bytes")
    window.need(4 + path_length + NODE_BYTES + max(data_length, 0), "a node")
    return True


def _check_seal(window: _Window) -> None:
    expected = window.checksum_here()
    start = window.offset
    (found,) = window.unpack(_LONG, "a checksum")
    if found != expected:
        raise SourceDamaged(
            window.path, start, f"the checksum of all before is {expected:#x} and not {found:#x}", "use another copy"
        )
    if window.string("a seal") != b"/":
        raise window.damaged("a broken seal")


# --- transaction logs -------------------------------------------------------------------------------------------------


def read_log(path: Path, *, is_last: bool) -> Iterator[LogRecord]:
    """The transactions of one log, each with its checksum verified.

    is_last: there is no later log, so that its last record may be torn. A file of no bytes has no transactions: the
    server died just after it made the file. Raises SourceDamaged.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if not head and is_last:
            return
        if len(head) < _HEADER.size:
            if is_last and FORMAT_LOG.startswith(head[:4]):
                return
            raise SourceDamaged(path, 0, "no ZooKeeper transaction log")
        magic, version, _ = _HEADER.unpack(head)
        if magic != FORMAT_LOG or version != FORMAT_VERSION:
            raise SourceDamaged(path, 0, f"no ZooKeeper transaction log of format {FORMAT_VERSION}")
        offset = _HEADER.size
        while True:
            head = file.read(_LOG_RECORD.size)
            if not head.strip(b"\0"):
                _check_end(path, file, offset)
                return
            body = _record_body(path, file, offset, head, is_last)
            if body is None:
                return
            yield LogRecord(path, offset, body)
            offset += _LOG_RECORD.size + len(body) + 1


def _record_body(path: Path, file: BinaryIO, offset: int, head: bytes, is_last: bool) -> bytes | None:
    """The transaction behind a record's head, or None if the record is torn."""
    if len(head) < _LOG_RECORD.size:
        if is_last:
            return None
        raise SourceDamaged(path, offset, "the log ends within a record, and there are later logs")
    checksum, length = _LOG_RECORD.unpack(head)
    if not 0 < length <= LENGTH_MAX or not 0 <= checksum <= 0xFFFFFFFF:
        raise SourceDamaged(path, offset, f"a transaction of {length} bytes with checksum {checksum:#x}")
    body = file.read(length + 1)
    if len(body) <= length:
        if not is_last or _holds_whole_record(body, checksum):
            raise SourceDamaged(path, offset, f"a transaction of {length} bytes, of which there are {len(body)}")
        return None
    is_sound = zlib.adler32(memoryview(body)[:length]) == checksum
    if is_sound and body[length:] == b"B":
        return body[:length]
    is_torn = is_last and body[length:] == b"\0" and not _has_more(file)
    if is_torn and not _holds_whole_record(body.rstrip(b"\0"), checksum):
        return None  # the space was allocated before, and the end of the record did not reach it
    if is_sound:
        raise SourceDamaged(path, offset + _LOG_RECORD.size + length, "a transaction without its end mark")
    raise SourceDamaged(path, offset, "the checksum of a transaction is wrong", "use the logs of another server")


def _check_end(path: Path, file: BinaryIO, offset: int) -> None:
    """Only zeros may follow the last record; else a record lost its length, and with it all records behind it."""
    if _has_more(file):
        raise SourceDamaged(path, offset, "a hole: there are more transactions behind it")


def _has_more(file: BinaryIO) -> bool:
    """Anything but zeros from here on."""
    while piece := file.read(WINDOW_BYTES):
        if piece.strip(b"\0"):
            return True
    return False


def _holds_whole_record(rest: bytes, checksum: int) -> bool:
    """Does a record that seems to go on behind the written bytes fit its checksum if it is shorter?"""
    found = 1
    for position in range(len(rest)):
        if found == checksum and rest[position : position + 1] == b"B":
            return True
        found = zlib.adler32(rest[position : position + 1], found)
    return False


def read_acl(body: bytes, position: int) -> tuple[Acl, int]:
    """A list of rights in a transaction, and where it ends. Raises struct.error, IndexError, ValueError: it is none."""
    (count,) = _INT.unpack_from(body, position)
    position += 4
    if count > len(body):
        raise ValueError(f"{count} rights")
    acl = []
    for _ in range(max(count, 0)):
        (permissions,) = _INT.unpack_from(body, position)
        scheme, position = read_string(body, position + 4)
        identity, position = read_string(body, position)
        acl.append((permissions, scheme.decode(), identity.decode()))
    return tuple(acl), position


def read_string(body: bytes, position: int) -> tuple[bytes, int]:
    """A string or data in a transaction, and where it ends; length -1 makes it empty."""
    (length,) = _INT.unpack_from(body, position)
    position += 4
    if length < -1 or position + length > len(body):
        raise ValueError(f"{length} bytes")
    end = position + max(length, 0)
    return body[position:end], end
