"""The shim from outside: compiles it, and writes the page of orders that one process under it reads.

    page = shim.Page.make(tmp_path / "a.page")
    process = subprocess.Popen(command, env={**os.environ, **page.environment()})
    rule = page.strike(Calls.SYNC, Action.FAIL, path="/a/", value=errno.EIO, count=1)
    ... rule.struck ...

It never touches the process itself; what the orders mean is told in shim.c, whose structs stand here once more.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
import mmap
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
BUILT = Path(__file__).resolve().parents[2] / "build" / "jepsen"
COMPILE = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
VARIABLE = "RAFTMETA_SHIM_PAGE"
EVERY_PPM = 1_000_000
ROUNDING_NS = 1_000

PATH_BYTES = 192
RULES = 8
CUT_PATHS = 8
LAYOUT = 0x524D5332  # the numbers of shim.c


class Calls(enum.IntFlag):
    """Which calls a rule looks at. A write to a file opened with O_DSYNC is a sync."""

    READ = 1
    WRITE = 2
    SYNC = 4


class Action(enum.IntEnum):
    """What becomes of a call that is struck."""

    COUNT = 0  # nothing
    FAIL = 1  # it fails with errno `value` and does nothing
    DELAY = 2  # it begins `value` nanoseconds later
    SHORTEN = 3  # it moves half of the bytes and says so
    CUT_BEFORE = 4  # the power of the page's disks fails, and the process dies
    CUT_AFTER = 5  # the same when the call is done, before the process knows
    # Mistakes of the program, planted: no disk of a run does so, a test of tests needs them. Each says all is well.
    LIE = 6  # a sync does nothing
    EARLY = 7  # a sync makes durable what was so at the one before it: it came before its writes
    STRAY = 8  # another file is synced, the one that was synced last
    SWAP = 9  # two files are mistaken for each other: each is synced when the other should be (Page.swap)


class _Rule(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("calls", "action", "value", "skip", "count", "chance_ppm")),
        ("seen", ctypes.c_uint64),
        ("struck", ctypes.c_uint64),
        ("path", ctypes.c_char * PATH_BYTES),
    )


class _Page(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("layout", "bytes", "seed", "clock_sequence")),
        *((name, ctypes.c_int64) for name in ("wall_offset_ns", "steady_offset_ns", "rate_ppm", "rate_since_ns")),
        *((name, ctypes.c_uint64) for name in ("clock_reads", "cuts", "armed")),
        ("cut_paths", ctypes.c_char * PATH_BYTES * CUT_PATHS),
        ("rules", _Rule * RULES),
        *((name, ctypes.c_char * PATH_BYTES) for name in ("journal", "root", "stash")),
    )


class ShimError(Exception):
    """The shim cannot be compiled or told what to do; the message says why."""


def missing() -> str | None:
    """What this machine lacks for the shim, in words that say what to do; None: nothing."""
    compiler = shlex.split(os.environ.get("CC", "cc"))[0]
    return None if shutil.which(compiler) else f"the shim needs a C compiler: no {compiler} here; install one or set CC"


def compiled() -> Path:
    """The shim as a shared library, compiled by $CC (default: cc) when its source is new.

    Raises ShimError: there is no compiler, or it refuses the source.
    """
    text = SOURCE.read_bytes()
    library = BUILT / f"shim-{hashlib.sha256(text + ' '.join(COMPILE).encode()).hexdigest()[:16]}.so"
    if library.exists():
        return library
    BUILT.mkdir(parents=True, exist_ok=True)
    fresh = library.with_suffix(f".{os.getpid()}.so")
    command = [*shlex.split(os.environ.get("CC", "cc")), *COMPILE, "-o", str(fresh), str(SOURCE), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ShimError(f"{command[0]}: no such compiler; install one or set CC") from error
    except subprocess.CalledProcessError as error:
        raise ShimError(f"{shlex.join(command)}:\n{error.stderr}") from error
    fresh.rename(library)  # whole or not at all: several processes may compile at once
    return library


class Rule:
    """One order of a page, and what came of it; that can be read when it has ended, too."""

    def __init__(self, page: Page, position: int) -> None:
        self._page = page
        self.position = position
        self._final: tuple[int, int] | None = None

    @property
    def seen(self) -> int:
        """Calls of its kind and path so far."""
        return self._counts()[0]

    @property
    def struck(self) -> int:
        """Those of them that were struck."""
        return self._counts()[1]

    def end(self) -> None:
        """Strike nothing more, and leave the place to another rule."""
        if self._final is None:
            self._page.release(self.position)
            self._final = self._page.counts(self.position)

    def _counts(self) -> tuple[int, int]:
        return self._page.counts(self.position) if self._final is None else self._final


class Page:
    """The orders to one process at a time; a process that is started again goes on under them."""

    def __init__(self, path: Path) -> None:
        """Over an existing page. Raises ShimError when the file is none."""
        self.path = path
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != ctypes.sizeof(_Page):
                raise ShimError(f"{path}: is no page of this shim; make it by Page.make")
            self.fields = _Page.from_buffer(mmap.mmap(file.fileno(), 0))
        if (self.fields.layout, self.fields.bytes) != (LAYOUT, ctypes.sizeof(_Page)):
            raise ShimError(f"{path}: is a page of another layout; make it anew by Page.make")

    @classmethod
    def make(cls, path: Path, *, seed: int = 0) -> Page:
        """A page without orders in a new file. seed: of what is struck by chance."""
        empty = _Page(layout=LAYOUT, bytes=ctypes.sizeof(_Page), seed=seed % 2**64)
        path.write_bytes(bytes(empty))
        return cls(path)

    def environment(self) -> dict[str, str]:
        """The variables under which a process, and those that it starts, obeys this page. Raises ShimError."""
        return {"LD_PRELOAD": str(compiled()), VARIABLE: str(self.path)}

    # --- files --------------------------------------------------------------------------------------------------------

    def strike(
        self,
        calls: Calls,
        action: Action,
        *,
        path: str = "",
        value: int = 0,
        skip: int = 0,
        count: int = 0,
        chance: float = 1.0,
    ) -> Rule:
        """Strike calls of these kinds on files whose path has `path` in it, from now on.

        path: "a*b" matches what has a in it and ends with b; a folder that is synced is a file here, too. The file of a
        node's flight recorder is met by its own name only.
        value: see Action. skip: so many matching calls pass first; count: of how many after them each may be struck,
        0: all. chance: the probability of each, from 0 to 1. Raises ShimError: no room for another rule, a long path.
        """
        place = _encoded(path)
        free = [number for number in range(RULES) if self.fields.rules[number].calls == 0]
        if not free:
            raise ShimError(f"a page has {RULES} rules, all are in use: end one of them")
        rule = self.fields.rules[free[0]]
        rule.action, rule.value, rule.skip, rule.count = action, value, skip, count
        rule.chance_ppm, rule.seen, rule.struck, rule.path = round(chance * EVERY_PPM), 0, 0, place
        rule.calls = calls  # last: from here on the process sees the rule
        self._arm()
        return Rule(self, free[0])

    def swap(self, one: str, other: str) -> tuple[Rule, Rule]:
        """Swap the syncs of files of these paths (strike). A file that was not met yet is not synced instead."""
        first = self.strike(Calls.SYNC, Action.SWAP, path=one, skip=2**63)
        second = self.strike(Calls.SYNC, Action.SWAP, path=other, value=first.position)
        self.fields.rules[first.position].value = second.position
        self.fields.rules[first.position].skip = 0  # from here on both are known
        return first, second

    def counts(self, position: int) -> tuple[int, int]:
        """Of the rule at this place: calls seen, calls struck."""
        rule = self.fields.rules[position]
        return int(rule.seen), int(rule.struck)

    def end_all(self) -> None:
        """End every rule; clocks stay as they are."""
        for position in range(RULES):
            self.release(position)

    def release(self, position: int) -> None:
        """Empty one place: Rule.end."""
        self.fields.rules[position].calls = 0
        self._arm()

    def _arm(self) -> None:
        actions = {rule.action for rule in self.fields.rules if rule.calls}
        self.fields.armed = 2 if actions & {Action.EARLY, Action.STRAY, Action.SWAP} else int(bool(actions))

    def keep_unsynced(self, journal: Path, root: Path, stash: Path) -> None:
        """Journal what is not synced below root, from the next start of the process on: jepsen/faults/unsynced.py."""
        self.fields.root, self.fields.stash = _encoded(str(root.resolve())), _encoded(str(stash.resolve()))
        self.fields.journal = _encoded(str(journal))

    def cut_with(self, mounts: Iterable[Path]) -> None:
        """The mounted ext4 file systems that lose their power by CUT_BEFORE and CUT_AFTER. Raises ShimError."""
        places = [_encoded(str(mount)) for mount in mounts]
        if len(places) > CUT_PATHS:
            raise ShimError(f"at most {CUT_PATHS} disks lose their power at once, not {len(places)}")
        for number in range(CUT_PATHS):
            self.fields.cut_paths[number].value = places[number] if number < len(places) else b""

    @property
    def cuts(self) -> int:
        """Power cuts so far."""
        return int(self.fields.cuts)

    # --- clocks -------------------------------------------------------------------------------------------------------

    def set_wall_offset(self, seconds: float) -> None:
        """CLOCK_REALTIME shows so much more than it is, or less."""
        self._set_clock(wall_offset_ns=round(seconds * 1e9))

    def leap(self, seconds: float) -> None:
        """CLOCK_MONOTONIC and CLOCK_BOOTTIME leap ahead, as for a machine that slept. seconds: 0 or more."""
        if seconds < 0:
            raise ShimError(f"steady clocks never go back: not {seconds} s")
        self._set_clock(leap_ns=round(seconds * 1e9))

    def set_rate(self, rate: float) -> None:
        """Those two clocks run so many times as fast as true time from now on; above 0."""
        if rate <= 0:
            raise ShimError(f"steady clocks go forward: not at {rate} times")
        self._set_clock(rate_ppm=round((rate - 1) * EVERY_PPM))

    @property
    def clock_reads(self) -> int:
        """How often the process read a clock that was wrong."""
        return int(self.fields.clock_reads)

    def _set_clock(self, *, wall_offset_ns: int | None = None, leap_ns: int = 0, rate_ppm: int | None = None) -> None:
        """All at once: while the sequence is odd, whoever reads a clock waits, so none is seen to go back."""
        fields = self.fields
        fields.clock_sequence += 1
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if fields.rate_ppm:  # what the old rate has led to; never behind what the shim's own rounding has shown
            fields.steady_offset_ns += (now_ns - fields.rate_since_ns) * fields.rate_ppm // EVERY_PPM + ROUNDING_NS
        fields.steady_offset_ns += leap_ns
        fields.rate_since_ns = now_ns
        if rate_ppm is not None:
            fields.rate_ppm = rate_ppm
        if wall_offset_ns is not None:
            fields.wall_offset_ns = wall_offset_ns
        fields.clock_sequence += 1


def _encoded(path: str) -> bytes:
    place = os.fsencode(path)
    if len(place) >= PATH_BYTES:
        raise ShimError(f"{path}: a path of the shim has less than {PATH_BYTES} bytes")
    return place
