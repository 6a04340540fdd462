"""A node's folder is its own user's: nobody else reads its files, and nobody else can have written them.

It decides which names in a folder are a node's, and whether a folder may be started in. It never touches a file with
another name, nor the mode of the folder itself: a user who made the folder chose that.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from raftmeta.errors import ConfigError

__all__ = [
    "FILE_MODE",
    "FOLDER_MODE",
    "OPEN_NO_LINK",
    "check_no_link",
    "check_unshared",
    "keep_files_private",
    "keep_private",
]

FOLDER_MODE = 0o700
FILE_MODE = 0o600
OPEN_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
WRITABLE_BY_OTHERS = 0o022

_OURS = re.compile(
    r"identity|identity\.tmp|skipped|skipped\.tmp|lock|mark|spare|reserve|flight\.ring|clients\.sock"
    r"|[0-9a-f]{16}\.(?:log|retired|sealed|sealed\.tmp|received)"
)
_CHECKPOINT = "checkpoint"
_CHECKPOINT_FILES = ("data.mdb", "lock.mdb")


def keep_private(path: Path, mode: int) -> None:
    """An older version or a copy may have made it readable for others. Another user's file is left as it is."""
    if path.stat().st_mode & 0o077:
        with suppress(PermissionError):
            path.chmod(mode)


def keep_files_private(folder: Path) -> None:
    """All that a node has in its folder, which is locked. A file that goes meanwhile needs nothing more."""
    with os.scandir(folder) as entries:
        ours = [entry for entry in entries if not entry.is_symlink()]
    for entry in ours:
        with suppress(FileNotFoundError):
            if entry.name == _CHECKPOINT and entry.is_dir():
                keep_private(Path(entry.path), FOLDER_MODE)
            elif _OURS.fullmatch(entry.name) and not entry.is_dir():
                keep_private(Path(entry.path), FILE_MODE)


# --- whether a node may start there ---------------------------------------------------------------------------------


def check_unshared(folder: Path) -> None:
    """Refuse a folder that another user may write, and one with such a file or a symbolic link among a node's files.

    Nothing is changed. A folder that is not there, or cannot be looked at, is left to whoever opens it. The folder may
    be named by a link; only who may write the folder counts. Names that are not a node's are not looked at. Raises
    ConfigError.
    """
    try:
        found = folder.stat()
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode):
        return
    _check_mode(folder, found)
    for path in _files_of(folder):
        with suppress(FileNotFoundError):
            check_no_link(path)
            _check_mode(path, path.lstat())


def check_no_link(path: Path) -> None:
    """Refuse a symbolic link: a file that a node opens is in the node's own folder. Raises ConfigError."""
    if path.is_symlink():
        raise ConfigError(
            f"data_dir: {path} is a symbolic link: put the file itself there, or name the folder that it is in",
            field="data_dir",
        )


def _files_of(folder: Path) -> Iterator[Path]:
    """All that a node opens in its folder."""
    for name in os.listdir(folder):
        if _OURS.fullmatch(name):
            yield folder / name
        elif name == _CHECKPOINT:
            yield folder / name
            for file in _CHECKPOINT_FILES:
                if os.path.lexists(folder / name / file):
                    yield folder / name / file


def _check_mode(path: Path, found: os.stat_result) -> None:
    """A socket's rights say who may connect; a start makes it anew."""
    if stat.S_ISSOCK(found.st_mode):
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"data_dir: {path} belongs to the user {found.st_uid}, who may write it: run the node as that user, or "
            f"give it to this one (chown -R {os.geteuid()})",
            field="data_dir",
        )
    if found.st_mode & WRITABLE_BY_OTHERS:
        raise ConfigError(
            f"data_dir: other users may write {path} (mode {stat.S_IMODE(found.st_mode):04o}): make sure that nobody "
            "has, then take the right away (chmod -R go-w)",
            field="data_dir",
        )
