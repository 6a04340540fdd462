"""A backup as Python sees it: what the functions of raftmeta.snapshot are made of."""

from __future__ import annotations

from typing import Any

from raftmeta.face.base import NodeBase
from raftmeta.security.cipher_handle import KeyRingHandle

class BackupFile:
    """One sealed file, loaded and checked."""

    def load(self, path: str, keys: KeyRingHandle | None = None) -> int:
        """Read and check the file at path without the GIL; return a status. keys: of an encrypted file."""
    def facts(self) -> dict[str, Any]:
        """The file's words about itself and the numbers of its state, after load() was OK."""
    def members(self) -> list[tuple[str, str, bool]]:
        """(name, address, whether it votes) of the members when the file was made."""
    def restore(
        self,
        folder: str,
        name: str,
        peers: dict[str, str],
        *,
        cluster: str,
        token: str,
        segment_bytes: int,
        wal_bytes_max: int,
        reserve_bytes: int,
        keys: KeyRingHandle | None = None,
    ) -> int:
        """Make the folder of one member of a new cluster; return a status. The object cannot be used again.

        keys: the current one of them encrypts the folder's files; None: they are plain.
        """

def decoded_members(encoded: bytes) -> list[tuple[int, str, str, bool, bool]]:
    """(incarnation, name, address, whether it votes, whether it voted before the change under way) of each member.

    encoded: a membership as logs and copies of the state carry it. Without a change under way no member voted before.
    """

def check_file(path: str) -> int:
    """Every checksum of the file at path, which need no key; return a status."""

def sealed_path(node: NodeBase, timeout_s: float | None) -> str:
    """Wait until the node has a sealed file with everything acknowledged anywhere before this call; its path."""
