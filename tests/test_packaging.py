"""The sdist and the wheel: complete, clean, and at work in an environment that knows nothing of this checkout.

The modules are not compiled again: the objects of the checkout are laid beside the unpacked sdist, whose sources are
shown to be the same, so that only packaging is tested here. ./build.sh tests the compiling itself.
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.lint.sources import ROOT, module_name, source_files

SOURCE_SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".hpp")
DEPENDENCIES = ("lmdb", "msgpack")
# These import what comes with an extra: cli, pki, prometheus, pysyncobj, spark. pytest brings its own plug-in.
NEED_AN_EXTRA = (
    "raftmeta.backends.pysyncobj",
    "raftmeta.cli.",
    "raftmeta.prometheus",
    "raftmeta.security.pki",
    "raftmeta.testing.plugin",
)
NEED_SPARK = tuple(
    f"raftmeta.spark.{name}"
    for name in (
        "churn_report",
        "churn_rows",
        "findings",
        "gathering",
        "lake_answers",
        "lake_place",
        "lake_rows",
        "observations",
        "page",
        "report",
        "source",
        "tables",
        "times",
        "writer",
    )
)


def build(hook: str, source: Path, into: Path) -> Path:
    """Run one hook of the build backend in a process of its own, as pip would; return the file it made."""
    into.mkdir()
    program = f"import setuptools.build_meta as backend; backend.{hook}({str(into)!r})"
    ended = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of a copy of the tracked sources, so that what a build left in the checkout cannot leak into it."""
    folder = tmp_path_factory.mktemp("sdist")
    built = shutil.ignore_patterns("*.so", "*.cpp", "__pycache__", "*.egg-info")
    copy = folder / "copy"
    for name in ("raftmeta", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=built)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, copy)
    return build("build_sdist", copy, folder / "made")


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(folder)], check=True)
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel made from the unpacked sdist and the objects of the checkout."""
    objects = unpacked / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for made in compiled_files():
        target = (objects if made.suffix == ".so" else unpacked) / made.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(made, target)
    return build("build_wheel", unpacked, tmp_path_factory.mktemp("wheel") / "made")


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and its two dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for name in DEPENDENCIES:
        for file in metadata.distribution(name).files or ():
            target = packages / file
            if packages in target.resolve().parents:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), target)
    return folder / "bin" / "python"


def compiled_files() -> Iterator[Path]:
    for source in source_files(".pyx"):
        yield source.with_suffix(".cpp")
        yield from source.parent.glob(f"{source.stem}.*.so")


def run(python: Path, program: str, folder: Path) -> str:
    ended = subprocess.run([str(python), "-I", "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_the_sdist_has_every_source_and_nothing_built(unpacked: Path) -> None:
    """What the checkout has below raftmeta/ is in the sdist byte by byte; C++ and objects are not."""
    expected = {path.relative_to(ROOT) for path in source_files(*SOURCE_SUFFIXES)} | {Path("raftmeta/py.typed")}
    found = {path.relative_to(unpacked) for path in (unpacked / "raftmeta").rglob("*") if path.is_file()}
    built = {path.relative_to(ROOT) for path in compiled_files()}
    assert found - built == expected
    assert all(filecmp.cmp(ROOT / path, unpacked / path, shallow=False) for path in expected)


def test_the_sdist_carries_what_a_packager_needs(unpacked: Path) -> None:
    """Licence, first page, history, versions, the script and the tests."""
    for name in (
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "constraints.txt",
        "build.sh",
        "setup.py",
        "tests/conftest.py",
    ):
        assert (unpacked / name).is_file(), name


def test_the_wheel_has_modules_stubs_and_headers_only(wheel: Path) -> None:
    """Compiled modules, Python, stubs and headers of one package, and its metadata; no C++, no test, no .pyx."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"raftmeta"}
    suffixes = {Path(name).suffix for name in names if name.startswith("raftmeta/")}
    assert suffixes == {".hpp", ".pxd", ".py", ".pyi", ".so", ".typed"}
    compiled = {name.split(".")[0] for name in names if name.endswith(".so")}
    assert compiled == {module_name(path).replace(".", "/") for path in source_files(".pyx")}
    headers = {str(path.relative_to(ROOT)) for path in source_files(".pxd", ".pyi", ".hpp")}
    assert headers <= set(names)


def test_the_wheel_carries_no_symbols(wheel: Path) -> None:
    """Half of the bytes of a checkout's modules are for debuggers."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                assert b".symtab" not in archive.read(name), name


def test_the_wheel_imports_in_a_clean_environment(clean_python: Path, tmp_path: Path) -> None:
    """Every module of the wheel loads there, from there."""
    modules = [
        name
        for path in source_files(".py", ".pyx")
        if path.stem != "__main__" and not (name := module_name(path)).startswith(NEED_AN_EXTRA + NEED_SPARK)
    ]
    program = f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\nimport raftmeta\n"
    shown = run(clean_python, program + "print(raftmeta.__file__)", tmp_path)
    assert Path(shown).is_relative_to(clean_python.parents[1])


def test_the_metadata_tells_version_licence_and_needs(clean_python: Path, tmp_path: Path) -> None:
    """What `pip show` would say."""
    program = (
        "from importlib.metadata import metadata as m; d = m('raftmeta');"
        "print(d['Version'], d['License-Expression'], d['Requires-Python'],"
        "sorted(r for r in d.get_all('Requires-Dist') if 'extra' not in r))"
    )
    assert run(clean_python, program, tmp_path) == "0.1.0 Apache-2.0 >=3.11 ['lmdb>=1.4', 'msgpack>=1.0']"


def test_build_script_installs_only_pinned_versions() -> None:
    """Each distribution of the environment that runs the tests stands in constraints.txt with its version."""
    pinned = {line.lower() for line in (ROOT / "constraints.txt").read_text().split("\n") if "==" in line}
    for wanted in (metadata.distribution("raftmeta").requires or []) + ["pip", "setuptools"]:
        name = wanted.split(";")[0].split("=")[0].split("<")[0].split(">")[0].split("[")[0].strip()
        if name != "raftmeta":
            version = metadata.version(name)
            spellings = {f"{name}=={version}".lower(), f"{name.replace('-', '_')}=={version}".lower()}
            assert spellings & pinned, f"{name}=={version}"
