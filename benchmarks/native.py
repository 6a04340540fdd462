"""The native parts of the benchmarks, compiled by the benchmarks themselves into build/benchmarks/native.

They are no part of the package: the limit's program, its asyncio face, and the generator that loads a node without
Python. Each is built again when its sources, or a header of raftmeta, changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "benchmarks" / "native"
HEADERS = [ROOT, ROOT / "raftmeta" / "native", ROOT / "benchmarks" / "limit"]
FLAGS = ["-O3", "-g", "-std=c++17", "-fno-strict-aliasing", "-pthread"]  # as setup.py


class BuildFailed(Exception):
    """The compiler's own words."""


def program(source: str) -> Path:
    """The executable of a .cpp file of this folder."""
    path = ROOT / "benchmarks" / source
    built = _place_for(path, "")
    if not built.exists():
        _replace(built, lambda new: _run([*_compiler(), *_include(), str(path), "-o", str(new)]))
    return built


def extension(source: str) -> ModuleType:
    """The module of a .pyx file of this folder, imported."""
    path = ROOT / "benchmarks" / source
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    built = _place_for(path, suffix)
    if not built.exists():
        translated = built.with_suffix(".cpp")
        _run([sys.executable, "-m", "cython", "-3", "--cplus", "-I", str(ROOT), str(path), "-o", str(translated)])
        include = [*_include(), f"-I{sysconfig.get_path('include')}"]
        shared = [*_compiler(), "-shared", "-fPIC", "-Wno-cpp", *include, str(translated)]
        _replace(built, lambda new: _run([*shared, "-o", str(new)]))
    name = path.stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, built)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _place_for(path: Path, suffix: str) -> Path:
    """A name that says from what it was built, in a folder of its own, as a module must have its own file name."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    sources = [path, *sorted(path.parent.glob("*.hpp"))]
    if suffix:
        sources += sorted((ROOT / "raftmeta").rglob("*.pxd")) + sorted((ROOT / "raftmeta").rglob("*.hpp"))
    for source in sources:
        digest.update(source.read_bytes())
    folder = BUILT / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{path.stem}{suffix}"


def _compiler() -> list[str]:
    return [*shlex.split(os.environ.get("CXX", "c++")), *FLAGS]


def _include() -> list[str]:
    return [f"-I{folder}" for folder in HEADERS]


def _replace(built: Path, make: Callable[[Path], None]) -> None:
    """Make the file under another name first: a build that is cut short leaves nothing that looks finished."""
    new = built.with_name(built.name + ".new")
    make(new)
    new.replace(built)


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode != 0:
        raise BuildFailed(f"{shlex.join(command)}\n{ended.stderr[-4000:]}")
