"""Users' classes under crashes, replays and dumps: right ones survive, each mistake is named."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from raftmeta.cli.app import app
from raftmeta.sim import Replicas, live_user
from raftmeta.sim.users.calls import call_text, drawn_call
from raftmeta.user_machines.classes import machine_class_of
from tests.sim import user_classes

HERE = "tests.sim.user_classes"


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    """Three processes for the lives of all tests: each life begins in a fork of its own."""
    with Replicas() as replicas:
        yield replicas


@pytest.mark.parametrize("name", ["Right", "Own"])
def test_a_class_that_is_right_survives_everything(name: str, replicas: Replicas) -> None:
    """Three nodes, 200 commands, each run by every node at least once; crashes, dumps and loads on the way."""
    life = live_user(f"{HERE}:{name}", 1, replicas=replicas)
    assert life.violation is None
    assert life.counts["commands"] == 200
    assert life.counts["runs"] > 3 * 200
    for happened in ("crashes", "reopenings", "dumps", "loads"):
        assert life.counts[happened] > 0, happened


def test_commands_that_raise_are_told_with_an_example(replicas: Replicas) -> None:
    life = live_user(f"{HERE}:Right", 2, replicas=replicas)
    assert life.violation is None
    assert life.counts["rejected"] > 0
    assert set(life.failed) == {"KeyError"}
    assert "close(" in life.failed["KeyError"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AsksTheTime", ["stamp()", "state.at"]),
        ("OrdersBySet", ["add(", "answers"]),
        ("DrawsLots", ["draw()", "state.lot"]),
        ("MakesIds", ["make()", "answers"]),
        ("SharesADefault", ["add("]),
        ("ForgetsAField", ["push(", "state.pushed"]),
        ("ReadsThatWrite", ["count() is a read and changes the state"]),
        ("BreaksItsInvariant", ["take()", "stock_is_there()", "stock is -1"]),
        ("CannotBeDumped", ["cannot be dumped"]),
    ],
)
def test_each_mistake_is_found_and_named(name: str, words: list[str], replicas: Replicas) -> None:
    """Which command, and what differs."""
    life = live_user(f"{HERE}:{name}", 3, replicas=replicas)
    assert life.violation is not None
    for word in words:
        assert word in life.violation
    assert life.replay == f"raftmeta sim {HERE}:{name} --seed 0x3"


def test_a_seed_makes_the_same_calls_and_the_same_end(replicas: Replicas) -> None:
    machine_class = machine_class_of(user_classes.Right)
    streams = [random.Random(5), random.Random(5)]
    texts = [[call_text(drawn_call(machine_class, stream)) for _ in range(50)] for stream in streams]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 20
    first, second = (live_user(f"{HERE}:ForgetsAField", 4, replicas=replicas) for _ in range(2))
    assert (first.violation, first.counts) == (second.violation, second.counts)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:Machine", "no_such_module"),
        (f"{HERE}:Nobody", "Nobody"),
        (f"{HERE}:random", "not a class marked with"),
        (f"{HERE}:TakesAnything", r"TakesAnything.take\(\): handle: no value of .*simulated_call"),
    ],
)
def test_what_cannot_be_simulated_says_why(target: str, message: str, replicas: Replicas) -> None:
    with pytest.raises(ValueError, match=message):
        live_user(target, 1, replicas=replicas)


# --- raftmeta sim module:Class ----------------------------------------------------------------------------------------
def test_the_command_names_the_first_seed_that_shows_a_mistake() -> None:
    """Exit code 1, what differs, and the line that replays it."""
    result = CliRunner().invoke(app, ["sim", f"{HERE}:DrawsLots", "--seeds", "5", "--first", "8"])
    assert result.exit_code == 1
    assert "state.lot" in result.output
    assert f"raftmeta sim {HERE}:DrawsLots --seed 0x8" in result.output


def test_the_command_sums_up_a_class_that_is_right() -> None:
    result = CliRunner().invoke(app, ["sim", f"{HERE}:Right", "--seeds", "2", "--events", "60", "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["seeds"] == 2 and answer["violations"] == [] and answer["counts"]["commands"] == 120


def test_the_command_tells_wrong_use() -> None:
    result = CliRunner().invoke(app, ["sim", "no_such_module:Machine"])
    assert result.exit_code == 2
    assert "no_such_module" in result.output


def test_the_example_is_right() -> None:
    result = CliRunner().invoke(app, ["sim", "examples.replicated_class:House", "--seeds", "1"])
    assert result.exit_code == 0, result.output
