"""Bytes that end at a page nobody may touch: a decoder that reads one byte too far ends the test run."""

from __future__ import annotations

import ctypes
import mmap

ROOM = 1 << 24  # pages that are not touched cost nothing
_PROT_NONE = 0


class GuardedPages:
    """One mapping, its last page unreadable, reused by every example."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, ROOM + mmap.PAGESIZE)
        guard = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + ROOM
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, data: bytes) -> memoryview:
        """Return a view of data whose next byte is unreadable; the view before is overwritten."""
        self._map[ROOM - len(data) : ROOM] = data
        return memoryview(self._map)[ROOM - len(data) : ROOM]


_pages = GuardedPages()


def guarded(data: bytes) -> memoryview:
    """data, ending where reading must end."""
    return _pages.place(data)


def flipped_bits(data: bytes) -> list[bytes]:
    """data with each single bit flipped."""
    number = int.from_bytes(data, "big")
    return [(number ^ 1 << bit).to_bytes(len(data), "big") for bit in range(8 * len(data))]
