"""A table of rows in order of their keys, on disk, by which a migration sorts more than memory holds.

Neither a ZooKeeper snapshot nor an etcd database has its keys in order, and replaying a transaction log looks up a tree
at random. An SQLite file without a name does both. Its cache is bounded, and nothing of it is left when the process
ends, in whatever way. Each migration makes it anew from the source, and does not touch the source.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from raftmeta.migrate.closing import Closing

__all__ = ["Scratch"]

CACHE_KIB = 64 * 1024
PAGE_BYTES = 32 * 1024
TUNE_ROWS_PER_INSERT = 100  # in one statement: half the time of as many statements
TUNE_PENDING_ROWS = 20_000  # set one by one and not yet in the file
TUNE_PENDING_BYTES = 32 << 20
TUNE_LIST_ROWS = 1024
TUNE_LIST_BYTES = 2 << 20  # of rows given out at once: their readers hold copies of them
_INSERT = "insert or replace into rows values (?, ?)"
_INSERT_MANY = _INSERT + ", (?, ?)" * (TUNE_ROWS_PER_INSERT - 1)


class Scratch(Closing):
    """Rows (key, row), and pairs (group, key) for those that belong together. As a context it is closed.

    folder: the place of the file, which takes about the size of the data; None: the system's temporary folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        place = Path(tempfile.mkdtemp(prefix="raftmeta-migrate-", dir=folder))
        self._database = sqlite3.connect(place / "rows", isolation_level=None, check_same_thread=False)
        for setting in (
            f"page_size={PAGE_BYTES}",
            "journal_mode=off",
            "synchronous=off",
            f"cache_size=-{CACHE_KIB}",
            "locking_mode=exclusive",
        ):
            self._database.execute(f"pragma {setting}")
        self._database.execute("create table rows (key blob primary key, row blob not null) without rowid")
        self._database.execute("create table members (owner integer, key blob, primary key (owner, key)) without rowid")
        shutil.rmtree(place)  # the open file goes on without a name, so that a process that is killed leaves nothing
        self._database.execute("begin")  # never committed: nothing here is to be durable
        self._get = self._database.cursor()
        self._pending: dict[bytes, bytes | None] = {}  # None: deleted
        self._pending_bytes = 0

    # --- rows ---------------------------------------------------------------------------------------------------------

    def put_many(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Set rows; of several rows with one key the last counts."""
        self._flush()
        self._insert([field for row in rows for field in row])

    def put(self, key: bytes, row: bytes) -> None:
        """Set a row. Each child sets its parent again, so rows wait in memory, and many become one."""
        self._set(key, row)

    def delete(self, key: bytes) -> None:
        self._set(key, None)

    def _set(self, key: bytes, row: bytes | None) -> None:
        self._pending[key] = row
        self._pending_bytes += len(key) + len(row or b"")
        if len(self._pending) > TUNE_PENDING_ROWS or self._pending_bytes > TUNE_PENDING_BYTES:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending, self._pending_bytes = sorted(self._pending.items()), {}, 0
        self._insert([field for pair in pending if pair[1] is not None for field in pair])
        self._database.executemany("delete from rows where key = ?", [(key,) for key, row in pending if row is None])

    def _insert(self, fields: list[bytes | None]) -> None:
        """fields: keys and rows by turns."""
        step = 2 * TUNE_ROWS_PER_INSERT
        whole = len(fields) - len(fields) % step
        self._database.executemany(_INSERT_MANY, [fields[at : at + step] for at in range(0, whole, step)])
        self._database.executemany(_INSERT, [fields[at : at + 2] for at in range(whole, len(fields), 2)])

    def get(self, key: bytes) -> bytes | None:
        if key in self._pending:
            return self._pending[key]
        found = self._get.execute("select row from rows where key = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def rows(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """All rows, in order of their keys (as bytes), in lists; the table must not change meanwhile."""
        self._flush()
        found: list[tuple[bytes, bytes]] = []
        size = 0
        for row in self._database.cursor().execute("select key, row from rows order by key"):
            found.append(row)
            size += len(row[1])
            if len(found) == TUNE_LIST_ROWS or size >= TUNE_LIST_BYTES:
                yield found
                found, size = [], 0
        if found:
            yield found

    # --- who belongs together -----------------------------------------------------------------------------------------

    def join_many(self, pairs: Iterable[tuple[int, bytes]]) -> None:
        """Note that keys belong to an owner, a signed 64-bit number."""
        self._database.executemany("insert or ignore into members values (?, ?)", pairs)

    def leave(self, owner: int, key: bytes) -> None:
        self._get.execute("delete from members where owner = ? and key = ?", (owner, key))

    def members(self, owner: int) -> list[bytes]:
        found = self._get.execute("select key from members where owner = ? order by key", (owner,)).fetchall()
        return [key for (key,) in found]

    def owners(self) -> list[tuple[int, int]]:
        """(owner, how many keys) of all."""
        return self._get.execute("select owner, count(*) from members group by owner order by owner").fetchall()

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._database.close()
