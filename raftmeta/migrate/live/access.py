"""How a side of a move is reached: TLS, a name proved by SASL DIGEST-MD5, and credentials as of addauth.

It never connects. A certificate of a server is checked against the authorities, and no name in it: ensembles have many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raftmeta import ConfigError

__all__ = ["Access"]

SASL = "sasl"


@dataclass(frozen=True, slots=True)
class Access:
    """auth: (scheme, credential) pairs; the scheme "sasl" has name:password of SASL DIGEST-MD5, once.

    authorities: PEM file; with it the side speaks TLS. certificate, key: PEM files of the migrator, both or none.
    """

    auth: Sequence[tuple[str, str]] = ()
    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("a certificate and its key come together", field="certificate")
        if self.certificate is not None and self.authorities is None:
            raise ConfigError("a certificate is for TLS: the authorities are missing", field="authorities")
        names = [credential for scheme, credential in self.auth if scheme == SASL]
        if len(names) > 1:
            raise ConfigError("sasl: a connection proves one name", field="auth")
        if names and ":" not in names[0]:
            raise ConfigError("sasl: name:password, as sasl:migrator:secret", field="auth")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """For addauth."""
        return [(scheme, credential) for scheme, credential in self.auth if scheme != SASL]

    @property
    def sasl(self) -> dict[str, str] | None:
        """As kazoo takes it; None: no name is proved."""
        for scheme, credential in self.auth:
            if scheme == SASL:
                name, _, password = credential.partition(":")
                return {"mechanism": "DIGEST-MD5", "username": name, "password": password}
        return None

    @property
    def tls(self) -> dict[str, Any]:
        """Settings of kazoo."""
        if self.authorities is None:
            return {}
        own = {"certfile": str(self.certificate), "keyfile": str(self.key)} if self.certificate else {}
        return {"use_ssl": True, "ca": str(self.authorities), "check_hostname": False, **own}

    def of_stranger(self) -> Access:
        """The same way without a name or credentials: what any other program may do."""
        return Access((), self.authorities, self.certificate, self.key)
