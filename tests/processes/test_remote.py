"""The helpers themselves: calls, errors, kills, restarts, and waiting that ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.child import Parent, from_json, hold_gil, to_json
from tests.processes.leading import leader_of
from tests.processes.remote import ROOT, ProcessGone, RemoteError, RemoteProcess
from tests.processes.waiting import free_ports, wait_until


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start
        self.forever = threading.Event()


def make_counter(start: int) -> Counter:
    return Counter(start)


def make_nothing() -> None:
    raise ValueError("cannot be made")


def add(counter: Counter, number: int) -> int:
    print("printed in a call")  # must not be taken for an answer
    counter.value += number
    return counter.value


def fail(counter: Counter) -> None:
    raise KeyError("no such key")


def hang(counter: Counter) -> None:
    counter.forever.wait()


def echo(counter: Counter, value: Any) -> Any:
    return value


async def count_down(parent: Parent, count: int) -> None:
    """The life of a process: it reports numbers down to 0, and fails when it is told to."""
    failing = asyncio.Event()
    parent.serve(failing, asyncio.get_running_loop())
    for left in range(count, -1, -1):
        parent.report({"left": left})
    await failing.wait()
    raise ValueError("told to fail")


async def is_in_a_task(failing: asyncio.Event) -> bool:
    return asyncio.current_task() is not None and not failing.is_set()


async def fail_soon(failing: asyncio.Event) -> None:
    failing.set()


def start_paused(folder: str) -> None:
    """A program of its own: from a thread that has ended it started two processes, and one of them stands still."""
    children = [RemoteProcess(make_counter, number, log=Path(folder, f"{number}.log")) for number in range(2)]
    for child in children:
        starting = threading.Thread(target=child.start)
        starting.start()
        starting.join()
    assert [child.call(add, 1) for child in children] == [1, 2]
    children[1].pause()
    print(json.dumps([child.pid for child in children]), flush=True)
    sys.stdin.read()


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[RemoteProcess]:
    process = RemoteProcess(make_counter, 40, log=tmp_path / "log")
    process.start()
    yield process
    process.kill()


def test_a_call_runs_in_the_other_process(remote: RemoteProcess) -> None:
    """Calls see one subject; what they print goes to the log."""
    assert remote.call(add, 2) == 42
    assert remote.call(add, -1) == 41
    assert "printed in a call" in remote.log_tail()


def test_an_exception_is_told_by_name(remote: RemoteProcess) -> None:
    """The class of the remote exception is known here, and the process goes on."""
    with pytest.raises(RemoteError) as caught:
        remote.call(fail)
    assert caught.value.kind == "KeyError"
    assert remote.call(add, 1) == 41


def test_values_of_json_and_bytes_come_back(remote: RemoteProcess) -> None:
    """Keys and values are bytes, and they survive the way there and back."""
    value = [{"key": b"\x00\xff", "list": [1, 2.5, None, "text"]}]
    assert remote.call(echo, value) == value
    assert from_json(to_json((b"a", [b"b"]))) == [b"a", [b"b"]]


def test_a_kill_ends_what_was_asked_and_a_restart_begins_anew(remote: RemoteProcess) -> None:
    """A call under way ends with ProcessGone, one made after the death too; the next life has a new subject."""
    hanging = remote.begin(hang)
    first_pid = remote.pid
    remote.kill()
    with pytest.raises(ProcessGone):
        hanging.result(30)
    with pytest.raises(ProcessGone):
        remote.call(add, 1)
    assert not remote.is_alive
    remote.start()
    assert remote.pid != first_pid
    assert remote.call(add, 0) == 40


def test_a_paused_process_answers_when_it_is_resumed(remote: RemoteProcess) -> None:
    """SIGSTOP and SIGCONT, as a machine that was suspended."""
    remote.pause()
    answer = remote.begin(add, 1)
    remote.resume()
    assert answer.result(30) == 41


def test_closing_the_input_ends_the_process(remote: RemoteProcess) -> None:
    """The quiet end has exit code 0."""
    assert remote.end() == 0
    assert not remote.is_alive


def test_a_subject_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """start raises, and the log has the reason."""
    process = RemoteProcess(make_nothing, log=tmp_path / "log")
    with pytest.raises(ProcessGone, match="cannot be made"):
        process.start()
    process.kill()


def test_a_life_that_is_a_coroutine_reports_and_is_called(tmp_path: Path) -> None:
    """Coroutines run in its loop; the last report is kept; its exception ends the process, which nobody ended."""
    process = RemoteProcess(count_down, 3, log=tmp_path / "log")
    process.start()
    try:
        assert process.call(is_in_a_task) is True
        wait_until(lambda: process.report == {"left": 0}, timeout_s=20, what="the last report")
        assert process.report_age_s < 20
        with contextlib.suppress(ProcessGone):  # it may be gone before its answer
            process.call(fail_soon)
        wait_until(lambda: process.has_crashed, timeout_s=20, what="its end")
        assert process.exit_code == 1
        wait_until(lambda: "told to fail" in process.log_tail(), timeout_s=20, what="the reason")
    finally:
        process.kill()
    assert not process.has_crashed, "somebody ended it"
    assert (process.life, process.report_age_s < float("inf")) == (1, True)
    process.start()
    assert (process.life, process.exit_code) == (2, None)
    process.kill()


def test_a_coroutine_needs_a_loop(remote: RemoteProcess) -> None:
    """A subject that was only made has none, and the caller is told so."""
    with pytest.raises(RemoteError, match="needs an event loop"):
        remote.call(fail_soon)


def test_the_gil_is_held_for_as_long_as_was_asked(remote: RemoteProcess) -> None:
    """A second thread of that process does not run before it is over."""
    holding, other = remote.begin(hold_gil, 0.3), remote.begin(add, 1)
    assert holding.result(30) >= 0.3
    assert other.result(30) == 41


def test_a_launcher_and_variables_stand_before_the_process(tmp_path: Path) -> None:
    """The pid is that of the process all the same; both may be others at the next start."""
    process = RemoteProcess(make_counter, 1, log=tmp_path / "log", launcher=["env", "LAUNCHED=yes"])
    process.environment["TOLD"] = "once"
    process.start()
    variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert {b"LAUNCHED=yes", b"TOLD=once"} <= set(variables)
    process.kill()
    process.arguments = (7,)
    process.start()
    assert process.call(add, 0) == 7
    process.kill()


def test_nothing_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    """kill -9 of a parent whose starting threads have ended: its children end, also the one that stands still."""
    program = f"from tests.processes.test_remote import start_paused; start_paused({str(tmp_path)!r})"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdin=pipe, stdout=pipe) as parent:
        assert parent.stdout is not None
        pids = json.loads(parent.stdout.readline())
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        parent.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids), timeout_s=20, what="the end of both")


def is_running(pid: int) -> bool:
    """Not gone, and not dead and waiting for somebody to hear of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_who_leads_has_a_majority_in_one_term() -> None:
    """Its own word is not enough, nor the word of a former term, nor that of who does not vote."""
    lead = {"role": "leader", "term": 2, "leader": "a"}
    follow = {"role": "follower", "term": 2, "leader": "a"}
    former = {"role": "follower", "term": 1, "leader": "a"}
    assert leader_of({"a": lead, "b": follow}, "abc") == "a"
    assert leader_of({"a": lead, "b": former}, "abc") is None
    assert leader_of({"a": lead, "d": follow}, "abc") is None
    assert leader_of({"b": follow, "c": follow}, "abc") is None
    assert leader_of({}, "abc") is None


def test_waiting_ends_with_a_value_or_a_reason() -> None:
    """The first true value is returned; a condition that stays false is named."""
    values = iter([0, 0, 7])
    assert wait_until(lambda: next(values), timeout_s=20, what="seven") == 7
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: the moon is green"):
        wait_until(lambda: False, timeout_s=0.01, what=lambda: "the moon is green")


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(8))) == 8
