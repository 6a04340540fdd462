"""Exports of the tables that Kafka's plug-in for Cassandra keeps, as a source: kv.csv, leader_election.csv and so on.

    cqlsh -e "COPY keyspace.kv TO 'kv.csv' WITH HEADER = TRUE"

Fields are quoted or not, and a backslash escapes. Inside a field cqlsh writes a control character, and a backslash, as
Python does: \\n, \\x07, \\\\. It shows null as an empty field. The rows of leaders and members last two seconds: their
processes make them anew, so that they are counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from raftmeta.migrate.items import Item
from raftmeta.migrate.listed import Listed
from raftmeta.migrate.problems import SourceDamaged, wrong_source

__all__ = ["CassandraSource"]

DATA = "kv.csv"
LEFT_OUT = {"leader_election.csv": "leaders", "group_membership.csv": "members"}
EXPORT_AGAIN = "export again: COPY keyspace.kv TO 'kv.csv' WITH HEADER = TRUE"
_FIELD = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|((?:[^",\\\r\n]|\\.)*))(,|\r?\n)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SHOWN = re.compile(r"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


class CassandraSource(Listed):
    """The keys of the plug-in's table kv; a context, like the other sources.

    path: a folder with the exports, or kv.csv alone. on_progress: called with the keys read so far, and their number.
    Raises InvalidArgument: there is no such file. Raises SourceDamaged: it is no export, or has ended too early.
    """

    kind = "cassandra"

    def __init__(
        self, path: str | Path, *, on_progress: Callable[[int, int], object] = lambda done, size: None
    ) -> None:
        super().__init__()
        folder = Path(path)
        self.path = folder / DATA if folder.is_dir() else folder
        if not self.path.is_file():
            raise wrong_source(f"there is no file {self.path}")
        self._keep(self._items_of(_rows(self.path, ("key", "value"))))
        for name, what in LEFT_OUT.items():
            if (self.path.parent / name).is_file():
                self.dropped[what] = sum(1 for _ in _rows(self.path.parent / name, ()))
        self.position = f"{len(self._items)} keys"
        on_progress(len(self._items), len(self._items))

    def _items_of(self, rows: Iterator[dict[str, str]]) -> Iterator[Item]:
        for row in rows:
            if not row["key"]:
                raise SourceDamaged(self.path, 0, "a row has no key", EXPORT_AGAIN)
            yield Item(row["key"].encode(), row["value"].encode(), "{}")

    def facts(self) -> Mapping[str, int | str]:
        return {"export": str(self.path)}


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The rows by the names of the first line, which must have these columns. Raises SourceDamaged."""
    raw = path.read_bytes()
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise SourceDamaged(path, error.start, "is no text", EXPORT_AGAIN) from error
    lines = _lines(path, text)
    names = next(lines, [])
    if not names or not set(columns) <= set(names):
        raise SourceDamaged(path, 0, f"its first line does not name {' and '.join(columns)}", EXPORT_AGAIN)
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            raise SourceDamaged(path, 0, f"row {number} has {len(line)} fields, not {len(names)}", EXPORT_AGAIN)
        yield dict(zip(names, line, strict=True))


def _lines(path: Path, text: str) -> Iterator[list[str]]:
    line: list[str] = []
    position = 0
    while position < len(text):
        found = _FIELD.match(text, position)
        if found is None:
            raise SourceDamaged(path, len(text[:position].encode()), "ends in a row", EXPORT_AGAIN)
        quoted, plain, separator = found.groups()
        line.append(_shown(_ESCAPED.sub(r"\1", plain if quoted is None else quoted)))
        if separator != ",":
            yield line
            line = []
        position = found.end()
    if line:
        raise SourceDamaged(path, len(text.encode()), "ends in a row", EXPORT_AGAIN)


def _shown(text: str) -> str:
    """The text that cqlsh showed so."""
    return _SHOWN.sub(lambda one: chr(int(one[1], 16)) if one[1] else _CONTROLS.get(one[2], one[0]), text)
