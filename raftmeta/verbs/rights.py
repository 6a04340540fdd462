"""The verbs of rights: users, roles and what they may do. `store.auth` has them, blocking or not as the store is.

It decides what the arguments come to. The cluster decides who may change rights (docs/decisions/rights.md).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request, change_rights, range_bounds
from raftmeta.common import numbers
from raftmeta.errors import CompareFailed, InvalidArgument, NotReady
from raftmeta.operations import Key
from raftmeta.results import Grant, RightsStatus, Role, User

__all__ = ["AioAuth", "Auth", "BlockingAuth", "check_level"]

Done = TypeVar("Done")

NAME_BYTES_MAX = 64
LEVEL_OF_RIGHTS = 3  # machine/state
TOKEN_TTL_S_MAX = 7 * 86400  # machine/rights_state FORMAT_TOKEN_TTL_MS_MAX
SEED_BYTES = 32  # machine/rights_state
PAGE_SELF, PAGE_USERS, PAGE_ROLES = 0, 1, 2  # machine/rights_show
SHOWN_ONE_TIME, SHOWN_PASSWORD = 1, 2
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
    if not isinstance(name, str) or not 1 <= len(raw := name.encode()) <= NAME_BYTES_MAX or raw[0] == 0:
        raise InvalidArgument(
            f"{field}: must be a text of 1 to {NAME_BYTES_MAX} bytes that begins with no NUL", field=field
        )
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


# --- what the store shows ---------------------------------------------------------------------------------------------
def _names_of(bits: int) -> tuple[str, ...]:
    return tuple(name for name, bit in RIGHTS.items() if bits & bit)


def _user_of(values: Iterator[Any]) -> User:
    flags = next(values)
    roles = tuple(next(values).decode(errors="replace") for _ in range(next(values)))
    tokens = tuple(next(values) for _ in range(next(values)))
    return User("", roles, bool(flags & SHOWN_PASSWORD), bool(flags & SHOWN_ONE_TIME), tokens)


def _users_of(values: list[Any]) -> list[User]:
    users, rest = [], iter(values)
    for name in rest:
        user = _user_of(rest)
        users.append(User(name.decode(errors="replace"), user.roles, user.has_password, user.is_one_time, user.tokens))
    return users


def _grants_of(values: Iterator[Any]) -> tuple[Grant, ...]:
    return tuple(Grant(_names_of(next(values)), next(values), next(values)) for _ in range(next(values)))


def _roles_of(values: list[Any]) -> list[Role]:
    rest = iter(values)
    return [Role(name.decode(errors="replace"), _grants_of(rest)) for name in rest]


def _only(found: list[Any], name: str) -> Any:
    return found[0] if found and found[0].name == name else None


def _status_of(values: list[Any]) -> RightsStatus:
    is_enabled, user, _ = values[0]
    return RightsStatus(is_enabled, user.decode(errors="replace"))


def _token_asked(ttl_s: float) -> tuple[str, bytes]:
    """A new token, and what the cluster is told of it."""
    from raftmeta.bindings.scram import new_token

    is_number = isinstance(ttl_s, int | float) and not isinstance(ttl_s, bool)
    if not is_number or not 1 <= ttl_s <= TOKEN_TTL_S_MAX:
        raise InvalidArgument(f"ttl_s: must be from 1 to {TOKEN_TTL_S_MAX} seconds, not {ttl_s!r}", field="ttl_s")
    id, text, secret = new_token()
    return text, struct.pack("<QQ", id, round(ttl_s * 1000)) + secret


def _founding(renew: bool) -> tuple[str, int, bytes]:
    from raftmeta.bindings.scram import new_founding_token

    text, secret = new_founding_token()
    verb = numbers.RIGHTS_FOUND_AGAIN if renew else numbers.RIGHTS_FOUND
    return text, verb, secret + os.urandom(SEED_BYTES)


class Auth(Generic[Done]):
    """Users, roles and rights of a cluster. Each verb returns the revision, or what awaits it.

    Raises PermissionDenied without the right "admin", CommandRefused for a name that does not exist or a limit.
    """

    __slots__ = ("_ask", "_page")

    def __init__(
        self,
        ask: Callable[[Request[Revision], float | None], Done],
        page: Callable[[int, bytes, int, float | None], Any],
    ) -> None:
        self._ask = ask
        self._page = page

    def _change(self, verb: int, name: bytes, data: bytes, timeout_s: float | None) -> Done:
        return self._ask(change_rights(verb, name, data), timeout_s)

    def enable(self, *, timeout_s: float | None = 5.0) -> Done:
        """Ask every client for its rights from now on. Bind an admin first: only nodes are admins by themselves."""
        return self._change(numbers.RIGHTS_ENABLE, b"", os.urandom(SEED_BYTES), timeout_s)

    def disable(self, *, timeout_s: float | None = 5.0) -> Done:
        """Ask nobody any more. Users and roles stay."""
        return self._change(numbers.RIGHTS_DISABLE, b"", b"", timeout_s)

    def put_user(
        self, name: str, password: str | None = None, *, one_time: bool = False, timeout_s: float | None = 5.0
    ) -> Done:
        """Add a user, or give it another password; its roles stay. A client that proved the old one must prove anew.

        password: only its salted verifier leaves this call. None: the user has none, and proves itself by a certificate
            only.
        one_time: the user may do nothing but put_user with its own name, which sets another password.
        """
        from raftmeta.bindings.scram import secret_of  # loads hashlib, and with it OpenSSL

        secret = secret_of(password, one_time=one_time)
        return self._change(numbers.RIGHTS_USER_PUT, _name(name, "name"), secret, timeout_s)

    def claim(self, name: str, password: str | None = None, *, timeout_s: float | None = 5.0) -> Done:
        """Become the first admin: for a client with the token of `founding_token`, which counts once.

        It makes the user if there is none, binds it to the role "admin" with the right "admin", turns rights on, and
        ends the token. password: as in put_user.
        """
        from raftmeta.bindings.scram import secret_of

        return self._change(numbers.RIGHTS_CLAIM, _name(name, "name"), secret_of(password), timeout_s)

    def revoke_token(self, token: str | int, *, timeout_s: float | None = 5.0) -> Done:
        """End a token, given as such or by its id (User.tokens). A user ends its own, an admin any, a token itself."""
        from raftmeta.bindings.scram import token_id

        id = token if isinstance(token, int) else token_id(token)
        if not 0 < id < 1 << 64:
            raise InvalidArgument("token: an id is from 1 to 2^64 - 1", field="token")
        return self._change(numbers.RIGHTS_TOKEN_REMOVE, b"", struct.pack("<Q", id), timeout_s)

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

    @staticmethod
    def _last_name(page: int, values: list[Any]) -> bytes:
        last, rest = b"", iter(values)
        for name in rest:
            last = name
            if page == PAGE_USERS:
                _user_of(rest)
            else:
                _grants_of(rest)
        return last


class BlockingAuth(Auth[Revision]):
    """Rights of a store whose callers block."""

    __slots__ = ()

    def _pages(self, page: int, name: bytes, limit: int, timeout_s: float | None) -> list[Any]:
        """All items from this name on, or `limit` of them, as values one after another."""
        items: list[Any] = []
        while True:
            values = self._page(page, name, limit, timeout_s)
            items += values[1:]
            if not values[0][2] or limit:
                return items
            name = self._last_name(page, values[1:]) + b"\0"

    def status(self, *, timeout_s: float | None = 5.0) -> RightsStatus:
        """Whether rights are on, and who this client is to the cluster. Raises AuthenticationFailed: it is nobody."""
        return _status_of(self._page(PAGE_SELF, b"", 0, timeout_s))

    def users(self, *, timeout_s: float | None = 5.0) -> list[User]:
        """All users by name. Raises PermissionDenied without the right "admin"."""
        return _users_of(self._pages(PAGE_USERS, b"", 0, timeout_s))

    def roles(self, *, timeout_s: float | None = 5.0) -> list[Role]:
        """All roles by name. Raises PermissionDenied without the right "admin"."""
        return _roles_of(self._pages(PAGE_ROLES, b"", 0, timeout_s))

    def user(self, name: str, *, timeout_s: float | None = 5.0) -> User | None:
        """One user; None: there is none. Raises PermissionDenied for another than one's own without "admin"."""
        found: User | None = _only(_users_of(self._pages(PAGE_USERS, _name(name, "name"), 1, timeout_s)), name)
        return found

    def role(self, name: str, *, timeout_s: float | None = 5.0) -> Role | None:
        """One role; None: there is none. Raises PermissionDenied for one that the user has not, without "admin"."""
        found: Role | None = _only(_roles_of(self._pages(PAGE_ROLES, _name(name, "name"), 1, timeout_s)), name)
        return found

    def token(self, ttl_s: float, *, user: str | None = None, timeout_s: float | None = 5.0) -> str:
        """A token with which a program may speak for a user: Client(url, token=...). Only this call returns it.

        ttl_s: from 1 s to seven days on the cluster's lease clock; nothing makes it longer. It ends earlier by
        revoke_token, with the user, and when the user gets another password. A token has the rights of the user, but
        changes no rights: it makes no other token and sets no password.
        user: None for the client's own, a node has none; another than one's own needs the right "admin".
        Raises CommandRefused: the user does not exist, or has 64 tokens. OutcomeUnknown: nobody has the token; it ends
        by itself.
        """
        text, asked = _token_asked(ttl_s)
        name = b"" if user is None else _name(user, "user")
        self._change(numbers.RIGHTS_TOKEN_PUT, name, asked, timeout_s)
        return text

    def founding_token(self, *, renew: bool = False, timeout_s: float | None = 5.0) -> str | None:
        """For a node: turn rights on in a cluster that never had any, and return the one-time token of the first admin.

        A client with the token makes the admin by `claim`. None: rights were configured before, nothing was changed.
        renew: make a token in any case, in the place of an earlier one; rights stay on or off.
        """
        text, verb, data = _founding(renew)
        try:
            self._change(verb, b"", data, timeout_s)
        except CompareFailed:
            return None
        return text


