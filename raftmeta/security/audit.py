"""The settings of an audit trail: one frozen Audit, for nodes.

    raftmeta.Node(..., audit=raftmeta.Audit(folder="/var/log/raftmeta/a", writes=True))

It decides what is recorded and where. docs/security.md "Audit" says what a line holds, and what the trail can show.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from raftmeta.config import check_path
from raftmeta.errors import ConfigError

__all__ = ["Audit", "check_audit", "derived", "read_key"]

_KIB = 1024
_MIB = 1024 * _KIB
_OTHERS = 0o077
KEY_BYTES_MIN = 32  # of a key file: as many as a hash has
KEY_BYTES_MAX = 4096
PURPOSE_CHAIN = b"raftmeta audit chain"  # FORMAT_: what the two keys are derived for
PURPOSE_KEYS = b"raftmeta audit keys"

_RANGES: dict[str, tuple[int, int]] = {
    "file_bytes": (64 * _KIB, 1024 * _MIB),
    "files": (2, 100_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """An audit trail: JSON lines that tell who asked a node for what, and what came of it. Never values or passwords.

    folder: where the files are; one folder for each node. It is made with mode 0700 if it is not there.
    reads, writes: whether to record these requests of clients. Watches count as reads, leases, sessions and commands of
        user machines as writes. Denied requests, changes of rights and members, snapshots, transfers, proofs of
        passwords and refused connections are always recorded.
    keys: "plain", or "hash": a keyed hash stands in the place of each key of the store. It needs key_file.
    key_file: a file with at least 32 secret bytes. With it the chain is an HMAC, which only its holders can make.
        Without it the chain is a hash, which anybody who may write the files can make anew from a line on.
    file_bytes: a new file begins when one has so many bytes. files: so many are kept; the oldest is deleted.
    required: refuse what must be recorded (NoSpace, certainly not executed) while it cannot be written, instead of
        doing it without a record.

    Raises ConfigError, whose field is audit and the name of the setting.
    """

    folder: str | os.PathLike[str]
    reads: bool = False
    writes: bool = False
    keys: Literal["plain", "hash"] = "plain"
    key_file: str | os.PathLike[str] | None = field(default=None)
    file_bytes: int = 64 * _MIB
    files: int = 16
    required: bool = False

    def __post_init__(self) -> None:
        check_path(self.folder, "audit.folder")
        if self.key_file is not None:
            check_path(self.key_file, "audit.key_file")
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(setting.default, bool) and not isinstance(value, bool):
                raise _error(setting.name, f"must be True or False, not {value!r}")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise _error(name, f"must be an integer from {low} to {high}, not {value!r}")
        if self.keys not in ("plain", "hash"):
            raise _error("keys", f'must be "plain" or "hash", not {self.keys!r}')
        if self.keys == "hash" and self.key_file is None:
            raise _error("keys", "hashes need key_file: a hash without a secret is guessed back to its key")

    @property
    def path(self) -> Path:
        return Path(self.folder)


def _error(name: str, rule: str) -> ConfigError:
    return ConfigError(f"audit.{name}: {rule}", field=f"audit.{name}")


def check_audit(audit: Audit | None) -> Audit | None:
    """The argument as it is. Raises ConfigError: it is something else."""
    if audit is not None and not isinstance(audit, Audit):
        raise ConfigError(f"audit: must be an Audit, not {type(audit).__name__}", field="audit")
    return audit


def read_key(path: str | os.PathLike[str]) -> bytes:
    """The secret bytes of a key file. Raises ConfigError, which never has one of them in it."""
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise _error("key_file", f"{path} cannot be read: {error.strerror}") from None
    if mode & _OTHERS:
        raise _error("key_file", f"other users can read or write {path}: chmod 600 it")
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise _error("key_file", f"{path} must have {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, not {len(key)}")
    return key


def derived(key: bytes | None, purpose: bytes) -> bytes | None:
    """The key for one purpose: HMAC-SHA-256 of the purpose. None: without a key."""
    if key is None:
        return None
    import hmac  # loads hashlib, and with it OpenSSL

    return hmac.digest(key, purpose, "sha256")
