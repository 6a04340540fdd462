"""raftmeta auth: users, roles and rights, by the verbs of `client.auth` (docs/security.md "Rights")."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import click

import raftmeta
from raftmeta.cli.passwords import ask_password, read_password
from raftmeta.cli.session import NO, Session, fail, fates, pass_session, text_of
from raftmeta.operations import prefix_end
from raftmeta.results import Grant, Role, User

ROLE_OF_ADMINS = "admin"
TOKEN_BYTES = 24  # of a one-time password, before base64

_name = click.argument("name")
_user = click.argument("user")
_role = click.argument("role")
_rights = click.argument("rights", nargs=-1, required=True)


Keys = tuple[dict[str, bytes], str]
"""Arguments of `grant` and `revoke`, and the keys in words."""


def _ranges(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the keys that its options name, as `keys`; without any of them all keys are meant."""

    @functools.wraps(command)
    def with_keys(
        *arguments: object,
        prefix: str | None,
        key: str | None,
        start: str | None,
        end: str | None,
        **options: object,
    ) -> None:
        command(*arguments, keys=_bounds(prefix, key, start, end), **options)

    decorated: Callable[..., None] = with_keys
    for option in (
        click.option("--end", help="Keys before this one; empty: to the last key."),
        click.option("--start", help="Keys from this one on."),
        click.option("--key", help="This key alone."),
        click.option("--prefix", help="Keys that begin with this."),
    ):
        decorated = option(decorated)
    return decorated


def _bounds(prefix: str | None, key: str | None, start: str | None, end: str | None) -> Keys:
    if sum((prefix is not None, key is not None, start is not None or end is not None)) > 1:
        raise click.UsageError("--prefix, --key and --start with --end exclude each other")
    if prefix is not None:
        return {"prefix": prefix.encode()}, f"keys that begin with {prefix}"
    if key is not None:
        return {"start": key.encode(), "end": key.encode() + b"\0"}, f"the key {key}"
    if start or end:
        first, last = start or "the first key", end or "behind the last key"
        return {"start": (start or "").encode(), "end": (end or "").encode()}, f"keys from {first} to {last}"
    return {}, "all keys"


def _tell(session: Session, revision: raftmeta.Revision, facts: Mapping[str, object], text: str) -> None:
    session.show({**facts, "revision": revision.revision}, text)


@click.group()
def auth() -> None:
    """Users, roles and rights: who may do what with which keys.

    While rights are off, everybody may do everything, also with these commands. While they are on, each of these
    commands needs the right "admin". You may safely repeat each of them.
    """


@auth.command()
@pass_session
def enable(session: Session) -> None:
    """Ask every client for its rights from now on. The user of --user becomes an admin first.

    It gets the role `admin`, which is made and granted the right "admin", so that somebody can change rights later.
    """
    if session.user is None:
        raise click.UsageError("name the admin with --user: without an admin no client could change rights any more")
    with session.client() as client:
        client.auth.put_role(ROLE_OF_ADMINS, timeout_s=session.timeout_s)
        client.auth.grant(ROLE_OF_ADMINS, "admin", timeout_s=session.timeout_s)
        client.auth.bind(session.user, ROLE_OF_ADMINS, timeout_s=session.timeout_s)
        revision = client.auth.enable(timeout_s=session.timeout_s)
        _tell(session, revision, {"enabled": True, "admin": session.user}, f"rights are on; {session.user} is an admin")


@auth.command()
@pass_session
def disable(session: Session) -> None:
    """Ask nobody any more: everybody may do everything. Users and roles stay."""
    with session.client() as client:
        revision = client.auth.disable(timeout_s=session.timeout_s)
        _tell(session, revision, {"enabled": False}, "rights are off: everybody may do everything")


@auth.command()
@pass_session
def status(session: Session) -> None:
    """Tell whether rights are on, and who you are: by --user, by --token-file or by your certificate."""
    is_somebody = session.user is not None or session.token is not None
    with fates(), session.client_of(session.url) as client:
        try:
            found = client.auth.status(timeout_s=session.timeout_s)
            is_on, user = found.is_enabled, found.user or None
        except raftmeta.AuthenticationFailed:
            if is_somebody:
                raise
            is_on, user = True, None
    proved = f"; you are {user}" if user is not None else ""
    session.show({"enabled": is_on, "user": user}, f"rights are {'on' if is_on else 'off'}{proved}")


