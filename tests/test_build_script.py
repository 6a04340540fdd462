"""build.sh on machines that lack something: what it installs, what it prints, how it ends."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint.sources import ROOT

APT_LINE = (
    "apt-get update && DEBIAN_FRONTEND=noninteractive "
    "apt-get install -y --no-install-recommends g++ python3-venv python3-dev libssl-dev libnghttp2-dev ca-certificates"
)
PLAIN_COMMANDS = ["bash", "cat", "date", "dirname", "sed", "sha256sum"]


class Machine:
    """A folder with build.sh and a PATH that holds only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.bin = folder / "bin"
        self.checkout.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "build.sh", self.checkout)
        self.add_real(*PLAIN_COMMANDS)

    def add_real(self, *names: str) -> None:
        for name in names:
            found = shutil.which(name)
            assert found is not None
            (self.bin / name).symlink_to(found)

    def add(self, name: str, script: str) -> None:
        self._write(self.bin / name, script)

    def add_package(self, name: str, script: str) -> None:
        """A program of .venv. All packages that build.sh asks for count as installed."""
        self._write(self.checkout / ".venv" / "bin" / name, script)
        for file in ("constraints.txt", "pyproject.toml", "setup.py", ".venv/pyvenv.cfg"):
            (self.checkout / file).touch()

    def _write(self, path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.checkout / "build.sh"), *arguments],
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("missing", ["compiler", "python", "its headers", "headers of OpenSSL"])
def test_without_the_right_to_install_the_line_is_printed(machine: Machine, missing: str) -> None:
    """Not root and something missing: exactly the line to run on standard output, and exit code 2."""
    machine.add("id", "echo 1000")
    if missing != "compiler":
        machine.add("g++", "exit 0" if missing != "headers of OpenSSL" else "exit 1")
    if missing in ("compiler", "headers of OpenSSL"):
        machine.add("python3", f'exec {sys.executable} "$@"')
    if missing == "its headers":
        # build.sh asks the interpreter by one script on standard input; an unfit one answers with failure.
        machine.add("python3", "cat >/dev/null; exit 1")
    ended = machine.run("test")
    assert (ended.returncode, ended.stdout) == (2, APT_LINE + "\n")
    assert not (machine.checkout / ".venv").exists()


def test_root_installs_by_apt_and_looks_again(machine: Machine, tmp_path: Path) -> None:
    """As root the line is run, non-interactively; when that did not help, the script says so and fails."""
    calls = tmp_path / "calls"
    machine.add("id", "echo 0")
    machine.add("apt-get", f'echo "$DEBIAN_FRONTEND: $*" >>{calls}')
    ended = machine.run("build")
    assert calls.read_text().splitlines() == [
        ": update",
        "noninteractive: install -y --no-install-recommends g++ python3-venv python3-dev libssl-dev libnghttp2-dev"
        " ca-certificates",
    ]
    assert ended.returncode == 1
    assert "still no Python" in ended.stderr


def test_python_comes_from_apt_when_there_was_none(machine: Machine, tmp_path: Path) -> None:
    """What apt brought is found on the second look, and a virtual environment is asked of it."""
    machine.add("id", "echo 0")
    asked = tmp_path / "asked"
    fake = (
        f'case $1 in -) cat >/dev/null; echo $0;; --version) echo Python 3.11;; *) echo "$*" >>{asked}; exit 7;; esac'
    )
    (tmp_path / "python3").write_text(f"#!/bin/bash\n{fake}\n")
    machine.add(
        "apt-get",
        f"cd {machine.bin}; "
        f'if [ $1 = install ]; then while read -r l; do echo "$l"; done <{tmp_path}/python3 >python3; '
        f'echo "#!/bin/bash" >g++; {shutil.which("chmod")} +x python3 g++; fi',
    )
    ended = machine.run("build")
    assert ended.returncode == 7
    assert asked.read_text() == "-m venv .venv\n"


@pytest.mark.parametrize("user", ["0", "1000"])
def test_java_comes_before_the_tests_that_need_it(machine: Machine, tmp_path: Path, user: str) -> None:
    """Everything is there but Java: root gets it by apt, anybody else is told the line. Tests run afterwards only."""
    calls = tmp_path / "calls"
    for name in ("find", "mkdir", "touch", "g++"):
        machine.add(name, "exit 0")
    machine.add("id", f"echo {user}")
    machine.add("apt-get", f'echo "$*" >>{calls}')
    machine.add_package("python", f'[ "$1 $2" != "-m pytest" ] || echo tests >>{calls}')
    (machine.checkout / "build").mkdir()
    ended = machine.run("test")
    if user == "0":
        install = "install -y --no-install-recommends openjdk-17-jre-headless"
        assert calls.read_text().splitlines() == ["update", install, "tests"]
    else:
        assert (ended.returncode, ended.stdout) == (2, APT_LINE.rpartition(" g++")[0] + " openjdk-17-jre-headless\n")
        assert not calls.exists()


