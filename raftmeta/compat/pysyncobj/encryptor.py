"""Whether passwords can be used here (secret.py says how)."""

from __future__ import annotations

from raftmeta.compat.pysyncobj.secret import HAS_CRYPTO

__all__ = ["HAS_CRYPTO"]
