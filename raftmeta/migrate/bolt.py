"""A bbolt database file, read without a lock and without trusting any of it: buckets, in order of their keys.

It decides which of the two meta pages counts: the newer one whose checksum is right. It checks every page that it
visits: its own number, its kind, its bounds, and that keys go upward. It never follows a page twice, so that it ends
even on a file that leads in circles. bbolt keeps no checksum of branch and leaf pages, so this module cannot find a bit
that changed within a value. `etcdctl snapshot save` appends a SHA-256 to its file, and raftmeta/migrate/etcd.py checks
it.

A page, little-endian: number 8, kind 2, elements 2, further pages 4; then elements (leaf: flags, position, sizes of key
and value, 4 each; branch: position 4, size of key 4, page 8), then the bytes that they point to.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from raftmeta.migrate.closing import Closing
from raftmeta.migrate.etcd_handle import leaf_of
from raftmeta.migrate.problems import SourceDamaged

__all__ = ["BoltFile"]

FORMAT_MAGIC = 0xED0CDAED
FORMAT_VERSION = 2
BRANCH, LEAF, META = 0x01, 0x02, 0x04
BUCKET = 0x01  # flag of a leaf element whose value is a bucket
PAGE_BYTES_MIN, PAGE_BYTES_MAX = 512, 1 << 16
DEPTH_MAX = 64

_PAGE = struct.Struct("<QHHI")
_META = struct.Struct("<IIIIQQQQQQ")  # magic version page-size flags root sequence freelist pages txid checksum
_BRANCH = struct.Struct("<IIQ")
_BUCKET = struct.Struct("<QQ")
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class _Meta(NamedTuple):
    page_bytes: int
    root: int
    pages: int
    transaction: int


class BoltFile(Closing):
    """The file at path, as of its last committed transaction. As a context it is closed. Raises SourceDamaged.

    size: the bytes of the file that are the database, if something was appended to it.
    """

    def __init__(self, path: Path, *, size: int | None = None) -> None:
        self.path = path
        self._file = path.open("rb", buffering=0)  # pages are read one by one: a mapping would count as memory
        self._size = os.fstat(self._file.fileno()).st_size if size is None else size
        try:
            self._meta = self._newest_meta()
        except BaseException:
            self.close()
            raise
        self._seen = bytearray()

    @property
    def transaction(self) -> int:
        """The number of the last committed transaction."""
        return self._meta.transaction

    def _newest_meta(self) -> _Meta:
        found = [meta for offset in self._meta_offsets() if (meta := self._meta_at(offset)) is not None]
        if not found:
            raise SourceDamaged(self.path, 0, "no meta page with a right checksum: this is no bbolt database")
        newest = max(found, key=lambda meta: meta.transaction)
        if newest.pages * newest.page_bytes > self._size:
            raise SourceDamaged(
                self.path,
                self._size,
                f"the file ends before its {newest.pages} pages of {newest.page_bytes} bytes",
                "use another copy",
            )
        return newest

    def _meta_offsets(self) -> Iterator[int]:
        """The second meta page follows the first, whose size may be any if the first is damaged."""
        yield 0
        page_bytes = PAGE_BYTES_MIN
        while page_bytes <= PAGE_BYTES_MAX:
            yield page_bytes
            page_bytes *= 2

    def _meta_at(self, offset: int) -> _Meta | None:
        if offset + _PAGE.size + _META.size > self._size:
            return None
        page = self._read(offset, _PAGE.size + _META.size)
        _, kind, _, _ = _PAGE.unpack_from(page)
        magic, version, page_bytes, _, root, _, _, pages, transaction, checksum = _META.unpack_from(page, _PAGE.size)
        is_sound = _fnv_1a(page[_PAGE.size : -8]) == checksum
        if kind != META or magic != FORMAT_MAGIC or version != FORMAT_VERSION or not is_sound:
            return None
        if offset not in (0, page_bytes):
            return None
        return _Meta(page_bytes, root, pages, transaction)

    # --- buckets ------------------------------------------------------------------------------------------------------

    def buckets(self) -> list[bytes]:
        """The names of the buckets at the top."""
        return [key for key, _, flags in chain.from_iterable(self._leaves(self._meta.root)) if flags & BUCKET]

    def rows(self, bucket: bytes) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of a bucket at the top, in order of keys; nothing if there is no such bucket."""
        return ((key, value) for key, value, _ in chain.from_iterable(self.leaves(bucket)))

    def leaves(self, bucket: bytes) -> Iterator[list[tuple[bytes, bytes, int]]]:
        """The rows of rows(), page by page, and with flags."""
        for key, value, flags in chain.from_iterable(list(self._leaves(self._meta.root))):
            if key == bucket and flags & BUCKET:
                if len(value) < _BUCKET.size:
                    raise SourceDamaged(self.path, 0, f"a bucket of {len(value)} bytes")
                root, _ = _BUCKET.unpack_from(value)
                if root:
                    yield from self._leaves(root)
                else:
                    yield self._leaf(value[_BUCKET.size :], 0, None)  # the page itself, within the value
                return

    def _leaves(self, root: int) -> Iterator[list[tuple[bytes, bytes, int]]]:
        """(key, value, flags) below a page, from left to right, page by page."""
        self._seen = bytearray(self._meta.pages // 8 + 1)  # a bit for each page
        previous: bytes | None = None
        stack = [iter([root])]
        while stack:
            number = next(stack[-1], None)
            if number is None:
                stack.pop()
                continue
            page = self._page(number)
            _, kind, count, _ = _PAGE.unpack_from(page)
            if kind == BRANCH and count and len(stack) < DEPTH_MAX:
                stack.append(iter(self._children(page, number)))
                continue
            if kind != LEAF:
                raise self._damaged(number, f"a page of kind {kind:#x} where there should be a leaf")
            found = self._leaf(page, number, previous)
            if found:
                previous = found[-1][0]
                yield found

    def _page(self, number: int) -> bytes:
        size = self._meta.page_bytes
        if not 2 <= number < self._meta.pages or self._seen[number >> 3] >> (number & 7) & 1:
            raise SourceDamaged(self.path, 0, f"a reference to page {number}, which is outside or was there before")
        self._seen[number >> 3] |= 1 << (number & 7)
        page = self._read(number * size, size)
        own_number, _, _, overflow = _PAGE.unpack_from(page)
        if own_number != number or number + overflow >= self._meta.pages:
            raise self._damaged(number, f"a page that calls itself {own_number} and has {overflow} more")
        return self._read(number * size, size * (1 + overflow)) if overflow else page

    def _read(self, offset: int, length: int) -> bytes:
        piece = os.pread(self._file.fileno(), length, offset)
        if len(piece) < length:
            raise SourceDamaged(self.path, offset, f"the file ends {length - len(piece)} bytes too early")
        return piece

    def _children(self, page: bytes, number: int) -> list[int]:
        _, _, count, _ = _PAGE.unpack_from(page)
        if _PAGE.size + count * _BRANCH.size > len(page):
            raise self._damaged(number, f"a page of {count} elements")
        return [_BRANCH.unpack_from(page, _PAGE.size + position * _BRANCH.size)[2] for position in range(count)]

    def _leaf(self, page: bytes, number: int, previous: bytes | None) -> list[tuple[bytes, bytes, int]]:
        try:
            return leaf_of(page, previous)
        except ValueError as error:
            raise self._damaged(number, str(error)) from None

    def _damaged(self, number: int, what: str) -> SourceDamaged:
        return SourceDamaged(self.path, number * self._meta.page_bytes, what, "use another copy")

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._file.close()


def _fnv_1a(data: bytes) -> int:
    found = _FNV_OFFSET
    for byte in data:
        found = (found ^ byte) * _FNV_PRIME & (1 << 64) - 1
    return found
