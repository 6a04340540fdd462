"""Many worlds in several processes, and one of them once more."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftmeta.cli.app import app
from raftmeta.sim import Budget, Totals, World, campaign, live, swarm_profile
from raftmeta.sim.campaign import profile_of, profile_text, replay_line
from tests.processes.waiting import wait_until

SHORT = Budget(events=2_000)
CAMPAIGN_MODULE = sys.modules[campaign.__module__]
IMPATIENT = Budget(events=2_000, settle_events=1)  # nothing converges in one event: I22


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sim", *arguments])


def test_every_seed_is_lived_once_and_alike_in_every_process() -> None:
    """The trace hashes of two worker processes are those of this one."""
    lives = {life.seed: life for life in campaign(range(6), jobs=2, budget=SHORT)}
    assert {seed: life.trace_hash for seed, life in lives.items()} == {
        seed: live(seed, budget=SHORT).trace_hash for seed in range(6)
    }


def test_a_campaign_ends_with_its_time() -> None:
    """No world begins when the minutes are over; there would be a hundred million more."""
    began = time.monotonic()
    totals = Totals()
    for life in campaign(range(10**8), jobs=2, minutes=0.02, budget=SHORT):
        totals.add(life)
    assert 0 < totals.seeds < 10**6
    assert time.monotonic() - began < 60


def test_a_violation_says_how_it_is_lived_again() -> None:
    """The line names seed and profile; both together are the whole history."""
    life = live(7, "nodes=5,drop_ppm=20000", IMPATIENT)
    assert life.violation is not None and life.violation.startswith("I22")
    assert life.replay == "raftmeta sim --seed 0x7 --profile nodes=5,drop_ppm=20000"
    again = live(7, "nodes=5,drop_ppm=20000", IMPATIENT)
    assert (again.violation, again.trace_hash) == (life.violation, life.trace_hash)


@pytest.mark.parametrize("seed", [0, 1, 402])
def test_the_text_of_a_profile_makes_it_again(seed: int) -> None:
    """Whatever the swarm drew, or a test chose."""
    assert profile_text(seed, swarm_profile(seed)) == "swarm"
    kinds = {profile_text(seed, swarm_profile(seed, kind)) for kind in ("dense", "sparse")}
    assert kinds in ({"swarm", "dense"}, {"swarm", "sparse"})
    for kind in ("dense", "sparse"):
        assert profile_of(seed, kind) == swarm_profile(seed, kind)
    chosen = World(seed, nodes=4, crash_ppm=1000, lease_ttl_ms=700).profile
    assert World(seed, **profile_of(seed, profile_text(seed, chosen))).profile == chosen
    assert World(seed, **profile_of(seed, profile_text(seed, World(seed).profile))).profile == World(seed).profile


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_seed_of_either_kind_is_lived_again_by_its_line(kind: str) -> None:
    """The line names the kind; lived again, it is the same history."""
    life = live(3, kind, SHORT)
    assert life.replay == f"raftmeta sim --seed 0x3 --profile {kind}"
    assert live(3, profile_text(3, swarm_profile(3, kind)), SHORT).trace_hash == life.trace_hash


def test_a_profile_that_is_none_is_refused() -> None:
    """The message shows the part."""
    with pytest.raises(ValueError, match="'crash_ppm' is neither"):
        profile_of(1, "nodes=3,crash_ppm")


# --- raftmeta sim -----------------------------------------------------------------------------------------------------
def test_the_command_sums_up_its_worlds() -> None:
    """As a table for people, as JSON for programs."""
    result = run("--seeds", "3", "--events", "1000", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["seeds"] == 3 and answer["violations"] == [] and answer["events"] >= 3000
    assert answer["counts"]["events"] == answer["events"]
    assert "events_per_s" in run("--seeds", "1", "--events", "1000").output


def test_ctrl_c_ends_it_with_the_report_of_what_was_lived() -> None:
    """As a terminal sends it, to every process of the group; it would go on for a hundred million worlds."""
    command = [sys.executable, "-m", "raftmeta.cli", "sim", "--seeds", str(10**8), "--events", "2000", "--jobs", "2"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--json"], stdout=pipe, stderr=pipe, start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: len(children.read_text().split()) >= 3, timeout_s=60, what="two workers and their tracker")
        os.killpg(process.pid, signal.SIGINT)
        out, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    report = json.loads(out)
    assert report["seeds"] < 10**8 and report["violations"] == []


class InterruptedPool(ProcessPoolExecutor):
    """Ctrl-C comes in the middle of each submission, as late as it can."""

    begun = 0
    done = 0

    def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
        type(self).begun += 1
        future = super().submit(*arguments, **named)
        signal.raise_signal(signal.SIGINT)
        type(self).done += 1
        return future


def test_ctrl_c_waits_until_a_submission_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that was interrupted while it started a process was never shut down: the command hung."""
    monkeypatch.setattr(CAMPAIGN_MODULE, "ProcessPoolExecutor", InterruptedPool)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(campaign(range(10**8), jobs=2, budget=SHORT))
    assert (InterruptedPool.begun, InterruptedPool.done) == (1, 1)
    assert signal.getsignal(signal.SIGINT) is before
    wait_until(lambda: not multiprocessing.active_children(), timeout_s=60, what="the end of the workers")


