"""The containers and intrinsics as Python objects, for tests."""

from __future__ import annotations

def crc32c_by_table(data: bytes, *, seed: int = 0) -> int:
    """Return the CRC-32C by the way that every machine has."""

def hash64(data: bytes, *, seed: int = 0) -> int:
    """Return the low half of hash128."""

def sha256_of(data: bytes) -> bytes:
    """SHA-256."""

def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256; key: at most 64 bytes."""

def are_equal(left: bytes, right: bytes) -> bool:
    """Compare in a time that tells nothing of where they differ."""

def big64(data: bytes) -> int:
    """Return the first 8 bytes as a big-endian number. Raises ValueError for less."""

def text_is_plain(data: bytes) -> bool:
    """Whether these bytes are UTF-8 without control characters and line separators."""

def random_stream(seed: int, count: int) -> list[int]:
    """Return the first numbers of a seeded stream."""

class VecHandle:
    """A Vec[uint64_t]; what returns a bool is False when there is no memory and nothing changed."""

    def __init__(self) -> None: ...
    def items(self) -> list[int]:
        """Return the elements in order."""
    def reserve(self, wanted: int) -> bool:
        """Make room for so many elements in all."""
    def push(self, value: int) -> bool:
        """Append one element."""
    def push_own(self, position: int) -> bool:
        """Append an element of its own, by reference. Raises IndexError."""
    def append(self, other: VecHandle) -> bool:
        """Append all elements of another Vec. Raises ValueError for itself."""
    def resize(self, count: int) -> bool:
        """Cut, or fill with zeros."""
    def drop_front(self, count: int) -> None:
        """Drop elements at the front, all if there are fewer."""
    def pop(self) -> int:
        """Take the last element. Raises IndexError."""
    def clear(self) -> None:
        """Drop all elements and keep the memory."""

class RingHandle:
    """A Ring[uint64_t]."""

    def __init__(self) -> None: ...
    def items(self) -> list[int]:
        """Return the elements from the front."""
    def push(self, value: int) -> bool:
        """Append one element at the back."""
    def push_own(self, position: int) -> bool:
        """Append an element of its own, by reference. Raises IndexError."""
    def pop_front(self) -> int:
        """Take the front element. Raises IndexError."""
    def pop_back(self) -> int:
        """Take the back element. Raises IndexError."""
    def drop_front(self, count: int) -> None:
        """Drop elements at the front. Raises IndexError."""
    def clear(self) -> None:
        """Drop all elements and keep the memory."""

class Map64Handle:
    """A Map64[uint64_t]."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def items(self) -> list[tuple[int, int]]:
        """Return the pairs in the order of the table."""
    def find(self, key: int) -> int | None:
        """Return the value, None: the key is not there."""
    def insert(self, key: int, value: int) -> int:
        """Set the value and return the one before, 0 for a new key. Raises MemoryError."""
    def erase(self, key: int) -> bool:
        """Remove a key; False: it was not there."""
    def clear(self) -> None:
        """Remove all keys and keep the memory."""

class ChunkHandle:
    """A Chunk with one holder at first; freed when the last one drops it."""

    def __init__(self, capacity: int) -> None: ...
    @property
    def holders(self) -> int:
        """Return how many hold it; 0: it is freed."""
    def hold(self) -> None:
        """Become one more holder."""
    def drop(self) -> None:
        """Be a holder no longer. Raises ValueError when nobody holds it."""
    def append(self, data: bytes) -> None:
        """Use more of it. Raises ValueError when there is no room."""
    def content(self) -> bytes:
        """Return the used bytes. Raises ValueError when nobody holds it."""
