"""The shim acts on a real process, says so, and what it does is what a kernel or a disk would do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from jepsen.faults import shim
from jepsen.faults.shim import Action, Calls, Page, ShimError
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess

HOUR_S = 3600.0


# --- in the process under the shim ------------------------------------------------------------------------------------


def make_nothing() -> None:
    return None


def clocks(_: None) -> dict[str, float]:
    return {
        "wall": time.time(),
        "monotonic": time.monotonic(),
        "boot": time.clock_gettime(time.CLOCK_BOOTTIME),
        "raw": time.clock_gettime(time.CLOCK_MONOTONIC_RAW),
    }


def rest(_: None, seconds: float) -> None:
    threading.Event().wait(seconds)


def write_and_sync(_: None, path: str, text: str, times: int) -> list[int]:
    """Positional writes of `text`, each synced; the bytes written by each, or minus the errno that it met."""
    told = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    for number in range(times):
        try:
            told.append(os.pwrite(descriptor, text.encode(), number * len(text)))
            os.fdatasync(descriptor)
        except OSError as error:
            told[number:] = [-(error.errno or 0)]
    os.close(descriptor)
    return told


def read_at(_: None, path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return len(os.pread(descriptor, 100, 0))
    finally:
        os.close(descriptor)


def commit(_: None, path: str) -> None:
    """One transaction of LMDB, which commits by a write to a descriptor with O_DSYNC."""
    with lmdb.open(path) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"key", b"value")


# --- here -------------------------------------------------------------------------------------------------------------


def started(page: Page, folder: Path) -> RemoteProcess:
    process = RemoteProcess(make_nothing, log=folder / "log", environment=page.environment())
    process.start()
    return process


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """One without a process."""
    return Page.make(tmp_path / "shim.page")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RemoteProcess, Page]]:
    """A process and its page, for the tests of files: each ends its rules."""
    folder = tmp_path_factory.mktemp("shim")
    page = Page.make(folder / "shim.page", seed=5)
    process = started(page, folder)
    yield process, page
    process.kill()


@pytest.fixture
def files(pair: tuple[RemoteProcess, Page]) -> Iterator[tuple[RemoteProcess, Page]]:
    yield pair
    pair[1].end_all()


@pytest.fixture
def clocked(page: Page, tmp_path: Path) -> Iterator[tuple[RemoteProcess, Page]]:
    """A pair of one's own, since steady clocks do not go back."""
    process = started(page, tmp_path)
    yield process, page
    process.kill()


def errors_of_clocks(process: RemoteProcess) -> dict[str, float]:
    """How far each clock of the process is from ours."""
    before = clocks(None)
    told: dict[str, float] = process.call(clocks)
    return {name: told[name] - before[name] for name in before}


def test_without_orders_nothing_is_changed(clocked: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """A process under an empty page has true clocks and a working disk."""
    process, page = clocked
    assert all(0 <= error < 1.0 for error in errors_of_clocks(process).values())
    assert process.call(write_and_sync, str(tmp_path / "f"), "text", 2) == [4, 4]
    assert page.clock_reads == 0


def test_the_wall_clock_leaps_alone(clocked: tuple[RemoteProcess, Page]) -> None:
    """Back and forth; the steady clocks do not notice."""
    process, page = clocked
    for hours in (1, -1, 24 * 3650):
        page.set_wall_offset(hours * HOUR_S)
        errors = errors_of_clocks(process)
        assert errors.pop("wall") == pytest.approx(hours * HOUR_S, abs=1.0)
        assert all(0 <= error < 1.0 for error in errors.values())
    assert page.clock_reads > 0


def test_steady_clocks_leap_and_waits_keep_true_time(clocked: tuple[RemoteProcess, Page]) -> None:
    """Every steady clock is an hour ahead; a wait to a deadline on it ends after its time and not an hour later."""
    process, page = clocked
    page.leap(HOUR_S)
    errors = errors_of_clocks(process)
    assert 0 <= errors.pop("wall") < 1.0
    assert 0 <= errors.pop("raw") < 1.0
    assert all(error == pytest.approx(HOUR_S, abs=1.0) for error in errors.values())
    begun = time.monotonic()
    process.call(rest, 0.05)
    assert 0.05 <= time.monotonic() - begun < 5.0


def test_a_sleep_keeps_true_time(page: Page) -> None:
    """The other way to wait: until a moment of a clock that is an hour ahead."""
    page.leap(HOUR_S)
    begun = time.monotonic()
    program = "import time; time.sleep(0.05)"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **page.environment()}, check=True, timeout=20)
    assert 0.05 <= time.monotonic() - begun < 20.0
    assert page.clock_reads > 0


def test_steady_clocks_run_fast_and_slow(clocked: tuple[RemoteProcess, Page]) -> None:
    """At twice the pace the process sees twice the time pass; what was gained stays, and at half the pace it melts."""
    process, page = clocked
    page.set_rate(2.0)
    begun, seen_begun = time.monotonic(), process.call(clocks)["monotonic"]
    process.call(rest, 0.2)
    seen, passed = process.call(clocks)["monotonic"] - seen_begun, time.monotonic() - begun
    assert 1.5 * 0.2 < seen <= 2.0 * passed
    page.set_rate(0.5)
    gained = errors_of_clocks(process)["monotonic"]
    process.call(rest, 0.1)
    assert errors_of_clocks(process)["monotonic"] < gained - 0.04
    assert gained > 0.1


