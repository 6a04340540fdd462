"""A folder as a Python object, for Python code that has no node; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from pathlib import Path

from raftmeta.security.cipher_handle import KeyRingHandle

Point = tuple[int, int, int]
"""index, term, chain of an entry; also term, vote, committed of a hard state"""

class DiskError(Exception):
    """A call of a DiskPort gave a status that is not OK."""

    status: int
    def __init__(self, status: int) -> None: ...

def key_id_of_head(head: bytes) -> int | None:
    """Of the first 64 KiB of a segment or sealed file: the id of its key, 0: it is plain; None: they are none."""

class Disk:
    """One flat folder behind ports.DiskPort."""

    def use_keys(self, keys: KeyRingHandle | None) -> None:
        """From now on encrypted files are read with these keys, and new ones are written with the current one."""

class FolderDisk(Disk):
    """A folder of the file system; created when it does not exist."""

    def __init__(self, path: str | Path) -> None: ...
    def lock(self) -> tuple[int, int]:
        """Return (status, pid of the holder or 0)."""
    def close(self) -> None:
        """Give up the lock and the folder."""
