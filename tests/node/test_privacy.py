"""A node's folder is its own user's: no other user of the machine can read a byte of it, or have written one."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import raftmeta
import raftmeta.snapshot
from tests.lint.sources import PACKAGE, source_files, without_strings
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


# --- a folder that others may write ---------------------------------------------------------------------------------


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make a file another user's; who may not give files away becomes another user than its owner instead."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
        return NOBODY
    owner = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    return owner


def as_nobody(action: Callable[[], object]) -> str:
    """The name of the error that an action ends with in a process of another user; "" if it ends well.

    Who may not become another user has no such process: then every action ends well.
    """
    if os.geteuid() != 0:
        return ""
    into, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            action()
        except BaseException as error:
            os.write(out, type(error).__name__.encode())
        os._exit(0)
    os.close(out)
    with os.fdopen(into) as told:
        name = told.read()
    os.waitpid(child, 0)
    return name


@pytest.fixture
def stopped(folder: Path) -> Path:
    """The folder of a node that has a file of each kind, and has ended. The folder above belongs to the same user."""
    with one_node(folder, **SMALL) as node:
        fill(node)
    (folder / "backup").unlink()
    return folder / "a"


def states(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Rights, owner, time of the last change and content of all that is in a folder, and the folder itself."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        seen = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_mtime_ns, content)
    return found


def refusal(folder: Path) -> str:
    """Why no node starts there; a start that is refused leaves everything as it was."""
    before = states(folder)
    with pytest.raises(raftmeta.ConfigError) as caught, one_node(folder.parent, **SMALL):
        pass
    assert caught.value.field == "data_dir"
    assert states(folder) == before
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_refused(stopped: Path, mode: int) -> None:
    """Of the group or of all: they can put a log of their own in the place of this node's."""
    stopped.chmod(mode)
    told = refusal(stopped)
    assert str(stopped) in told and "chmod" in told and f"{mode:04o}" in told
    stopped.chmod(0o755)
    with one_node(stopped.parent, **SMALL) as node:
        assert node.get("k1") is not None


def test_another_user_writes_what_the_start_refuses_and_nothing_else(stopped: Path) -> None:
    """The right is real: a process of that user makes a file in the folder, and cannot once the mode is right."""
    stopped.chmod(0o757)
    assert as_nobody(lambda: (stopped / "foreign").touch()) == ""
    refusal(stopped)
    (stopped / "foreign").unlink(missing_ok=True)
    stopped.chmod(0o755)
    denied = "PermissionError" if os.geteuid() == 0 else ""
    assert as_nobody(lambda: (stopped / "foreign").touch()) == denied
    with one_node(stopped.parent, **SMALL):
        for path in files_of(stopped):
            if not path.is_socket():
                assert as_nobody(lambda path=path: path.open("r+b")) == denied, path  # type: ignore[misc]
        assert as_nobody(lambda: (stopped / "identity").rename(stopped / "mine")) == denied
    (stopped / "foreign").unlink(missing_ok=True)


NODE_FILES = ("identity", "lock", "mark", "reserve", "*.log", "*.sealed", "checkpoint", "checkpoint/data.mdb")


@pytest.mark.parametrize("name", NODE_FILES)
def test_a_file_that_others_may_write_is_refused(stopped: Path, name: str) -> None:
    """One file is enough, and nobody takes the right back silently: somebody may have used it."""
    path = next(stopped.glob(name))
    path.chmod(path.stat().st_mode | 0o020)
    told = refusal(stopped)
    assert str(path) in told


@pytest.mark.parametrize("name", [".", *NODE_FILES])
def test_what_belongs_to_another_user_is_refused(stopped: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may write it, whatever its mode is."""
    owner = give_away(next(stopped.glob(name)) if name != "." else stopped, monkeypatch)
    told = refusal(stopped)
    assert str(stopped) in told and f"the user {owner}" in told


@pytest.mark.parametrize("name", NODE_FILES)
def test_a_symbolic_link_is_refused(stopped: Path, name: str) -> None:
    """A user who could make it once would let the node write anywhere. The file behind it stays as it is."""
    path = next(stopped.glob(name))
    elsewhere = stopped.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = states(elsewhere)
    told = refusal(stopped)
    assert str(path) in told and "symbolic link" in told
    assert states(elsewhere) == before


def test_files_of_others_beside_a_nodes_are_not_looked_at(stopped: Path) -> None:
    """A note, a link of the operator's: no node opens them."""
    (stopped / "notes.txt").write_bytes(b"")
    (stopped / "notes.txt").chmod(0o666)
    (stopped / "latest").symlink_to("notes.txt")
    with one_node(stopped.parent, **SMALL) as node:
        assert node.get("k1") is not None


def test_a_folder_may_be_named_by_a_link(stopped: Path) -> None:
    """An operator moved it to another disk: the rights of the folder itself count."""
    stopped.rename(stopped.parent / "moved")
    stopped.symlink_to(stopped.parent / "moved")
    with one_node(stopped.parent, **SMALL) as node:
        assert node.get("k1") is not None
    (stopped.parent / "moved").chmod(0o777)
    with pytest.raises(raftmeta.ConfigError, match="other users may write"), one_node(stopped.parent, **SMALL):
        pass


def test_salvage_follows_no_link(stopped: Path) -> None:
    """`snapshot.save` of a folder: the linked file is passed over and told, and the rest is saved."""
    secret = stopped.parent / "secret"
    path = next(stopped.glob("*.log"))
    path.rename(secret)
    path.symlink_to(secret)
    saved = raftmeta.snapshot.save([stopped], stopped.parent / "saved")
    assert any("symbolic link" in problem for folder in saved.folders for problem in folder.problems)


def test_every_native_open_follows_no_link() -> None:
    """Each call that opens a file by its name names O_NOFOLLOW, or opens a folder. Flags come from a variable once."""
    calls = []
    for path in source_files(".pyx", below=PACKAGE):
        text = without_strings(path.read_text())
        calls += re.findall(r"^(?!.*\bint \w*open).*\b(?:openat|posix_open)\((.*)$", text, re.MULTILINE)
    assert len(calls) >= 5
    assert [call for call in calls if not re.search(r"O_NOFOLLOW|O_DIRECTORY|\bflags\b", call)] == []
    assert "cdef int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW" in (PACKAGE / "storage" / "disk.pyx").read_text()
