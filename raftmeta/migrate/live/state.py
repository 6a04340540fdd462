"""The memory of a move, in a folder: how far it is, and the rights that nodes had before they were locked.

One database of SQLite. Everything in it but the secret and the rights of locked nodes could be read from the two trees
again; a lost row costs time. Rights are on the disk before a lock is asked for (`settle`). One migrator at a time works
in a folder; others may read the status.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raftmeta import InvalidArgument, NotExecuted
from raftmeta.migrate.live.requests import Right
from raftmeta.migrate.live.rights import new_secret

__all__ = ["Row", "State"]

FILE, LOCK = "move.sqlite", "lock"
ROWS_AT_A_TIME = 500
_TABLES = """
create table if not exists meta (name text primary key, value text not null) without rowid;
create table if not exists nodes (
    path text primary key, czxid integer not null, aversion integer not null,
    acl text not null, locked integer, target_czxid integer, target_aversion integer,
    made text not null) without rowid;
create table if not exists ephemerals (path text primary key, owner integer not null) without rowid;
"""


class Row(NamedTuple):
    """A node of the source. acl: its rights while its aversion is aversion, unlocked.

    locked: the aversion that the lock left. target_czxid, target_aversion: of the target's node that has these rights.
    made: the kind as which the mirror made it there, in words; empty: it does not know.
    """

    path: str
    czxid: int
    aversion: int
    acl: tuple[Right, ...]
    locked: int | None = None
    target_czxid: int | None = None
    target_aversion: int | None = None
    made: str = ""


class State:
    """The state in folder, which is made if it is not there. is_reader: only look, beside a migrator that runs."""

    def __init__(self, folder: Path, *, is_reader: bool = False) -> None:
        if is_reader and not (folder / FILE).exists():
            raise InvalidArgument(f"state: {folder} has no move in it", field="state")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not is_reader:
                self._take(folder)
            os.close(os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600))  # no other user reads the secret
            self._base = sqlite3.connect(folder / FILE, timeout=30)
        except BaseException:
            os.close(self._lock)
            raise
        self._base.execute("pragma journal_mode=wal")
        self._base.execute("pragma synchronous=normal")
        self._base.executescript(_TABLES)  # a reader may come before the migrator has made them
        if not is_reader:
            self._base.execute("insert or ignore into meta values ('secret', ?)", [new_secret()])
            self._base.commit()

    def _take(self, folder: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise NotExecuted(f"state: another migrator works in {folder}: stop it first") from None

    def close(self) -> None:
        self._base.close()
        os.close(self._lock)

    # --- words ------------------------------------------------------------------------------------------------------

    def get(self, name: str, otherwise: str = "") -> str:
        found = self._base.execute("select value from meta where name = ?", [name]).fetchone()
        return str(found[0]) if found else otherwise

    def put(self, **values: str) -> None:
        """All of them or none."""
        with self._base:
            self._base.executemany("insert or replace into meta values (?, ?)", list(values.items()))

    def settle(self, **values: str) -> None:
        """Put the values; they and all that was kept before are on the disk on return."""
        self._base.execute("pragma synchronous=full")
        self.put(**values)

    def begin(self, **values: str) -> None:
        """Forget all nodes, and put the values, together."""
        with self._base:
            self._base.execute("delete from nodes")
            self._base.execute("delete from ephemerals")
            self._base.executemany("insert or replace into meta values (?, ?)", list(values.items()))

    def tell(self, status: dict[str, Any]) -> None:
        self.put(status=json.dumps(status))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("status", "{}"))
        return found

    # --- nodes ------------------------------------------------------------------------------------------------------

    def rows(self, paths: Sequence[str]) -> dict[str, Row]:
        wanted = json.dumps(paths)
        query = "select * from nodes where path in (select value from json_each(?))"
        return {values[0]: _row(values) for values in self._base.execute(query, [wanted])}

    def note_made(self, kinds: Iterable[tuple[str, str]]) -> None:
        """Keep the kinds of nodes that the mirror made: (kind, path)."""
        values = list(kinds)
        if values:
            with self._base:
                self._base.executemany("update nodes set made = ? where path = ?", values)

    def all_rows(self) -> Iterator[list[Row]]:
        """All nodes, some at a time; rows may be kept and forgotten meanwhile."""
        last = ""
        while found := self._base.execute(
            "select * from nodes where path > ? order by path limit ?", [last, ROWS_AT_A_TIME]
        ).fetchall():
            yield [_row(values) for values in found]
            last = found[-1][0]

    def save(self, rows: Iterable[Row], *, gone: Iterable[str] = ()) -> None:
        """Keep these rows, and forget those that are gone; durable on return."""
        values = [(*row[:3], json.dumps(row.acl), *row[4:]) for row in rows]
        dropped = [(path,) for path in gone]
        if values or dropped:
            with self._base:
                self._base.executemany("insert or replace into nodes values (?, ?, ?, ?, ?, ?, ?, ?)", values)
                self._base.executemany("delete from nodes where path = ?", dropped)

    def forget_target(self) -> None:
        """The rights of the target's nodes are to be read again."""
        with self._base:
            self._base.execute("update nodes set target_czxid = null, target_aversion = null")

    def count(self) -> int:
        return int(self._base.execute("select count(*) from nodes").fetchone()[0])

    # --- ephemerals -------------------------------------------------------------------------------------------------

    def see_ephemerals(self, present: Sequence[tuple[str, int]], absent: Sequence[str]) -> None:
        if present or absent:
            with self._base:
                self._base.executemany("delete from ephemerals where path = ?", [(path,) for path in absent])
                self._base.executemany("insert or replace into ephemerals values (?, ?)", present)

    def forget_ephemerals(self) -> None:
        with self._base:
            self._base.execute("delete from ephemerals")

    def ephemerals(self) -> list[tuple[str, int]]:
        """(path, session) of the source's ephemeral nodes, which no move takes along."""
        return list(self._base.execute("select path, owner from ephemerals order by path"))


def _row(values: Sequence[Any]) -> Row:
    acl = tuple(Right(*right) for right in json.loads(values[3]))
    return Row(values[0], values[1], values[2], acl, *values[4:])
