"""Files of a node are for its own user only, whoever made the folder and however its files came there.

It decides which names in a folder are a node's. It never touches a file with another name, nor the mode of the folder
itself: a user who made the folder chose that.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

__all__ = ["FILE_MODE", "FOLDER_MODE", "keep_files_private", "keep_private"]

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_OURS = re.compile(
    r"identity|identity\.tmp|lock|mark|spare|reserve|clients\.sock"
    r"|[0-9a-f]{16}\.(?:log|retired|sealed|sealed\.tmp|received)"
)
_CHECKPOINT = "checkpoint"


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