@auth.command()
@click.argument("name")
@click.option("--new-password-file", metavar="FILE", help="Its password, in the first line; without it a prompt.")
@click.option("--no-password", is_flag=True, help="The admin proves itself by a certificate only.")
@pass_session
def claim(session: Session, name: str, new_password_file: str | None, no_password: bool) -> None:
    """Make NAME the first admin, with the one-time token that the founding printed, in --token-file.

    It turns rights on, and the token counts no more.
    """
    if no_password and new_password_file:
        raise click.UsageError("--no-password excludes --new-password-file")
    if session.token is None:
        raise click.UsageError("name the file of the token with --token-file, before the command")
    password: str | None = None
    if new_password_file is not None:
        password = read_password(new_password_file, "--new-password-file")
    elif not no_password:
        password = ask_password(f"New password of {name}", other="--new-password-file", is_new=True)
    with session.client() as client:
        revision = client.auth.claim(name, password, timeout_s=session.timeout_s)
        _tell(session, revision, {"enabled": True, "admin": name}, f"rights are on; {name} is an admin")


# --- tokens -----------------------------------------------------------------------------------------------------------
@auth.group()
def token() -> None:
    """Short-lived tokens for programs that should not hold a password: new, revoke."""


@token.command("new")
@click.option("--ttl", "ttl_s", type=click.FloatRange(1, 604800), default=3600.0, show_default=True, help="Seconds.")
@click.option("--for", "user", metavar="NAME", help="For this user; without it for your own. Needs the right admin.")
@pass_session
def new_token(session: Session, ttl_s: float, user: str | None) -> None:
    """Print a token that speaks for a user until its time is over, and nothing else.

    Keep it in a file for --token-file. It ends earlier by `auth token revoke`, with the user, and when the user gets
    another password.
    """
    with session.client() as client:
        text = client.auth.token(ttl_s, user=user, timeout_s=session.timeout_s)
        session.show({"token": text, "ttl_s": ttl_s}, text)


@token.command("revoke")
@click.argument("id", required=False)
@pass_session
def revoke_token(session: Session, id: str | None) -> None:
    """End the token with this ID (16 hex digits, see `auth show`), or the one in --token-file."""
    if id is not None:
        which: str | int = _number(id)
    elif session.token is not None:
        which = session.token()
    else:
        raise click.UsageError("name the token by its ID, or with --token-file before the command")
    with session.client() as client:
        revision = client.auth.revoke_token(which, timeout_s=session.timeout_s)
        _tell(session, revision, {"revoked": id}, f"revoked the token {id}" if id is not None else "revoked the token")


def _number(id: str) -> int:
    try:
        return int(id, 16)
    except ValueError:
        raise click.UsageError("ID: 1 to 16 hex digits") from None


# --- what there is ----------------------------------------------------------------------------------------------------
@auth.command()
@click.option("--user", "of_user", metavar="NAME", help="Only this user; your own needs no right.")
@click.option("--role", "of_role", metavar="NAME", help="Only this role; one of your own needs no right.")
@pass_session
def show(session: Session, of_user: str | None, of_role: str | None) -> None:
    """Show users with their roles and tokens, and roles with their grants. Needs the right "admin"."""
    is_all = of_user is None and of_role is None
    users: list[User] = []
    roles: list[Role] = []
    with session.client() as client:
        if is_all:
            users, roles = (
                client.auth.users(timeout_s=session.timeout_s),
                client.auth.roles(timeout_s=session.timeout_s),
            )
        if of_user is not None:
            users += _found(client.auth.user(of_user, timeout_s=session.timeout_s), f"user {of_user}")
        if of_role is not None:
            roles += _found(client.auth.role(of_role, timeout_s=session.timeout_s), f"role {of_role}")
    lines = [_user_line(one) for one in users] + [line for one in roles for line in _role_lines(one)]
    session.show({"users": users, "roles": roles}, "\n".join(lines))


def _found(one: Any, what: str) -> list[Any]:
    if one is None:
        fail(f"there is no {what}", NO)
    return [one]


def _user_line(one: User) -> str:
    proof = "one-time password" if one.is_one_time else "password" if one.has_password else "no password"
    roles = f"; roles {', '.join(one.roles)}" if one.roles else ""
    tokens = f"; tokens {', '.join(f'{id:x}' for id in one.tokens)}" if one.tokens else ""
    return f"user {one.name}: {proof}{roles}{tokens}"


def _role_lines(one: Role) -> list[str]:
    if not one.grants:
        return [f"role {one.name}: no grants"]
    return [f"role {one.name}: {', '.join(grant.rights)} over {_keys_of(grant)}" for grant in one.grants]


def _keys_of(grant: Grant) -> str:
    if not grant.start and not grant.end:
        return "all keys"
    if grant.end == grant.start + b"\0":
        return f"the key {text_of(grant.start)}"
    if grant.end and grant.end == prefix_end(grant.start):
        return f"keys that begin with {text_of(grant.start)}"
    first = text_of(grant.start) if grant.start else "the first key"
    last = text_of(grant.end) if grant.end else "behind the last key"
    return f"keys from {first} to {last}"


