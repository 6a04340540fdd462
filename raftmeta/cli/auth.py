"""raftmeta auth: users, roles and rights, by the verbs of `client.auth` (docs/security.md "Rights")."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Mapping

import click

import raftmeta
from raftmeta.cli.passwords import ask_password, read_password
from raftmeta.cli.session import Session, fates, pass_session

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
    """Tell whether rights are on, as the node asked knows it, and prove to be the user of --user, if there is one."""
    with fates(), session.client_of(session.url, is_user=False) as nobody:
        try:
            nobody.status(timeout_s=session.timeout_s)
            is_on = False
        except raftmeta.AuthenticationFailed:
            is_on = True
    if session.user is not None:
        with session.client() as client:
            client.status(timeout_s=session.timeout_s)
    proved = f"; you are {session.user}" if session.user is not None else ""
    session.show({"enabled": is_on, "user": session.user}, f"rights are {'on' if is_on else 'off'}{proved}")


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