def test_ctrl_c_waits_until_the_locks_of_the_futures_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is seen as soon as the wait is over, and no other world begins."""
    waits = 0

    def interrupted(*arguments: Any, **named: Any) -> Any:
        nonlocal waits
        signal.raise_signal(signal.SIGINT)
        waits += 1
        return wait(*arguments, **named)

    monkeypatch.setattr(CAMPAIGN_MODULE, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(campaign(range(10**8), jobs=2, budget=SHORT))
    assert waits == 1


def test_reports_of_several_runs_add_up(tmp_path: Path) -> None:
    """Two halves are the whole; no seed counts twice, and what is no report is told."""
    parts = [tmp_path / "a.json", tmp_path / "b.json"]
    for first, part in zip(("0", "2"), parts, strict=True):
        part.write_text(run("--first", first, "--seeds", "2", "--events", "1000", "--json").output)
    whole = json.loads(run("--seeds", "4", "--events", "1000", "--json").output)
    added = json.loads(run("--merge", str(parts[0]), "--merge", str(parts[1]), "--json").output)
    for name in ("seeds", "events", "marks", "marks_missing", "counts", "lived", "violations"):
        assert added[name] == whole[name], name
    assert added["lived"] == {"swarm": [[0, 4]]}
    twice = run("--merge", str(parts[0]), "--merge", str(parts[0]))
    assert twice.exit_code == 2 and "lived seed 0x0" in twice.output
    parts[0].write_text("{}")
    assert "no report" in run("--merge", str(parts[0])).output


def test_the_command_fails_with_the_line_that_replays(tmp_path: Path) -> None:
    """Exit code 1; the line ends with all that was said, and the tape that was written falls again."""
    result = run(
        "--seed", "0x1f", "--profile", "nodes=3", "--events", "2000", "--settle", "1", "--tapes", str(tmp_path)
    )
    assert result.exit_code == 1
    assert replay_line(0x1F, "nodes=3") + " --events 2000 --settle 1" in result.output
    again = run("--tape", str(tmp_path / "raftmeta-sim-1f.json"))
    assert again.exit_code == 1 and again.output.startswith("I22")


def test_the_command_draws_what_it_made_small(tmp_path: Path) -> None:
    """As text, and as a page beside the tape."""
    place = ("--settle", "1", "--tapes", str(tmp_path), "--shrink")
    result = run("--seed", "0x1f", "--profile", "nodes=3,crash_ppm=500000", "--events", "4000", *place)
    assert result.exit_code == 1
    assert "n2" in result.output and "0 faults in" in result.output
    assert (tmp_path / "raftmeta-sim-1f.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "1", "--profile", "nodes=9"], "nodes must be 1 to 7"),
        (["--seed", "1", "--profile", "earthquake_ppm=1"], "unknown fault: earthquake_ppm"),
        (["--seed", "one"], "is no number"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], words: str) -> None:
    """Exit code 2, and the reason in a line."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