# --- users ------------------------------------------------------------------------------------------------------------
@auth.group()
def user() -> None:
    """Users: put, remove, bind, unbind."""


@user.command("put")
@_name
@click.option("--new-password-file", metavar="FILE", help="The new password, in its first line; without it a prompt.")
@click.option(
    "--one-time", is_flag=True, help="The password can do nothing but set another; without a file it is drawn."
)
@click.option("--no-password", is_flag=True, help="Nobody can prove to be this user until it gets a password.")
@pass_session
def put_user(session: Session, name: str, new_password_file: str | None, one_time: bool, no_password: bool) -> None:
    """Add the user NAME, or give it another password; its roles stay.

    A user may do this with its own name without any right. With --one-time the command prints a password for the user
    NAME, who then sets one of its own.
    """
    if no_password and (one_time or new_password_file):
        raise click.UsageError("--no-password excludes --one-time and --new-password-file")
    is_drawn = one_time and new_password_file is None
    password: str | None = None
    if is_drawn:
        password = secrets.token_urlsafe(TOKEN_BYTES)
    elif new_password_file is not None:
        password = read_password(new_password_file, "--new-password-file")
    elif not no_password:
        password = ask_password(f"New password of {name}", other="--new-password-file", is_new=True)
    with session.client() as client:
        revision = client.auth.put_user(name, password, one_time=one_time, timeout_s=session.timeout_s)
        facts = {"put": name, **({"one_time_password": password} if is_drawn else {})}
        _tell(session, revision, facts, str(password) if is_drawn else f"put the user {name}")


@user.command("remove")
@_name
@pass_session
def remove_user(session: Session, name: str) -> None:
    """Forget the user NAME. A later user of that name gets nothing of it, not even its leases."""
    with session.client() as client:
        revision = client.auth.remove_user(name, timeout_s=session.timeout_s)
        _tell(session, revision, {"removed": name}, f"removed the user {name}")


@user.command()
@_user
@_role
@pass_session
def bind(session: Session, user: str, role: str) -> None:
    """Give USER the role ROLE."""
    with session.client() as client:
        revision = client.auth.bind(user, role, timeout_s=session.timeout_s)
        _tell(session, revision, {"bound": user, "role": role}, f"{user} has the role {role}")


@user.command()
@_user
@_role
@pass_session
def unbind(session: Session, user: str, role: str) -> None:
    """Take the role ROLE from USER."""
    with session.client() as client:
        revision = client.auth.unbind(user, role, timeout_s=session.timeout_s)
        _tell(session, revision, {"unbound": user, "role": role}, f"{user} does not have the role {role} any more")


# --- roles ------------------------------------------------------------------------------------------------------------
@auth.group()
def role() -> None:
    """Roles: put, remove, grant, revoke."""


@role.command("put")
@_name
@pass_session
def put_role(session: Session, name: str) -> None:
    """Add the role NAME without rights, if there is none of that name."""
    with session.client() as client:
        revision = client.auth.put_role(name, timeout_s=session.timeout_s)
        _tell(session, revision, {"put": name}, f"put the role {name}")


@role.command("remove")
@_name
@pass_session
def remove_role(session: Session, name: str) -> None:
    """Forget the role NAME. Its users lose the rights that it granted."""
    with session.client() as client:
        revision = client.auth.remove_role(name, timeout_s=session.timeout_s)
        _tell(session, revision, {"removed": name}, f"removed the role {name}")


@role.command()
@_role
@_rights
@_ranges
@pass_session
def grant(session: Session, role: str, rights: tuple[str, ...], keys: Keys) -> None:
    """Give ROLE the RIGHTS over the keys named, or over all keys.

    Rights: read, write, watch, lease; member, snapshot and admin go over all keys only.
    """
    bounds, words = keys
    with session.client() as client:
        revision = client.auth.grant(role, *rights, **bounds, timeout_s=session.timeout_s)
        _tell(session, revision, {"role": role, "granted": rights}, f"{role}: granted {', '.join(rights)} over {words}")


@role.command()
@_role
@_rights
@_ranges
@pass_session
def revoke(session: Session, role: str, rights: tuple[str, ...], keys: Keys) -> None:
    """Take the RIGHTS from what ROLE was granted over exactly these keys. Grants over other ranges stay."""
    bounds, words = keys
    with session.client() as client:
        revision = client.auth.revoke(role, *rights, **bounds, timeout_s=session.timeout_s)
        _tell(session, revision, {"role": role, "revoked": rights}, f"{role}: revoked {', '.join(rights)} over {words}")


COMMANDS = (auth,)
