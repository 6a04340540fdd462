"""Programs of somebody else: lines, ends, pauses, and failures that say what the log says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.program import Program, ProgramFailed, run_program

ECHO = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"
FOREVER = "import signal, sys\nprint('begun', file=sys.stderr, flush=True)\nsignal.pause()"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def echo(log: Path) -> Iterator[Program]:
    with Program([sys.executable, "-c", ECHO], log=log, talks=True) as program:
        yield program


def state_of(pid: int) -> str:
    """The letter of proc(5): T for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_program_answers_lines(echo: Program) -> None:
    assert [echo.ask("one"), echo.ask("two")] == ["heard one", "heard two"]


def test_a_killed_program_gives_no_answer_and_starts_again(echo: Program) -> None:
    """The next life has a pid of its own."""
    pid = echo.pid
    echo.kill()
    assert not echo.is_alive
    with pytest.raises((ProgramFailed, ValueError)):
        echo.ask("one")
    echo.start()
    assert echo.ask("two") == "heard two" and echo.pid != pid


def test_a_paused_program_stands_still(echo: Program) -> None:
    echo.ask("one")
    echo.pause()
    echo.wait_until(lambda: state_of(echo.pid) == "T", timeout_s=20, what="it is stopped")
    echo.resume()
    assert echo.ask("two") == "heard two"


@pytest.mark.parametrize("source", [FOREVER, STUBBORN], ids=["obeys", "ignores SIGTERM"])
def test_end_ends_it_whatever_it_does(source: str, log: Path) -> None:
    program = Program([sys.executable, "-c", source], log=log).start()
    program.wait_until(lambda: "begun" in program.log_tail(), timeout_s=20, what="it has begun")
    program.end(timeout_s=0.2)
    assert not program.is_alive


def test_a_failure_has_the_end_of_the_log(log: Path) -> None:
    """And the exit code, or that it took too long, or that it ended before what was waited for."""
    with pytest.raises(ProgramFailed, match=r"(?s)ended with 3.*no such thing"):
        run_program([sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"], log=log, timeout_s=60)
    with pytest.raises(ProgramFailed, match="not ended within"):
        run_program([sys.executable, "-c", FOREVER], log=log, timeout_s=0.2)
    with Program([sys.executable, "-c", ""], log=log) as short, pytest.raises(ProgramFailed, match="before the moon"):
        short.wait_until(lambda: False, timeout_s=60, what="the moon")


def test_a_program_reads_a_file(log: Path, tmp_path: Path) -> None:
    """Its standard input is that file; without one it is empty."""
    given = tmp_path / "given"
    given.write_text("a\nb\n")
    for reads, told in ((given, "2 lines"), (None, "0 lines")):
        command = [sys.executable, "-c", "import sys; print(len(sys.stdin.readlines()), 'lines')"]
        run_program(command, log=log, timeout_s=60, reads=reads)
        assert log.read_text().endswith(told + "\n")


def test_its_environment_and_folder_are_as_said(log: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; print(os.environ['WORD'], os.getcwd())"]
    run_program(command, log=log, timeout_s=60, environment={"WORD": "yes"}, folder=tmp_path)
    assert log.read_text() == f"yes {tmp_path}\n"
