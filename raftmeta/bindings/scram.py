"""A user's proof to a node, and the verifier that a cluster keeps of a password: SCRAM-SHA-256 (RFC 5802, RFC 7677).

It decides what a password becomes. It never sends one, keeps one longer than its caller does, or shows one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import struct
import unicodedata
from dataclasses import dataclass, field

from raftmeta.errors import AuthenticationFailed, ConfigError, InvalidArgument

__all__ = [
    "Credentials",
    "Exchange",
    "check_user",
    "credentials_of",
    "new_founding_token",
    "new_token",
    "secret_of",
    "token_id",
]

ITERATIONS = 32_768  # of a password that is set here; some 20 ms on a core
ITERATIONS_MIN = 4096  # machine/rights_state FORMAT_ITERATIONS_MIN: with fewer a proof would be easier to guess from
ITERATIONS_MAX = 10_000_000  # as is FORMAT_ITERATIONS_MAX
NONCE_BYTES = 24
SALT_BYTES = 16
NAME_BYTES_MAX = 64
ONE_TIME = 1  # machine/rights_state USER_ONE_TIME
FOUNDER = 2  # machine/rights_state USER_FOUNDER
FOUNDER_NAME = b"\0f"  # machine/rights FOUNDER_NAME
SECRET_BYTES = 32  # of a token, before base64
TOKEN_PREFIX = "raftmeta-token."  # noqa: S105
FOUNDING_PREFIX = "raftmeta-founding."


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says it is, and how it proves it."""

    user: str
    password: str = field(repr=False)
    name: bytes = b""  # under which a token is proved; empty: that of the user


def check_user(name: str, field_name: str = "user") -> bytes:
    """The name of a user or role as bytes. Raises InvalidArgument."""
    if not isinstance(name, str) or not 1 <= len(raw := name.encode()) <= NAME_BYTES_MAX or raw[0] == 0:
        raise InvalidArgument(
            f"{field_name}: must be a text of 1 to {NAME_BYTES_MAX} bytes that begins with no NUL", field=field_name
        )
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
    return _verifier(password, flags, ITERATIONS)


def _verifier(password: str, flags: int, iterations: int) -> bytes:
    salt = os.urandom(SALT_BYTES)
    salted = _salted(password, salt, iterations)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return struct.pack("<II", flags, iterations) + salt + stored + _hmac(salted, b"Server Key")


# --- tokens -----------------------------------------------------------------------------------------------------------
# Nobody guesses 256 bits, so few iterations are enough.


def new_token() -> tuple[int, str, bytes]:
    """A token that nobody has: its id, its text, and the verifier that the cluster keeps."""
    id, secret = secrets.randbits(63) or 1, secrets.token_urlsafe(SECRET_BYTES)
    return id, f"{TOKEN_PREFIX}{id:x}.{secret}", _verifier(secret, 0, ITERATIONS_MIN)


def new_founding_token() -> tuple[str, bytes]:
    """A one-time token of the founder: its text and its verifier."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return f"{FOUNDING_PREFIX}{secret}", _verifier(secret, FOUNDER, ITERATIONS_MIN)


def token_id(token: str) -> int:
    """The id of a token, which is no secret. Raises InvalidArgument, which does not show the token."""
    id, dot, secret = token.removeprefix(TOKEN_PREFIX).partition(".") if isinstance(token, str) else ("", "", "")
    if not isinstance(token, str) or not token.startswith(TOKEN_PREFIX) or not dot or not secret:
        raise InvalidArgument("token: this is no token", field="token")
    try:
        number = int(id, 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 64:
        raise InvalidArgument("token: this is no token", field="token")
    return number


def credentials_of(user: str | None, password: str | None, token: str | None) -> Credentials | None:
    """The proof of a client; None: it has nothing but its certificate. Raises ConfigError, InvalidArgument."""
    if token is not None:
        if user is not None or password is not None:
            raise ConfigError("token: stands in the place of user and password", field="token")
        if isinstance(token, str) and token.startswith(FOUNDING_PREFIX):
            return Credentials("", token.removeprefix(FOUNDING_PREFIX), FOUNDER_NAME)
        return Credentials("", token.rpartition(".")[2], b"\0" + struct.pack("<Q", token_id(token)))
    if (user is None) != (password is None):
        raise ConfigError("user and password: give both or none", field="user")
    if user is None or password is None:
        return None
    check_user(user)
    return Credentials(user, password)


class Exchange:
    """One proof to one node: begin, proof_for what it answered, check its signature."""

    def __init__(self, credentials: Credentials) -> None:
        self.name = credentials.name or check_user(credentials.user)
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
