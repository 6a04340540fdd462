"""raftmeta check, as a shell has it: a file in, a verdict and an exit code out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftmeta.check import Event, History, write_history
from raftmeta.cli.app import app
from tests.check.store import sequential

GOOD = [Event(0, 0, "invoke", "write", "x", 1), Event(1, 0, "ok")]
BAD = [*GOOD, Event(2, 0, "invoke", "read", "x"), Event(3, 0, "ok", result=2)]
STRANGE = [*GOOD, Event(2, 0, "ok", key="y")]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("events", "verdict", "code"), [(GOOD, "ok", 0), (BAD, "violation", 1), (STRANGE, "unknown", 2)]
)
def test_the_exit_code_is_the_verdict(
    tmp_path: Path, suffix: str, events: list[Event], verdict: str, code: int
) -> None:
    path = tmp_path / f"history{suffix}"
    write_history(History.of(events), path)
    result = run("check", path, "--model", "register")
    assert (result.exit_code, result.output.split(":")[0]) == (code, verdict)


def test_json_and_page_are_made_on_request(tmp_path: Path) -> None:
    path, page = tmp_path / "history.jsonl", tmp_path / "page.html"
    write_history(History.of(BAD), path)
    result = run("--json", "check", path, "--html", page)
    assert (result.exit_code, json.loads(result.output)["verdict"]) == (1, "violation")
    assert "<svg" in page.read_text()


def test_a_history_of_jepsen_needs_its_keys_told(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text("{:process 0 :type :invoke :f :write :value [x 1]} {:process 0 :type :ok :f :write :value [x 1]}")
    assert run("check", path, "--keyed").exit_code == 0


def test_bad_input_is_no_verdict(tmp_path: Path) -> None:
    """2, with the reason."""
    path = tmp_path / "history.csv"
    path.write_text("a,b")
    result = run("check", path)
    assert result.exit_code == 2 and ".parquet" in result.output
    path = tmp_path / "history.parquet"
    path.write_text("no Parquet")
    assert run("check", path).exit_code == 2
    assert run("check", tmp_path / "missing.jsonl").exit_code == 2


def test_an_empty_history_passes_only_when_it_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("")
    result = run("check", path)
    assert (result.exit_code, result.output.splitlines()[1].strip()) == (
        2,
        "the history has no events, so nothing was checked",
    )
    assert run("check", path, "--allow-empty").exit_code == 0


MINE = """
class Stack:
    name = "stack"
    operations = frozenset({"push", "pop"})
    observers = frozenset()

    def initial(self):
        return ()

    def step(self, state, call):
        if call.operation == "push":
            return (*state, call.arguments)
        return state[:-1] if state and call.returned(state[-1]) else None
"""


def test_a_model_of_ones_own_is_named_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module beside the history; what is wrong with a name is said in one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model_of_a_stack.py").write_text(MINE)
    path = tmp_path / "history.jsonl"
    write_history(sequential(("push", 1, None), ("push", 2, None), ("pop", None, 2)), path)
    assert run("check", path, "--model", "my_model_of_a_stack:Stack").exit_code == 0
    for name, word in (("my_model_of_a_stack:Heap", "Heap"), ("no_such_module:X", "no_such_module"), ("heap", "queue")):
        result = run("check", path, "--model", name)
        assert result.exit_code == 2 and word in result.output and len(result.output.splitlines()) == 1


def test_the_initial_value_is_json(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write_history(sequential(("read", None, "free")), path)
    assert run("check", path).exit_code == 1
    assert run("check", path, "--initial", '"free"').exit_code == 0
    result = run("check", path, "--initial", "free")
    assert result.exit_code == 2 and "no JSON" in result.output


def test_a_limit_is_said(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write_history(History.of(GOOD), path)
    assert run("check", path, "--time-limit", "1", "--memory-limit", "16").exit_code == 0
