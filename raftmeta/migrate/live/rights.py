"""Lists of rights that let everybody read and nobody write but the migrator: the lock of a cut over.

A locked list has the entries of the node's own list without all rights but READ, and one entry for the migrator. The
entry has a name that no program has, so a lock is recognized. Pure: it asks nobody.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable

from raftmeta.migrate.live.requests import Right

__all__ = ["LOCK_USER", "is_locked", "is_masked", "lock_credential", "lock_right", "locked", "new_secret"]

READ, ALL = 1, 31
LOCK_USER = "raftmeta-migration"
SECRET_BYTES = 16


def new_secret() -> str:
    """A password that only the migrator's state has."""
    return secrets.token_hex(SECRET_BYTES)


def lock_credential(secret: str) -> tuple[str, str]:
    """Scheme and text by which a connection proves that it is the migrator."""
    return "digest", f"{LOCK_USER}:{secret}"


def lock_right(secret: str) -> Right:
    """The entry of the migrator: DigestAuthenticationProvider.generateDigest."""
    digest = hashlib.sha1(f"{LOCK_USER}:{secret}".encode()).digest()  # noqa: S324  # ZooKeeper's own
    return Right(ALL, "digest", f"{LOCK_USER}:{base64.b64encode(digest).decode()}")


def locked(acl: Iterable[Right], secret: str) -> tuple[Right, ...]:
    """The list that a locked node has."""
    readers = [right._replace(perms=READ) for right in acl if right.perms & READ and not _is_lock(right)]
    return (*dict.fromkeys(readers), lock_right(secret))


def is_locked(acl: Iterable[Right]) -> bool:
    return any(_is_lock(right) for right in acl)


def is_masked(acl: Iterable[Right]) -> bool:
    """A server hides the digests of a list from everybody who may not administer it (FinalRequestProcessor)."""
    return any(right.scheme == "digest" and right.id.partition(":")[2] == "x" for right in acl)


def _is_lock(right: Right) -> bool:
    return right.scheme == "digest" and right.id.startswith(f"{LOCK_USER}:")
