"""The checksum and the hash of the files, for those that Python writes and reads."""

from __future__ import annotations

def crc32c(data: bytes, *, seed: int = 0) -> int:
    """Return the CRC-32C by the fastest way of this machine."""

def hash128(data: bytes, *, seed: int = 0) -> tuple[int, int]:
    """Return (low, high)."""
