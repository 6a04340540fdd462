"""The settings of TLS: one frozen Tls, for nodes and for clients.

It decides which files there are and reads them, all at once. It never judges a certificate: the TLS of nodes
(security/tls) and of clients (client/secure) do. A secret stands in no repr and in no error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

from raftmeta.config import check_path
from raftmeta.errors import ConfigError

__all__ = ["Tls"]

_BYTES_MAX = 4 << 20  # of one file; a list of 100,000 revoked certificates has as many

FilePath = str | os.PathLike[str]
Secret = str | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The content of the files of a Tls, in PEM. It lives as long as a context is made of it."""

    certificate: bytes
    key: bytes = field(repr=False)
    password: bytes | None = field(repr=False)
    authorities: bytes
    client_authorities: bytes
    revoked: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS 1.3 with both sides verified. Every file is in PEM; docs/security.md tells how to get them.

    certificate: this node's or client's certificate, and behind it those between it and an authority.
    key: the file of its private key, or a function without arguments that returns the key's PEM as bytes.
    authorities: certificates of those whose signature counts.
    client_authorities: on a node, those whose signature counts for clients; None: authorities.
    revoked: lists of revoked certificates (CRL), one of each authority that signs certificates; None: nothing is
        looked up. A list whose time is over lets nobody in.
    key_password: of an encrypted key, or a function that returns it.
    accept_plain: on a node, also speak with nodes and clients without TLS, while a cluster moves from one to the other.

    Files are read when a node starts and each time that they change, by a client with each connection after a change.
    Raises ConfigError, whose field is tls and the name of the setting.
    """

    certificate: FilePath
    key: FilePath | Callable[[], bytes]
    authorities: FilePath
    client_authorities: FilePath | None = None
    revoked: FilePath | None = None
    key_password: Secret | Callable[[], Secret] | None = field(default=None, repr=False)
    accept_plain: bool = False

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name == "accept_plain":
                if not isinstance(value, bool):
                    raise ConfigError(
                        f"tls.accept_plain: must be True or False, not {value!r}", field="tls.accept_plain"
                    )
            elif setting.name == "key_password":
                if not (value is None or isinstance(value, str | bytes) or callable(value)):
                    raise ConfigError(
                        "tls.key_password: must be text, bytes or a function that returns them",
                        field="tls.key_password",
                    )
            elif value is not None or setting.name in ("certificate", "key", "authorities"):
                _check_file(value, f"tls.{setting.name}")

    def files(self) -> tuple[Path, ...]:
        """The files that there are, in a fixed order."""
        given = (self.certificate, self.key, self.authorities, self.client_authorities, self.revoked)
        return tuple(Path(one) for one in given if isinstance(one, str | os.PathLike))

    def signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        """A value that differs once a file has changed; None in the place of one that is not there."""
        return tuple(_signature_of(path) for path in self.files())

    def read(self) -> Texts:
        """All files, and what the functions give."""
        authorities = _read(self.authorities, "tls.authorities")
        return Texts(
            certificate=_read(self.certificate, "tls.certificate"),
            key=self._key(),
            password=self._password(),
            authorities=authorities,
            client_authorities=authorities
            if self.client_authorities is None
            else _read(self.client_authorities, "tls.client_authorities"),
            revoked=None if self.revoked is None else _read(self.revoked, "tls.revoked"),
        )

    def _key(self) -> bytes:
        if isinstance(self.key, str | os.PathLike):
            return _read(self.key, "tls.key")
        key = self.key()
        if not isinstance(key, bytes) or not key:
            raise ConfigError("tls.key: the function must return the key's PEM as bytes", field="tls.key")
        return key

    def _password(self) -> bytes | None:
        given = self.key_password
        password = given if given is None or isinstance(given, str | bytes) else given()
        if password is not None and not isinstance(password, str | bytes):
            raise ConfigError("tls.key_password: the function must return text or bytes", field="tls.key_password")
        return password.encode() if isinstance(password, str) else password


def _check_file(value: object, name: str) -> None:
    is_text = isinstance(value, str | bytes)
    if is_text and "-----BEGIN" in str(value):  # what stands in it may be the key itself
        raise ConfigError(f"{name}: must be the path of a file, not what is in the file", field=name)
    if name == "tls.key" and not isinstance(value, str | os.PathLike):
        if not callable(value):
            raise ConfigError("tls.key: must be a path or a function that returns the key's PEM", field=name)
        return
    check_path(value, name)  # type: ignore[arg-type]  # it refuses what is none


def _signature_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: FilePath, name: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{name}: {path}: {error.strerror}", field=name) from None
    if not 0 < len(text) <= _BYTES_MAX:
        raise ConfigError(f"{name}: {path} is empty or has more than {_BYTES_MAX} bytes", field=name)
    return text
