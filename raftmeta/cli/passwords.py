"""Passwords for the command line: from a file, from the environment or from a prompt, never from an argument.

Every process of the machine can see the arguments of a command, and the shell's history keeps them.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import click

from raftmeta.cli.session import WRONG_USE, fail

VARIABLE = "RAFTMETA_PASSWORD"
OTHERS = stat.S_IRWXO | stat.S_IWGRP  # as for a key file of encryption


def password_of(user: str | None, path: str | None, given: str | None) -> Callable[[], str] | None:
    """The way to the password of `user`, asked once and when a command needs it. None: no user was named.

    path: a file that has it. given: the value of the environment variable. Neither: a prompt.
    """
    if user is None:
        if path is not None:
            fail("--password-file goes with --user", WRONG_USE)
        return None
    if path is not None:
        return functools.cache(functools.partial(read_password, path, "--password-file"))
    if given:
        return lambda: given
    other = f"--password-file or {VARIABLE}"
    return functools.cache(functools.partial(ask_password, f"Password of {user}", other=other))


def token_of(path: str | None, user: str | None) -> Callable[[], str] | None:
    """The way to the token in this file, read when a command needs it. None: no file was named."""
    if path is None:
        return None
    if user is not None:
        fail("--token-file stands in the place of --user", WRONG_USE)
    return functools.cache(functools.partial(read_password, path, "--token-file"))


def read_password(path: str, option: str) -> str:
    """The first line of the file, which users outside its group cannot read."""
    try:
        with Path(path).open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & OTHERS:
                fail(f"{option}: {path}: others can read this file, or its group can write it: chmod 600", WRONG_USE)
            text = file.read().split(b"\n", 1)[0].decode()
    except OSError as error:
        fail(f"{option}: {path}: {error.strerror}", WRONG_USE)
    except UnicodeDecodeError:
        fail(f"{option}: {path}: not a text in UTF-8", WRONG_USE)
    if not text:
        fail(f"{option}: {path}: the first line is empty", WRONG_USE)
    return text


def ask_password(prompt: str, *, other: str, is_new: bool = False) -> str:
    """Ask at the terminal, twice for a new password.

    other: the option that gives the password where no terminal is.
    """
    if not sys.stdin.isatty():
        fail(f"no terminal to ask for a password: use {other}", WRONG_USE)
    answer: str = click.prompt(prompt, hide_input=True, confirmation_prompt=is_new, err=True)
    return answer
