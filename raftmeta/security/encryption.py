"""Keys for the files of a node: where they come from, and which one new files use.

    raftmeta.Node(..., encryption=raftmeta.Encryption(key_file="/etc/raftmeta/keys"))
    raftmeta.Node(..., encryption=raftmeta.Encryption(key=ask_the_vault))

It decides which keys a node is given. It never keeps, shows or logs one: the native KeyRing alone has them.
docs/security.md "At rest" says what is encrypted, and what is not.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from raftmeta.errors import ConfigError, EncryptionKeyMissing
from raftmeta.security.cipher_handle import KEY_BYTES, KeyRingHandle, key_id

__all__ = ["Encryption", "check_encryption", "missing", "ring_of", "shown_id"]

PLAIN = "plain"  # FORMAT_: the first line of a key file that turns encryption off
_OTHERS = stat.S_IRWXO | stat.S_IWGRP
_FIELD = "encryption"

KeyCallback = Callable[[str | None], bytes | None]


def shown_id(number: int) -> str:
    """A key's id as people see it: 16 hex digits; "plain" for 0."""
    return f"{number:016x}" if number else PLAIN


class Encryption:
    """The encryption of a node's files at rest, with AES-256-GCM.

    Give one of two:
    key: 32 random bytes, as new_key() makes them. Or a callable for keys that stand elsewhere: called with None it
        returns the key for new files, or None to write them plain; called with the id of an older key (key_id()) it
        returns that key, or None if it has no such key. The node calls it while it starts and in
        rotate_encryption_key(), on the calling thread.
    key_file: a text file with one key of 64 hex digits a line. The first line is the key for new files, or the word
        `plain`; the other keys are for older files. Empty lines, and what follows `#`, are skipped. Other users must
        not be able to read it, nor the group to write it.

    All members of a cluster have the same keys, because they send each other snapshots as they stand in the folder.
    Without the key a folder cannot be read by anybody: keep a copy in another place.
    Raises ConfigError: an argument is wrong. The message never has a key in it.
    """

    __slots__ = ("_callback", "_key", "_path")

    def __init__(
        self, *, key: bytes | KeyCallback | None = None, key_file: str | os.PathLike[str] | None = None
    ) -> None:
        if (key is None) == (key_file is None):
            raise ConfigError("encryption: give key or key_file, one of them", field=_FIELD)
        self._path = None if key_file is None else Path(key_file)
        self._callback = key if callable(key) else None
        self._key = None if key is None or callable(key) else _checked(key, "key")

    def __repr__(self) -> str:
        source = f"key_file={str(self._path)!r}" if self._path is not None else "key=..."
        return f"Encryption({source})"

    def __reduce__(self) -> str:
        raise TypeError("an Encryption cannot be pickled: it would carry its key along")

    @staticmethod
    def new_key() -> bytes:
        """A key that nobody has: 32 bytes from the system's random source."""
        return secrets.token_bytes(KEY_BYTES)

    @staticmethod
    def key_id(key: bytes) -> str:
        """The id of a key: 16 hex digits that are derived from it, and tell nothing about it."""
        return shown_id(key_id(_checked(key, "key")))

    def offer(self, ring: KeyRingHandle, needed: Iterable[int] = ()) -> None:
        """Put the keys into the ring, and choose the one for new files. needed: ids of keys that files have.

        Raises ConfigError: the keys cannot be had; the ring's choice is as it was. A needed key that is not there is
        no error here: only who opens the file knows.
        """
        try:
            current = self._offer(ring, needed)
        except MemoryError:
            raise ConfigError("encryption: the node has been given too many keys; restart it", field=_FIELD) from None
        ring.use(current)

    def _offer(self, ring: KeyRingHandle, needed: Iterable[int]) -> int:
        if self._key is not None:
            return ring.add(self._key)
        if self._path is not None:
            keys = _read(self._path)
            ids = [ring.add(key) if key else 0 for key in keys]
            return ids[0]
        current = self._asked(None)
        number = 0 if current is None else ring.add(current)
        for id in sorted(set(needed) - {0, *ring.ids}):
            key = self._asked(shown_id(id))
            if key is not None and key_id(key) != id:
                raise ConfigError(
                    f"encryption: asked for key {shown_id(id)}, the callable returned key {shown_id(key_id(key))}",
                    field=_FIELD,
                )
            if key is not None:
                ring.add(key)
        return number

    @property
    def asks(self) -> bool:
        """Whether offer() wants to know which keys are needed."""
        return self._callback is not None

    def _asked(self, id: str | None) -> bytes | None:
        assert self._callback is not None
        key = self._callback(id)
        return None if key is None else _checked(key, "key: the callable's answer")


def _checked(key: object, name: str) -> bytes:
    if not isinstance(key, bytes | bytearray) or len(key) != KEY_BYTES:
        told = f"{len(key)} bytes" if isinstance(key, bytes | bytearray) else type(key).__name__
        raise ConfigError(f"encryption: {name} must be {KEY_BYTES} bytes, not {told}", field=_FIELD)
    return bytes(key)


def _read(path: Path) -> list[bytes]:
    """The keys of a file, the one for new files first; b"": those are plain."""
    try:
        with path.open(encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"encryption: the key file {path} cannot be read: {reason}", field=_FIELD) from None
    if mode & _OTHERS:
        raise ConfigError(
            f"encryption: other users can read the key file {path}, or its group can write it: chmod 600 it",
            field=_FIELD,
        )
    keys: list[bytes] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            key = b"" if text == PLAIN and not keys else bytes.fromhex(text)
        except ValueError:
            key = b"?"
        if len(key) not in (0, KEY_BYTES) or (not key and keys):
            raise ConfigError(
                f"encryption: line {number} of the key file {path} is no key of {2 * KEY_BYTES} hex digits",
                field=_FIELD,
            )
        keys.append(key)
    if not keys:
        raise ConfigError(f"encryption: the key file {path} has no key", field=_FIELD)
    return keys


def check_encryption(encryption: Encryption | None) -> Encryption | None:
    """The argument as it is. Raises ConfigError: it is something else."""
    if encryption is not None and not isinstance(encryption, Encryption):
        raise ConfigError(f"encryption: must be an Encryption, not {type(encryption).__name__}", field=_FIELD)
    return encryption


def ring_of(encryption: Encryption | None, needed: Callable[[], Iterable[int]]) -> KeyRingHandle | None:
    """The keys as the native code reads them; None: without encryption. needed: the ids of keys that files have.

    Raises ConfigError.
    """
    if check_encryption(encryption) is None or encryption is None:
        return None
    ring = KeyRingHandle()
    encryption.offer(ring, needed() if encryption.asks else ())
    return ring


def missing(path: Path, found: Iterable[int], ring: KeyRingHandle | None) -> EncryptionKeyMissing:
    """The error for files at path that are encrypted with a key that the ring has not."""
    offered = () if ring is None else ring.ids
    lacking = sorted(shown_id(id) for id in found if id and id not in offered)
    name = ", ".join(lacking) or "(not known)"
    had = f"the keys given are {', '.join(map(shown_id, offered))}" if offered else "no key was given"
    return EncryptionKeyMissing(
        f"encryption: {path} is encrypted with key {name}, and {had}; nothing was touched",
        key_id=lacking[0] if lacking else "",
    )
