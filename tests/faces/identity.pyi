"""The identity of a folder as a Python object, for tests and tools; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from raftmeta.storage.storage_handle import Disk

class IdentityHandle:
    """The identity file of one folder; incarnations are drawn from a seeded stream."""

    def __init__(self, disk: Disk, name: bytes, cluster_name: bytes, *, seed: int = 1) -> None: ...
    @property
    def id(self) -> int: ...
    @property
    def former(self) -> int:
        """The incarnation before the last renewal, 0: none."""
    @property
    def boot(self) -> int: ...
    @property
    def is_new(self) -> bool: ...
    @property
    def genesis(self) -> tuple[int, tuple[int, int], int]:
        """(GenesisState, cluster id, members of the founding membership)"""
    def open(self) -> int:
        """Read the file, or draw an incarnation for a blank folder; write nothing; return a status."""
    def count_boot(self) -> int:
        """Make the next boot number durable; return a status."""
    def renew(self, is_void: bool = False) -> int:
        """Become another incarnation of the same cluster; return a status. is_void: `former` stays."""
    def set_genesis(self, state: int, cluster: tuple[int, int], membership: bytes = b"") -> int:
        """Replace the genesis record durably; return a status."""
