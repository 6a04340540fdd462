"""A user's proof to a node, and the verifier that a cluster keeps of a password: SCRAM-SHA-256 (RFC 5802, RFC 7677).

It decides what a password becomes. It never sends one, keeps one longer than its caller does, or shows one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
import unicodedata
from dataclasses import dataclass, field

from raftmeta.errors import AuthenticationFailed, InvalidArgument

__all__ = ["Credentials", "Exchange", "check_user", "secret_of"]

ITERATIONS = 32_768  # of a password that is set here; some 20 ms on a core
ITERATIONS_MIN = 4096  # machine/rights_state FORMAT_ITERATIONS_MIN: with fewer a proof would be easier to guess from
ITERATIONS_MAX = 10_000_000  # as is FORMAT_ITERATIONS_MAX
NONCE_BYTES = 24
SALT_BYTES = 16
NAME_BYTES_MAX = 64
ONE_TIME = 1  # machine/rights_state USER_ONE_TIME


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says it is, and how it proves it."""

    user: str
    password: str = field(repr=False)


def check_user(name: str, field_name: str = "user") -> bytes:
    """The name of a user or role as bytes. Raises InvalidArgument."""
    if not isinstance(name, str) or not 1 <= len(raw := name.encode()) <= NAME_BYTES_MAX:
        raise InvalidArgument(f"{field_name}: must be a text of 1 to {NAME_BYTES_MAX} bytes", field=field_name)
    return raw


def _prepared(password: str) -> bytes:
    """One password has one form, however a keyboard wrote it (RFC 4013 asks for this much of what is typed)."""
    if not isinstance(password, str) or not password:
        raise InvalidArgument("password: must be a text that is not empty", field="password")
    return unicodedata.normalize("NFKC", password).encode()


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _salted(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)


def secret_of(password: str | None, *, one_time: bool = False) -> bytes:
    """The verifier of a password (docs/formats.md "Rights"); None: the user has none, and proves itself otherwise."""
    flags = ONE_TIME if one_time else 0
    if password is None:
        return struct.pack("<II", flags, 0) + bytes(SALT_BYTES + 64)
    salt = os.urandom(SALT_BYTES)
    salted = _salted(password, salt, ITERATIONS)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return struct.pack("<II", flags, ITERATIONS) + salt + stored + _hmac(salted, b"Server Key")


class Exchange:
    """One proof to one node: begin, proof_for what it answered, check its signature."""

    def __init__(self, credentials: Credentials) -> None:
        self.name = check_user(credentials.user)
        self.nonce = os.urandom(NONCE_BYTES)
        self._credentials = credentials
        self._said = bytes([len(self.name)]) + self.name + self.nonce
        self._salted = b""

    def proof_for(self, answer: bytes, nonce: bytes, salt: bytes, iterations: int) -> bytes:
        """The proof. answer: the body of the first answer, of which the others are the fields."""
        if not nonce.startswith(self.nonce) or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed("the node did not answer what it was asked")
        self._said += answer + nonce
        self._salted = _salted(self._credentials.password, salt, iterations)
        key = _hmac(self._salted, b"Client Key")
        signature = _hmac(hashlib.sha256(key).digest(), self._said)
        return bytes(a ^ b for a, b in zip(key, signature, strict=True))

    def check(self, signature: bytes) -> None:
        """The node knows the verifier, or it only pretends to be one. Raises AuthenticationFailed."""
        if not hmac.compare_digest(signature, _hmac(_hmac(self._salted, b"Server Key"), self._said)):
            raise AuthenticationFailed("the node does not know this user's password: it is none of the cluster")
