"""Entries in a file, in order: (command, index, term). A program may use it; files.py keeps the applied entries in one.

Format of the file: the magic, a label of 32 bytes, then for each entry a header (CRC-32 of the rest, length, index,
term) and the command. A reader stops at the first entry that is not whole: the end that a crash left.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import overload

__all__ = ["Entry", "Journal", "createJournal"]

MAGIC = b"raftmeta journal"
LABEL_BYTES = 32
_HEADER = struct.Struct("<IIQQ")

Entry = tuple[bytes, int, int]


class Journal:
    """Entries in memory, and in the file if there is a path. label: of whoever writes; it stands in the file."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._entries: list[Entry] = []
        self.label = b""
        if path is not None:
            self._open(path)

    def _open(self, path: str) -> None:
        data = b""
        if os.path.exists(path):
            with open(path, "rb") as file:
                data = file.read()
        start = len(MAGIC) + LABEL_BYTES
        end = 0
        if len(data) >= start and data.startswith(MAGIC):
            self.label = data[len(MAGIC) : start].rstrip(b"\0")
            end = self._read(data, start)
        self._file = open(path, "r+b" if end else "wb")  # noqa: SIM115  # closed by _destroy
        if end:
            self._file.truncate(end)
            self._file.seek(end)
        else:
            self._file.write(self._head())
            self._file.flush()

    def _read(self, data: bytes, at: int) -> int:
        """Take every whole entry from `at` on, and return where they end."""
        while at + _HEADER.size <= len(data):
            checksum, size, index, term = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + size
            if end > len(data) or zlib.crc32(data[at + 4 : end]) != checksum:
                break
            self._entries.append((data[at + _HEADER.size : end], index, term))
            at = end
        return at

    def _head(self) -> bytes:
        return MAGIC + self.label.ljust(LABEL_BYTES, b"\0")

    def add(self, command: bytes, idx: int, term: int) -> None:
        self._entries.append((command, idx, term))
        if self._path is not None:
            self._file.write(_framed(command, idx, term))
            self._file.flush()  # a killed process loses nothing; the engine's folder is what survives a power cut

    def clear(self, label: bytes | None = None) -> None:
        """Forget all entries; label: the new label."""
        self._entries = []
        self.label = self.label if label is None else label
        self._write_again()

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        """Forget the entry at this place and those behind it."""
        del self._entries[entryFrom:]
        self._write_again()

    def deleteEntriesTo(self, entryTo: int) -> None:
        """Forget the entries before this place."""
        del self._entries[:entryTo]
        self._write_again()

    def _write_again(self) -> None:
        if self._path is None:
            return
        beside = self._path + ".new"
        with open(beside, "wb") as file:
            file.write(self._head() + b"".join(_framed(*entry) for entry in self._entries))
        os.replace(beside, self._path)
        self._file.close()
        self._file = open(self._path, "r+b")  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._entries[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Journal) and self._entries == other._entries

    __hash__ = object.__hash__

    def _destroy(self) -> None:
        if self._path is not None:
            self._file.close()


def _framed(command: bytes, index: int, term: int) -> bytes:
    rest = _HEADER.pack(0, len(command), index, term)[4:] + command
    return struct.pack("<I", zlib.crc32(rest)) + rest


def createJournal(journalFile: str | None) -> Journal:
    """A journal in a file; None: in memory."""
    return Journal(journalFile)
