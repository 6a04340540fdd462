"""release/translate.py: the same C++ as Cython's own way, and errors that are told."""

from __future__ import annotations

import filecmp
import subprocess
import sys
from pathlib import Path

from tests.lint.sources import ROOT

# Modules of Python's level and native ones; headers with inline functions, structs, C++ classes and verbatim C++.
COMPARED = ("raftmeta.engine.applier", "raftmeta.face.mailbox", "raftmeta.server.members")

PROGRAM = """
import sys
from Cython.Build import Dependencies
from setuptools import Extension
from release import translate
own = sys.argv[1] == "own"
made = [Extension(name, [name.replace(".", "/") + ".pyx"], language="c++") for name in sys.argv[3:]]
how = {"include_path": ["."], "build_dir": sys.argv[2], "force": True, "compiler_directives": {"language_level": 3}}
if own:
    Dependencies.cythonize(made, nthreads=0, **how)
else:
    translate.cythonize(made, at_once=2, **how)
"""


def run(way: str, folder: Path, target: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, because Cython keeps what it knows of a folder; and a child of pytest is no child."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}"
    command = [sys.executable, "-c", program, way, str(target), *names]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


def test_the_same_code_as_by_cython_itself(tmp_path: Path) -> None:
    """Init: three modules. Act: both ways. Check: byte for byte the same files."""
    for way in ("own", "once"):
        ended = run(way, ROOT, tmp_path / way, *COMPARED)
        assert ended.returncode == 0, ended.stderr
    files = [f"{name.replace('.', '/')}.cpp" for name in COMPARED]
    same, differ, missing = filecmp.cmpfiles(tmp_path / "own", tmp_path / "once", files, shallow=False)
    assert (same, differ, missing) == (files, [], [])


def test_a_module_with_an_error_does_not_stop_the_others(tmp_path: Path) -> None:
    """Init: a good and a bad module. Act: translate. Check: the bad one's line is told, the good one is made."""
    (tmp_path / "good.pyx").write_text("cdef int one() noexcept nogil:\n    return 1\n")
    (tmp_path / "bad.pyx").write_text("cdef int two() noexcept nogil:\n    return unknown_name\n")
    ended = run("once", tmp_path, tmp_path / "made", "bad", "good")
    assert ended.returncode == 1
    assert "Cython found errors in bad.pyx" in ended.stderr
    assert "bad.pyx:2:11: undeclared name not builtin: unknown_name" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "one(void)" in (tmp_path / "made" / "good.cpp").read_text()


def test_an_error_in_a_header_is_told_once(tmp_path: Path) -> None:
    """Init: two modules below one bad header. Act: translate. Check: its line, once, and no module is made."""
    (tmp_path / "shape.pxd").write_text("cdef struct Shape:\n    unknown_type width\n")
    for name in ("first", "second"):
        (tmp_path / f"{name}.pyx").write_text("from shape cimport Shape\n")
    ended = run("once", tmp_path, tmp_path / "made", "first", "second")
    assert ended.returncode == 1
    assert ended.stderr.count("shape.pxd:2:4: 'unknown_type' is not a type identifier") == 1
    assert not (tmp_path / "made" / "first.cpp").exists()
