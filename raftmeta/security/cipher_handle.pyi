"""The keys of a folder's files as a Python object."""

KEY_BYTES: int
SEALING_BYTES: int

def key_id(key: bytes) -> int:
    """The id of a key, which is derived from it and stands in the files that it encrypts. ValueError: not 32 bytes."""

class KeyRingHandle:
    """Keys that native threads read while one is added, or another becomes the current one. It never shows a key."""

    def __init__(self, *, seed: int = 0) -> None:
        """seed: 0, but in simulations: the "random" numbers of its ciphers are those of this seed."""
    def add(self, key: bytes) -> int:
        """Add a key of 32 bytes, which may be there already, and return its id. MemoryError: there are too many."""
    def use(self, id: int) -> None:
        """New files use this key; 0: they are plain. KeyError: it was not added."""
    @property
    def current(self) -> int:
        """The id of the key for new files; 0: they are plain."""
    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all keys."""
    def __contains__(self, id: int) -> bool: ...
    def seal(self, id: int, context: bytes, message: bytes) -> bytes:
        """The message encrypted with a key, SEALING_BYTES longer. KeyError: it has no such key."""
    def open(self, id: int, context: bytes, message: bytes) -> bytes:
        """The sealed message. KeyError: it has no such key. ValueError: message or context is not what was sealed."""
