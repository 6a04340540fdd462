"""The verbs of rights: users, roles and what they may do. `store.auth` has them, blocking or not as the store is.

It decides what the arguments come to. The cluster decides who may change rights (docs/decisions/rights.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Generic, TypeVar

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request, change_rights, range_bounds
from raftmeta.common import numbers
from raftmeta.errors import InvalidArgument, NotReady
from raftmeta.operations import Key

__all__ = ["Auth", "check_level"]

Done = TypeVar("Done")

NAME_BYTES_MAX = 64
LEVEL_OF_RIGHTS = 3  # machine/state
RIGHTS = {
    "read": numbers.RIGHT_READ,
    "write": numbers.RIGHT_WRITE,
    "watch": numbers.RIGHT_WATCH,
    "lease": numbers.RIGHT_LEASE,
    "member": numbers.RIGHT_MEMBER,
    "snapshot": numbers.RIGHT_SNAPSHOT,
    "admin": numbers.RIGHT_ADMIN,
}


def check_level(level: int) -> None:
    """Raise NotReady while a member of the cluster could not apply a change of rights."""
    if level < LEVEL_OF_RIGHTS:
        raise NotReady(f"a member runs a version without rights: feature level {level}, {LEVEL_OF_RIGHTS} is needed")


def _name(name: str, field: str) -> bytes:
    if not isinstance(name, str) or not 1 <= len(raw := name.encode()) <= NAME_BYTES_MAX:
        raise InvalidArgument(f"{field}: must be a text of 1 to {NAME_BYTES_MAX} bytes", field=field)
    return raw


def _grant(rights: tuple[str, ...], start: Key, end: Key, prefix: Key | None) -> bytes:
    bits = 0
    for right in rights:
        if right not in RIGHTS:
            raise InvalidArgument(f"rights: {right!r} is none of {', '.join(RIGHTS)}", field="rights")
        bits |= RIGHTS[right]
    if not bits:
        raise InvalidArgument("rights: name at least one", field="rights")
    first, last = (text.encode() if isinstance(text, str) else text for text in range_bounds(start, end, prefix))
    return struct.pack("<BHH", bits, len(first), len(last)) + first + last


class Auth(Generic[Done]):
    """Users, roles and rights of a cluster. Each verb returns the revision, or what awaits it.

    Raises PermissionDenied without the right "admin", CommandRefused for a name that does not exist or a limit.
    """

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[Request[Revision], float | None], Done]) -> None:
        self._ask = ask

    def _change(self, verb: int, name: bytes, data: bytes, timeout_s: float | None) -> Done:
        return self._ask(change_rights(verb, name, data), timeout_s)

    def enable(self, *, timeout_s: float | None = 5.0) -> Done:
        """Ask every client for its rights from now on. Bind an admin first: only nodes are admins by themselves."""
        return self._change(numbers.RIGHTS_ENABLE, b"", b"", timeout_s)

    def disable(self, *, timeout_s: float | None = 5.0) -> Done:
        """Ask nobody any more. Users and roles stay."""
        return self._change(numbers.RIGHTS_DISABLE, b"", b"", timeout_s)

    def put_user(
        self, name: str, password: str | None = None, *, one_time: bool = False, timeout_s: float | None = 5.0
    ) -> Done:
        """Add a user, or give it another password; its roles stay. A client that proved the old one must prove anew.

        password: only its salted verifier leaves this call. None: the user has none.
        one_time: the user may do nothing but put_user with its own name, which sets another password.
        """
        from raftmeta.bindings.scram import secret_of  # loads hashlib, and with it OpenSSL

        secret = secret_of(password, one_time=one_time)
        return self._change(numbers.RIGHTS_USER_PUT, _name(name, "name"), secret, timeout_s)

    def remove_user(self, name: str, *, timeout_s: float | None = 5.0) -> Done:
        """Forget a user. Its sessions and leases belong to nobody, also if a user of that name comes again."""
        return self._change(numbers.RIGHTS_USER_REMOVE, _name(name, "name"), b"", timeout_s)

    def put_role(self, name: str, *, timeout_s: float | None = 5.0) -> Done:
        """Add a role without rights, if there is none of that name."""
        return self._change(numbers.RIGHTS_ROLE_PUT, _name(name, "name"), b"", timeout_s)

    def remove_role(self, name: str, *, timeout_s: float | None = 5.0) -> Done:
        """Forget a role; users lose what it granted."""
        return self._change(numbers.RIGHTS_ROLE_REMOVE, _name(name, "name"), b"", timeout_s)

    def grant(
        self,
        role: str,
        *rights: str,
        start: Key = b"",
        end: Key = b"",
        prefix: Key | None = None,
        timeout_s: float | None = 5.0,
    ) -> Done:
        """Give a role rights over [start, end) or a prefix; without either over all keys.

        rights: "read", "write", "watch", "lease"; "member", "snapshot" and "admin" only over all keys.
        """
        data = _grant(rights, start, end, prefix)
        return self._change(numbers.RIGHTS_GRANT, _name(role, "role"), data, timeout_s)

    def revoke(
        self,
        role: str,
        *rights: str,
        start: Key = b"",
        end: Key = b"",
        prefix: Key | None = None,
        timeout_s: float | None = 5.0,
    ) -> Done:
        """Take rights from what was granted over exactly this range; grants over other ranges stay."""
        data = _grant(rights, start, end, prefix)
        return self._change(numbers.RIGHTS_REVOKE, _name(role, "role"), data, timeout_s)

    def bind(self, user: str, role: str, *, timeout_s: float | None = 5.0) -> Done:
        """Give a user a role."""
        return self._change(numbers.RIGHTS_BIND, _name(user, "user"), _name(role, "role"), timeout_s)

    def unbind(self, user: str, role: str, *, timeout_s: float | None = 5.0) -> Done:
        """Take a role from a user."""
        return self._change(numbers.RIGHTS_UNBIND, _name(user, "user"), _name(role, "role"), timeout_s)
