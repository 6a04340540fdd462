"""The helpers themselves: calls, errors, kills, restarts, and waiting that ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.child import from_json, to_json
from tests.processes.remote import ProcessGone, RemoteError, RemoteProcess
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


def test_waiting_ends_with_a_value_or_a_reason() -> None:
    """The first true value is returned; a condition that stays false is named."""
    values = iter([0, 0, 7])
    assert wait_until(lambda: next(values), timeout_s=20, what="seven") == 7
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: the moon is green"):
        wait_until(lambda: False, timeout_s=0.01, what=lambda: "the moon is green")


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(8))) == 8