class AioAuth(Auth[Coroutine[Any, Any, Revision]]):
    """Rights of a store as coroutines."""

    __slots__ = ()

    async def _pages(self, page: int, name: bytes, limit: int, timeout_s: float | None) -> list[Any]:
        """All items from this name on, or `limit` of them, as values one after another."""
        items: list[Any] = []
        while True:
            values = await self._page(page, name, limit, timeout_s)
            items += values[1:]
            if not values[0][2] or limit:
                return items
            name = self._last_name(page, values[1:]) + b"\0"

    async def status(self, *, timeout_s: float | None = 5.0) -> RightsStatus:
        """Whether rights are on, and who this client is to the cluster. Raises AuthenticationFailed: it is nobody."""
        return _status_of(await self._page(PAGE_SELF, b"", 0, timeout_s))

    async def users(self, *, timeout_s: float | None = 5.0) -> list[User]:
        """All users by name. Raises PermissionDenied without the right "admin"."""
        return _users_of(await self._pages(PAGE_USERS, b"", 0, timeout_s))

    async def roles(self, *, timeout_s: float | None = 5.0) -> list[Role]:
        """All roles by name. Raises PermissionDenied without the right "admin"."""
        return _roles_of(await self._pages(PAGE_ROLES, b"", 0, timeout_s))

    async def user(self, name: str, *, timeout_s: float | None = 5.0) -> User | None:
        """One user; None: there is none. Raises PermissionDenied for another than one's own without "admin"."""
        found: User | None = _only(_users_of(await self._pages(PAGE_USERS, _name(name, "name"), 1, timeout_s)), name)
        return found

    async def role(self, name: str, *, timeout_s: float | None = 5.0) -> Role | None:
        """One role; None: there is none. Raises PermissionDenied for one that the user has not, without "admin"."""
        found: Role | None = _only(_roles_of(await self._pages(PAGE_ROLES, _name(name, "name"), 1, timeout_s)), name)
        return found

    async def token(self, ttl_s: float, *, user: str | None = None, timeout_s: float | None = 5.0) -> str:
        """A token with which a program may speak for a user: Client(url, token=...). Only this call returns it.

        ttl_s: from 1 s to seven days on the cluster's lease clock; nothing makes it longer. It ends earlier by
        revoke_token, with the user, and when the user gets another password. A token has the rights of the user, but
        changes no rights: it makes no other token and sets no password.
        user: None for the client's own, a node has none; another than one's own needs the right "admin".
        Raises CommandRefused: the user does not exist, or has 64 tokens. OutcomeUnknown: nobody has the token; it ends
        by itself.
        """
        text, asked = _token_asked(ttl_s)
        name = b"" if user is None else _name(user, "user")
        await self._change(numbers.RIGHTS_TOKEN_PUT, name, asked, timeout_s)
        return text

    async def founding_token(self, *, renew: bool = False, timeout_s: float | None = 5.0) -> str | None:
        """For a node: turn rights on in a cluster that never had any, and return the one-time token of the first admin.

        A client with the token makes the admin by `claim`. None: rights were configured before, nothing was changed.
        renew: make a token in any case, in the place of an earlier one; rights stay on or off.
        """
        text, verb, data = _founding(renew)
        try:
            await self._change(verb, b"", data, timeout_s)
        except CompareFailed:
            return None
        return text
