"""Snappy as Java writes it (xerial SnappyOutputStream): a header, then blocks of raw snappy, each behind its length.

pyarrow, which comes with an extra of the package, unpacks the blocks. The frame around them has no checksum, so the
reader of the stream must verify its content.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

from raftmeta import InvalidArgument
from raftmeta.migrate.closing import Closing

__all__ = ["SnappyFile"]

FORMAT_MAGIC = b"\x82SNAPPY\0"
_HEADER = struct.Struct(">8sii")
_LENGTH = struct.Struct(">i")
BLOCK_BYTES_MAX = 64 << 20


class SnappyFile(Closing):
    """Reads the file at path; read() raises ValueError where it is not snappy, EOFError where it ends too early."""

    def __init__(self, path: Path) -> None:
        self._arrow = _arrow()
        self._file = path.open("rb")
        self._rest = b""
        self._is_begun = False

    def read(self, size: int) -> bytes:
        """At most size bytes; none at the end."""
        if not self._is_begun:
            self._begin()
        while not self._rest:
            head = self._file.read(_LENGTH.size)
            if not head:
                return b""
            self._rest = self._block(head)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def _begin(self) -> None:
        head = self._file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise EOFError("the snappy header is cut")
        magic, _, compatible = _HEADER.unpack(head)
        if magic != FORMAT_MAGIC or compatible != 1:
            raise ValueError("no snappy stream of format 1")
        self._is_begun = True

    def _block(self, head: bytes) -> bytes:
        if len(head) < _LENGTH.size:
            raise EOFError("a snappy block is cut")
        (length,) = _LENGTH.unpack(head)
        if not 0 < length <= BLOCK_BYTES_MAX:
            raise ValueError(f"a snappy block of {length} bytes")
        block = self._file.read(length)
        if len(block) < length:
            raise EOFError("a snappy block is cut")
        size = _unpacked_size(block)
        unpacked: bytes = self._arrow.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
        return unpacked

    def close(self) -> None:
        self._file.close()


def _unpacked_size(block: bytes) -> int:
    """The varint at the beginning of a raw block."""
    size = 0
    for position, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            if size > BLOCK_BYTES_MAX:
                break
            return size
    raise ValueError("a snappy block without a size that can be")


def _arrow() -> ModuleType:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            "source: a snapshot packed with snappy needs pyarrow: pip install 'raftmeta[migrate]'", field="source"
        ) from error
    arrow: ModuleType = pyarrow
    return arrow
