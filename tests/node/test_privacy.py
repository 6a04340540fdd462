"""What a node keeps on the disk is its own user's: no other user of the machine can read a byte of it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
import raftmeta.snapshot
from tests.node.nodes import one_node

NOBODY = 65534
SMALL = {"segment_bytes": 1 << 16, "snapshot_log_bytes": 1 << 16, "reserve_bytes": 1 << 16, "local_clients": True}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user of the machine can list: nothing above the node's files protects them."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def readable_for_others(paths: list[Path]) -> list[str]:
    """Those that another user can open, as a process of that user finds out. Who may not become one looks at modes."""
    if os.geteuid() != 0:
        return [path.name for path in paths if path.lstat().st_mode & 0o077]
    into, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        for path in paths:
            try:
                if stat.S_ISSOCK(path.lstat().st_mode):
                    opened = os.access(path, os.W_OK)
                else:
                    os.close(os.open(path, os.O_RDONLY))
                    opened = True
            except OSError:
                opened = False
            if opened:
                os.write(out, path.name.encode() + b"\n")
        os._exit(0)
    os.close(out)
    with os.fdopen(into) as told:
        names = told.read().split()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return names


def fill(node: raftmeta.Node) -> None:
    """Until there is one of each kind of file."""
    for i in range(2000):
        node.put(f"k{i % 10}", bytes(3000))
        if node.metrics()["snapshots_taken"] > 2:
            break
    raftmeta.snapshot.save(node, Path(node.identity.data_dir).parent / "backup")


def test_another_user_can_read_no_file_of_a_node(folder: Path) -> None:
    """In a folder that was there, with the rights that mkdir gives, as one that a service manager made."""
    (folder / "a").mkdir(mode=0o755)
    (folder / "a").chmod(0o755)
    (folder / "readable").write_bytes(b"")
    (folder / "readable").chmod(0o644)
    with one_node(folder, **SMALL) as node:
        fill(node)
        paths = files_of(folder)
        kinds = {path.suffix or path.name for path in paths}
        assert {".log", ".sealed", ".mdb", "identity", "lock", "mark", "reserve", "backup", ".sock"} <= kinds
        assert readable_for_others(paths) == ["readable"]  # so the look itself finds what can be read
    assert readable_for_others(files_of(folder)) == ["readable"]
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o755  # whoever made it chose that


def test_a_start_takes_from_others_what_a_copy_gave_them(folder: Path) -> None:
    """`cp -r`, or an older version. Files that are not a node's keep their rights."""
    with one_node(folder, **SMALL) as node:
        fill(node)
    (folder / "a" / "notes.txt").write_bytes(b"")
    for path in (folder / "a").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "a").chmod(0o755)
    assert len(readable_for_others(files_of(folder / "a"))) > 5
    with one_node(folder, **SMALL):
        assert readable_for_others(files_of(folder / "a")) == ["notes.txt"]


def test_a_folder_that_a_node_makes_is_closed_to_others(folder: Path) -> None:
    with one_node(folder):
        assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o700