@pytest.mark.parametrize("user", ["0", "1000"])
def test_clang_comes_before_the_fuzzers_that_need_it(machine: Machine, tmp_path: Path, user: str) -> None:
    """Everything is there but clang: root gets it by apt, anybody else is told the line."""
    calls = tmp_path / "calls"
    for name in ("mkdir", "rm", "tar", "uname"):
        machine.add(name, "exit 0")
    machine.add("id", f"echo {user}")
    machine.add("apt-get", f'echo "$*" >>{calls}')
    machine.add_package("python", "exit 0")
    ended = machine.run("fuzz")
    assert ended.returncode != 0
    if user == "0":
        install = "install -y --no-install-recommends clang libclang-rt-dev"
        assert calls.read_text().splitlines() == ["update", install]
    else:
        assert (ended.returncode, ended.stdout) == (2, APT_LINE.rpartition(" g++")[0] + " clang libclang-rt-dev\n")
        assert not calls.exists()


@pytest.mark.parametrize("user", ["0", "1000"])
def test_openssl_comes_before_the_build_of_an_older_checkout(machine: Machine, tmp_path: Path, user: str) -> None:
    """Only its headers are missing, beside a .venv: root gets them by apt, anybody else is told the line."""
    calls = tmp_path / "calls"
    for name in ("find", "mkdir", "touch"):
        machine.add(name, "exit 0")
    machine.add("id", f"echo {user}")
    machine.add("g++", f"[ -e {calls} ]")
    machine.add("apt-get", f'echo "$*" >>{calls}')
    machine.add_package("python", f'[ "$1" != setup.py ] || echo built >>{calls}')
    (machine.checkout / "build").mkdir()
    ended = machine.run("build")
    if user == "0":
        install = APT_LINE.partition("apt-get install ")[2]
        assert calls.read_text().splitlines() == ["update", f"install {install}", "built"]
    else:
        assert (ended.returncode, ended.stdout) == (2, APT_LINE + "\n")
        assert not calls.exists()


@pytest.mark.parametrize("failing", ["", "ruff", "mypy", "cython-lint", "pytest"])
@pytest.mark.parametrize("options", [(), ("--tools",)])
def test_a_tool_that_finds_something_fails_the_check(
    machine: Machine, tmp_path: Path, failing: str, options: tuple[str, ...]
) -> None:
    """And its words are shown. With --tools no test runs, so none can fail."""
    calls = tmp_path / "calls"
    for name in ("find", "touch", "g++"):
        machine.add(name, "exit 0")
    machine.add_real("mkdir", "nproc", "sort", "xargs")
    said = f'if [ "$called" = "{failing}" ]; then echo "{failing} found it"; exit 1; fi'
    for name in ("ruff", "mypy", "cython-lint", "python"):
        called = '[ "$2" = pytest ] || exit 0; called=pytest' if name == "python" else f"called={name}"
        machine.add_package(name, f'{called}\necho "$called" >>{calls}\n{said}')
    ended = machine.run("check", *options)
    has_tests = not options
    assert ended.returncode == int(bool(failing) and (has_tests or failing != "pytest")), ended.stderr
    assert (f"{failing} found it" in ended.stdout) == (ended.returncode != 0)
    ran = set(calls.read_text().split())
    if failing != "ruff":
        assert ran >= {"ruff", "mypy", "cython-lint"}
    assert ("pytest" in ran) == (has_tests and failing in ("", "pytest"))


def test_an_unknown_verb_prints_the_usage(machine: Machine) -> None:
    """No verb and a wrong verb: the list of verbs, exit code 2, nothing made."""
    for arguments in ((), ("tets",)):
        ended = machine.run(*arguments)
        assert ended.returncode == 2
        for verb in ("demo", "test", "check", "bench", "fuzz", "wheel", "build", "clean"):
            assert f"./build.sh {verb}" in ended.stderr
    assert sorted(path.name for path in machine.checkout.iterdir()) == ["build.sh"]