def test_a_sync_fails_as_ordered(files: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """Only files of the path, only after `skip` calls, only `count` times; the errno is the one that was asked for."""
    process, page = files
    rule = page.strike(Calls.SYNC, Action.FAIL, path="/bad", value=errno.EIO, skip=1, count=2)
    assert process.call(write_and_sync, str(tmp_path / "good"), "text", 4) == [4, 4, 4, 4]
    assert process.call(write_and_sync, str(tmp_path / "bad"), "text", 4) == [4, -errno.EIO, -errno.EIO, 4]
    assert (rule.seen, rule.struck) == (4, 2)
    rule.end()
    assert process.call(write_and_sync, str(tmp_path / "bad"), "text", 1) == [4]


def test_writes_fail_are_short_or_late(files: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """A full disk, half of the bytes, a slow disk: each by a rule of its own."""
    process, page = files
    path = tmp_path / "file"
    full = page.strike(Calls.WRITE, Action.FAIL, path=str(path), value=errno.ENOSPC, count=1)
    assert process.call(write_and_sync, str(path), "text", 2) == [-errno.ENOSPC, 4]
    full.end()
    short = page.strike(Calls.WRITE, Action.SHORTEN, path=str(path), count=1)
    assert process.call(write_and_sync, str(path), "text", 2) == [2, 4]
    short.end()
    slow = page.strike(Calls.SYNC, Action.DELAY, path=str(path), value=50_000_000, count=2)
    begun = time.monotonic()
    process.call(write_and_sync, str(path), "text", 3)
    assert time.monotonic() - begun >= 0.1
    assert (full.struck, short.struck, slow.struck) == (1, 1, 2)


def test_a_read_fails_as_ordered(files: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """An unreadable sector, once."""
    process, page = files
    path = tmp_path / "file"
    path.write_bytes(b"text")
    rule = page.strike(Calls.READ, Action.FAIL, path=str(path), value=errno.EIO, count=1)
    with pytest.raises(RemoteError, match="Input/output error"):
        process.call(read_at, str(path))
    assert process.call(read_at, str(path)) == 4
    assert rule.struck == 1


def test_chance_follows_the_seed(files: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """A rate is kept, and the same page strikes the same calls again."""
    process, page = files
    path = str(tmp_path / "file")
    told = []
    for _ in range(2):
        rule = page.strike(Calls.WRITE, Action.FAIL, path=path, value=errno.EIO, chance=0.25)
        told.append(process.call(write_and_sync, path, "x", 200))
        assert 20 < rule.struck < 80
        rule.end()
    assert told[0] == told[1]


def test_the_commit_of_lmdb_counts_as_a_sync(files: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """Its last write goes to a descriptor with O_DSYNC and is not followed by a sync."""
    process, page = files
    process.call(commit, str(tmp_path / "db"))
    rule = page.strike(Calls.SYNC, Action.COUNT, path=str(tmp_path / "db"))
    process.call(commit, str(tmp_path / "db"))
    syncs = rule.seen
    rule.end()
    assert syncs >= 2
    page.strike(Calls.SYNC, Action.FAIL, path=str(tmp_path / "db"), value=errno.EIO, skip=syncs - 1)
    with pytest.raises(RemoteError, match="Input/output error"):
        process.call(commit, str(tmp_path / "db"))


def test_a_lying_sync_says_that_all_is_well(files: tuple[RemoteProcess, Page], tmp_path: Path) -> None:
    """It is counted, and nobody hears of it."""
    process, page = files
    rule = page.strike(Calls.SYNC, Action.LIE, path=str(tmp_path))
    assert process.call(write_and_sync, str(tmp_path / "file"), "text", 3) == [4, 4, 4]
    assert rule.struck == 3


@pytest.mark.parametrize(("action", "written"), [(Action.CUT_BEFORE, b"xxx"), (Action.CUT_AFTER, b"xxx")])
def test_a_cut_ends_the_process_at_that_sync(
    clocked: tuple[RemoteProcess, Page], tmp_path: Path, action: Action, written: bytes
) -> None:
    """Without a disk to cut it is a SIGKILL in the third sync: three writes were made, none after."""
    process, page = clocked
    page.strike(Calls.SYNC, action, path=str(tmp_path / "file"), skip=2)
    with pytest.raises(ProcessGone):
        process.call(write_and_sync, str(tmp_path / "file"), "x", 10)
    assert (tmp_path / "file").read_bytes() == written
    assert page.cuts == 1


def test_a_page_that_is_none_is_refused(tmp_path: Path) -> None:
    """By us, and by a process that was to obey it: it does not run without its faults."""
    (tmp_path / "page").write_bytes(b"?" * 10)
    with pytest.raises(ShimError, match="no page of this shim"):
        Page(tmp_path / "page")
    environment = {"LD_PRELOAD": str(shim.compiled()), shim.VARIABLE: str(tmp_path / "page")}
    process = RemoteProcess(make_nothing, log=tmp_path / "log", environment=environment)
    with pytest.raises(ProcessGone):
        process.start()
    process.kill()
    assert "no page of this shim" in process.log_tail()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (lambda page: page.leap(-1), "never go back"),
        (lambda page: page.set_rate(0), "go forward"),
        (lambda page: page.strike(Calls.SYNC, Action.COUNT, path="x" * 192), "less than 192 bytes"),
        (lambda page: page.cut_with([Path("/a")] * 9), "at most 8"),
        (lambda page: [page.strike(Calls.SYNC, Action.COUNT) for _ in range(9)], "8 rules"),
    ],
)
def test_an_order_that_cannot_be_obeyed_is_refused(page: Page, order: Any, message: str) -> None:
    """At once, in words."""
    with pytest.raises(ShimError, match=message):
        order(page)
