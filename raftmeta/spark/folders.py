"""Output folders that several runs add to: one driver at a time, and every visible file is whole.

A folder belongs to the pipeline that made it: its settings file says which, and another one is refused. A driver holds
the lock of the folder for as long as it works there; the lock ends with its process, also by kill -9. A file is
written beside its place, synced, and renamed.

It decides who may write, and when a file is there. It never looks into a file but the settings.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raftmeta.errors import ConfigError

__all__ = ["exchanged", "expect_ours", "opened", "read_json", "write_json", "write_table", "written"]

HALF_WRITTEN = ".half"  # the end of the name of a file that is not there yet


@contextlib.contextmanager
def opened(folder: Path, settings_file: str, *, what: str) -> Iterator[None]:
    """Be the only driver in this folder for the length of the block; make the folder if there is none.

    settings_file: the file that marks folders of this pipeline. what: the pipeline's name, for errors. Raises
    ConfigError when another driver works there, or when the folder holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is no folder")
    # The lock is made first, and stays: what a driver left that died before its settings were whole is its own, too.
    lock_file = folder / f".{what}.lock"
    is_ours = (folder / settings_file).exists() or lock_file.exists()
    if folder.is_dir() and not is_ours and any(folder.iterdir()):
        raise ConfigError(f"{folder}: holds something that no {what} wrote; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{folder}: another {what} works there; wait for its end, or name another folder"
            ) from None
        for left in folder.rglob(f"*{HALF_WRITTEN}"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield


def expect_ours(folder: Path, marker: str, *, what: str) -> None:
    """Raises ConfigError unless the folder may be exchanged: it is not there, empty, or has the file `marker`."""
    if folder.exists() and not (folder / marker).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: holds something that no {what} wrote; name another folder or remove it")


@contextlib.contextmanager
def exchanged(folder: Path) -> Iterator[Path]:
    """A place to write a whole folder; at the end of the block it is at `folder`, in place of an older one.

    Two drivers that end at once take turns: the later one's folder stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh, held = _half_folder(folder)
    try:
        yield fresh
        with _locked(folder.parent):
            old = fresh.with_suffix(".old")
            if folder.exists():
                folder.rename(old)
            fresh.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        os.close(held)
        shutil.rmtree(fresh, ignore_errors=True)


def _half_folder(folder: Path) -> tuple[Path, int]:
    """A new folder beside `folder`, and the descriptor that keeps it locked as long as this process lives.

    Between its making and its lock the new folder looks like one that a killed driver left. So the parent stays locked
    until both are done, and no other driver sweeps meanwhile.
    """
    with _locked(folder.parent):
        for left in folder.parent.glob(f".{folder.name}.*{HALF_WRITTEN}"):
            _remove_if_left(left)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=HALF_WRITTEN, dir=folder.parent))
        fresh.chmod(0o755)  # as mkdir makes it; mkdtemp's is for its owner alone
        held = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(held, fcntl.LOCK_EX)
        return fresh, held


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only driver that changes the entries of this folder, for the length of the block."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _remove_if_left(half: Path) -> None:
    """Remove the unfinished folder of a killed driver; a living driver holds its lock."""
    with contextlib.suppress(OSError):
        held = os.open(half, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(half, ignore_errors=True)
        finally:
            os.close(held)


@contextlib.contextmanager
def written(path: Path) -> Iterator[Path]:
    """A place to write a file; at the end of the block it is at path, whole and synced, in place of an older one."""
    half = path.with_name(path.name + HALF_WRITTEN)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield half
        with half.open("rb") as file:
            os.fsync(file.fileno())
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    """Facts for programs and people."""
    with written(path) as half:
        half.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """The facts that write_json wrote. Raises ConfigError that names the file, for a missing or wrong one."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(facts, dict):
        raise ConfigError(f"{path}: holds no JSON object")
    return facts


def write_table(path: Path, table: Any) -> None:
    """A table of Arrow as one file of Parquet."""
    import pyarrow.parquet as pq

    with written(path) as half:
        pq.write_table(table, half, compression="zstd")
