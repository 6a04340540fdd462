"""Keys and values of the loads, made before any clock runs.

Values are random bytes, so that nothing that compresses gains by it, and 4,096 different ones follow each other, a
number that shares no factor with that of the keys: a key gets another value each time.
"""

from __future__ import annotations

import random

VALUES = 4096
KEYS = 1000 - 1  # odd


def keys_of(count: int = KEYS, prefix: str = "key-") -> list[bytes]:
    return [f"{prefix}{number:08}".encode() for number in range(count)]


def values_of(value_bytes: int, count: int = VALUES) -> list[bytes]:
    """The same ones in every process and run."""
    generator = random.Random(value_bytes)
    return [generator.randbytes(value_bytes) for _ in range(count)]
