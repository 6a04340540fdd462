"""Folders for the time of a pipeline, removed at its end. The next driver removes those of a driver that was killed.

Each holds a lock for as long as its process lives. It decides when a folder is nobody's. It never looks into one.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["scratch_folder"]

PREFIX = "raftmeta-"
LOCK = ".lock"
UNLOCKED_S = 3600.0  # a folder without its lock is being made; one that old never will be


@contextlib.contextmanager
def scratch_folder(what: str, *, within: str | Path | None = None) -> Iterator[Path]:
    """A new folder, gone at the end of the block. what: a part of its name. within: None: the temporary folder.

    Before that, it removes folders of the same name whose process has ended.
    """
    parent = Path(tempfile.gettempdir() if within is None else within)
    for left in parent.glob(f"{PREFIX}{what}-*"):
        _remove_if_left(left)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{what}-", dir=parent))
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    try:
        with (folder / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > UNLOCKED_S:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # its process lives, or it is somebody else's
