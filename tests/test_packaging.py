"""The sdist and the wheel: complete, clean, and at work in an environment that knows nothing of this checkout.

The modules are not compiled again: the objects of the checkout are laid beside the unpacked sdist, whose sources are
shown to be the same, so that only packaging is tested here. ./build.sh tests the compiling itself.
"""

from __future__ import annotations

import base64
import filecmp
import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from release import sbom, wheels
from tests.lint.sources import ROOT, module_name, source_files

PAGE_SUFFIXES = (".css", ".html", ".js", ".svg")  # of the dashboard
SOURCE_SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".hpp", *PAGE_SUFFIXES)
DEPENDENCIES = ("lmdb", "msgpack")
INSTALLED_BYTES_MAX = 17_000_000
# These import what comes with an extra of pyproject.toml. pytest brings its own plug-in.
NEED_AN_EXTRA = (
    "raftmeta.metastore.zookeeper",
    "raftmeta.backends.cassandra",
    "raftmeta.backends.pysyncobj",
    "raftmeta.backends.zookeeper",
    "raftmeta.migrate.live",
    "raftmeta.cli.",
    "raftmeta.dashboard",
    "raftmeta.prometheus",
    "raftmeta.rest",
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
    for name in ("raftmeta", "tests", "docs", "release"):
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
        "tests/fuzz/driver.cc",
        "tests/fuzz/corpus/sealed",
        "release/wheels.py",
    ):
        assert (unpacked / name).exists(), name


def test_the_wheel_has_modules_stubs_and_headers_only(wheel: Path) -> None:
    """Compiled modules, Python, stubs, headers, a page, and the metadata of one package; no C++, no test, no .pyx."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"raftmeta"}
    suffixes = {Path(name).suffix for name in names if name.startswith("raftmeta/")}
    assert suffixes == {".hpp", ".pxd", ".py", ".pyi", ".so", ".typed", *PAGE_SUFFIXES}
    compiled = {name.split(".")[0] for name in names if name.endswith(".so")}
    assert compiled == {module_name(path).replace(".", "/") for path in source_files(".pyx")}
    others = {str(path.relative_to(ROOT)) for path in source_files(".pxd", ".pyi", ".hpp", *PAGE_SUFFIXES)}
    assert others <= set(names)


def test_the_wheel_carries_no_symbols(wheel: Path) -> None:
    """Half of the bytes of a checkout's modules are for debuggers."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                assert b".symtab" not in archive.read(name), name


def test_the_wheel_is_small(wheel: Path) -> None:
    """It would take twice as much if its symbols came along, and takes 16.6 MB with three doors and observers."""
    with zipfile.ZipFile(wheel) as archive:
        assert sum(file.file_size for file in archive.infolist()) < INSTALLED_BYTES_MAX


def test_the_package_loads_no_event_loop_and_no_tls(clean_python: Path, tmp_path: Path) -> None:
    """A program that only blocks does without."""
    program = "import sys, raftmeta; raftmeta.Node; print([m for m in ('asyncio', 'ssl', '_ssl') if m in sys.modules])"
    assert run(clean_python, program, tmp_path) == "[]"


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


# --- the bill of materials --------------------------------------------------------------------------------------------


@pytest.fixture
def with_bill(wheel: Path, tmp_path: Path) -> Path:
    """A copy of the wheel with a library that a repair put in, and its bill of materials."""
    copy = Path(shutil.copy2(wheel, tmp_path))
    with zipfile.ZipFile(copy, "a") as archive:
        archive.writestr("raftmeta.libs/libcrypto-0a1b2c3d.so.3", b"a library")
    sbom.add(copy)
    return copy


