"""The Python thread that writes and reads the checkpoints of one node (raftmeta/face/checkpoints.pxd)."""

from __future__ import annotations

from pathlib import Path

from raftmeta.security.cipher_handle import KeyRingHandle

class Checkpoints:
    """The checkpoints in one node's folder. Started, stopped and asked by native code only."""

    def __init__(self, data_dir: str | bytes | Path, keys: KeyRingHandle | None = None) -> None: ...
    @property
    def last_error(self) -> Exception | None:
        """Why the last request failed; None: it did not."""
