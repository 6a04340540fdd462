"""A process that takes away what a run made, when the run ends in whatever way: it lives until its standard input ends.

    python -m jepsen.keeper

A line on its standard input announces a thing *before* it is made: `netns <name>`, `cgroup <folder>`, `folder <path>`,
`disks <folder>`, in which file systems are mounted.
When the input ends, by close() or because the run was killed, everything announced is removed in the opposite order, if
it is there. So there is one way of taking down, and Ctrl-C, SIGTERM and SIGKILL all go it.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

REMOVE_S = 10.0  # for the last processes to leave a control group


class KeeperFailed(Exception):
    """Something could not be taken away; the message says what."""


class Keeper:
    """The side of whoever makes things. A context."""

    def __enter__(self) -> Keeper:
        # A session of its own, so that Ctrl-C reaches only the run.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jepsen.keeper"],
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def announce(self, kind: str, name: str | Path) -> None:
        """Something will be made, and shall go with the run."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {name}\n")
        self._process.stdin.flush()

    def __exit__(self, *_error: object) -> None:
        """Take everything away. Raises KeeperFailed."""
        _, said = self._process.communicate()
        if self._process.returncode:
            raise KeeperFailed(said)


def remove_namespace(name: str) -> None:
    """A namespace takes its interfaces and rules with it."""
    if Path("/run/netns", name).exists():
        subprocess.run(["ip", "netns", "delete", name], check=True)


def thaw_group(folder: Path) -> None:
    """A frozen process does not even die."""
    for state, thawed in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        if (folder / state).exists():
            (folder / state).write_text(thawed)


def remove_group(folder: Path) -> None:
    """Remove it when the processes in it have left: those of a run end with the run."""
    deadline_s = time.monotonic() + REMOVE_S
    while folder.is_dir():
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        if time.monotonic() > deadline_s:
            raise KeeperFailed(
                f"{folder}: cannot be removed; processes {(folder / 'cgroup.procs').read_text().split()}"
            )
        time.sleep(0.01)


def remove_disks(folder: Path) -> None:
    """Unmount lazily what is mounted below, since dying processes may hold files for a moment longer; then remove all.

    A loop device goes with its mount.
    """
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in reversed(places):
        if f"{place}/".startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=True)
    if folder.exists():
        shutil.rmtree(folder)


def remove(kind: str, name: str) -> None:
    """Take one announced thing away."""
    if kind == "netns":
        remove_namespace(name)
    elif kind == "cgroup":
        remove_group(Path(name))
    elif kind == "disks":
        remove_disks(Path(name))
    else:
        shutil.rmtree(name, ignore_errors=True)


def main() -> None:
    announced = [line.split() for line in sys.stdin]
    failures = []
    # All before any: with version 1 a process stands in a group of each hierarchy, and only one of them is the freezer.
    for kind, name in announced:
        if kind == "cgroup":
            thaw_group(Path(name))
    for kind, name in reversed(announced):
        try:
            remove(kind, name)
        except (KeeperFailed, OSError, subprocess.SubprocessError) as error:
            failures.append(f"{kind} {name}: {error}")
    sys.exit("\n".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