def bill_in(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/" + sbom.PLACE))
        found: dict[str, Any] = json.loads(archive.read(name))
    return found


def test_the_bill_names_what_a_wheel_needs_and_carries(with_bill: Path) -> None:
    """CycloneDX: itself, the two dependencies in the pinned versions, the optional ones, the library with its hash."""
    bill = bill_in(with_bill)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"], own["licenses"]) == ("raftmeta", "0.1.0", [{"expression": "Apache-2.0"}])
    required = {one["name"]: one for one in bill["components"] if one["scope"] == "required"}
    assert set(required) == {*DEPENDENCIES, "libcrypto-0a1b2c3d.so.3"}
    for name in DEPENDENCIES:
        assert required[name]["version"] == metadata.version(name)
        assert required[name]["licenses"]
    hashed = {"alg": "SHA-256", "content": hashlib.sha256(b"a library").hexdigest()}
    assert required["libcrypto-0a1b2c3d.so.3"]["hashes"] == [hashed]
    scopes = {one["name"]: one["scope"] for one in bill["components"]}
    assert (scopes["click"], scopes["cryptography"], scopes["cython"]) == ("optional", "optional", "excluded")
    assert not {"pytest", "ruff", "auditwheel"} & scopes.keys()  # those are not for users
    references = [own["bom-ref"], *(one["bom-ref"] for one in bill["components"])]
    assert len(references) == len(set(references))
    assert {one["ref"] for one in bill["dependencies"]} == set(references)
    assert set(bill["dependencies"][0]["dependsOn"]) == {one["bom-ref"] for one in required.values()}


def test_a_library_is_called_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash that a repair puts into its name is taken off first."""
    asked = []

    def answer(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        found = "libssl3:amd64: /usr/lib/libcrypto.so.3\n" if "--search" in command else "3.0.22-1"
        return subprocess.CompletedProcess(command, 0, found, "")

    monkeypatch.setattr(sbom.subprocess, "run", answer)
    assert sbom.owner_of("libcrypto-0a1b2c3d.so.3") == ("libssl3", "3.0.22-1")
    assert asked[0][-1] == "*/libcrypto.so.3"


def test_a_wheel_with_a_bill_is_whole(with_bill: Path) -> None:
    """RECORD has each file with its hash; the file beside is the one inside; a second time changes nothing."""
    beside = with_bill.with_name(f"{with_bill.name}.cdx.json")
    with zipfile.ZipFile(with_bill) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        lines = [line.rsplit(",", 2) for line in archive.read(record).decode().splitlines()]
        listed = {name: (digest, size) for name, digest, size in lines}
        assert len(listed) == len(lines)
        bill = record.removesuffix("RECORD") + sbom.PLACE
        assert archive.read(bill) == beside.read_bytes()
        assert {record, bill} <= listed.keys()
        for name, (digest, size) in listed.items():
            if name != record:
                content = archive.read(name)
                hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (digest, int(size)) == (f"sha256={hashed}", len(content)), name
    before = (with_bill.read_bytes(), beside.read_bytes())
    sbom.add(with_bill)
    assert (with_bill.read_bytes(), beside.read_bytes()) == before


# --- interpreters -----------------------------------------------------------------------------------------------------


def test_an_interpreter_is_taken_only_if_it_can_build(tmp_path: Path) -> None:
    """One that fails, one that is none, and the one that runs this test."""
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    assert wheels.version_of(broken) is None
    assert wheels.version_of(tmp_path / "none") is None
    assert wheels.version_of(Path(sys.executable)) == ".".join(map(str, sys.version_info[:2]))


def test_the_newest_of_pyenv_comes_behind_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for release in ("3.12.1", "3.12.10", "3.12.9", "3.13.0"):
        folder = tmp_path / "versions" / release / "bin"
        folder.mkdir(parents=True)
        (folder / f"python{release.rpartition('.')[0]}").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.12").touch()
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = [path.relative_to(tmp_path).parts[-3:-1] for path in wheels.candidates("3.12")]
    assert [parts[0] for parts in found[1:]] == ["3.12.10", "3.12.9", "3.12.1"]
    assert found[0][-1] == "bin"
