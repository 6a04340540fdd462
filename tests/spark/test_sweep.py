"""Sweeps of the simulator: every seed once, over however many calls, and every failure by its own seed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from raftmeta.errors import ConfigError
from raftmeta.sim import Budget, Life, live
from raftmeta.spark import sweep
from raftmeta.spark.folders import opened
from raftmeta.spark.sweep import SETTINGS_FILE, live_block

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes

SMALL = Budget(1000, 2_000_000)
HURRIED = Budget(300, 1)  # no cluster converges in one event: invariant I22 falls
DEADLY_SEED = 3


def deadly(seed: int, profile: str, budget: Budget) -> Life:
    """As live; the world of one seed takes its process down."""
    if seed == DEADLY_SEED:
        os.abort()
    return live(seed, profile, budget)


def seeds_in(folder: Path) -> list[int]:
    return sorted(seed for path in (folder / "blocks").iterdir() for seed in pq.read_table(path)["seed"].to_pylist())


def test_a_sweep_goes_on_where_another_one_ended(spark: Any, tmp_path: Path) -> None:
    """Init: seeds 4 to 8 are there, 9 to 11 were lost with a kill. Act: sweep 0 to 12. Check: each seed once, as live
    itself finds it; what was there is the same file."""
    first = sweep(4, 12, tmp_path / "out", budget=SMALL, block_seeds=5)
    assert (first.seeds, first.lived, first.failures) == (8, 8, ())
    (tmp_path / "out" / "blocks" / "9-12.parquet").unlink()
    kept = (tmp_path / "out" / "blocks" / "4-9.parquet").stat()
    swept = sweep(0, 12, tmp_path / "out", budget=SMALL, block_seeds=5)
    assert (swept.seeds, swept.lived) == (12, 7)
    assert seeds_in(tmp_path / "out") == list(range(12))
    assert (tmp_path / "out" / "blocks" / "4-9.parquet").stat() == kept
    rows = pq.read_table(tmp_path / "out" / "blocks" / "0-4.parquet").to_pylist()
    alone = live(2, "swarm", SMALL)
    assert (rows[2]["trace_hash"], rows[2]["events"]) == (f"{alone.trace_hash:016x}", alone.counts["events"])
    assert set(rows[2]["marks"]) == alone.marks
    coverage = {row["mark"]: row for row in pq.read_table(tmp_path / "out" / "coverage.parquet").to_pylist()}
    with_mark = [seed for seed in range(12) if "CAMPAIGN_BY_TRANSFER" in live(seed, "swarm", SMALL).marks]
    assert coverage["CAMPAIGN_BY_TRANSFER"]["seeds"] == len(with_mark)
    assert swept.reached + len(swept.missing) == len(coverage)
    again = sweep(0, 12, tmp_path / "out", budget=SMALL)
    assert (again.lived, again.seeds, again.reached) == (0, 12, swept.reached)


def test_a_failure_has_its_seed_and_its_tape(spark: Any, tmp_path: Path) -> None:
    """Every world of this budget breaks I22; the row replays it."""
    swept = sweep(7, 9, tmp_path / "out", profile="nodes=3", budget=HURRIED)
    assert [(row["seed"], row["verdict"]) for row in swept.failures] == [(7, "violation"), (8, "violation")]
    row = swept.failures[0]
    assert row["invariant"].startswith("I22")
    assert row["replay"] == "raftmeta sim --seed 0x7 --profile nodes=3 --events 300 --settle 1"
    assert json.loads(row["tape"])["seed"] == 7
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["failures"] == 2


def test_a_world_that_ends_its_process_is_told_by_its_seed() -> None:
    """The worlds beside it are lived all the same."""
    lives = [life for life, _, _ in live_block(range(2, 6), "swarm", SMALL, deadly)]
    assert [life.seed for life in lives] == [2, 3, 4, 5]
    assert [life.violation for life in lives] == [None, "the process of this world died", None, None]


def test_rows_of_other_settings_are_not_mixed(spark: Any, tmp_path: Path) -> None:
    """Another budget, another build, a foreign folder, wrong seeds: each an error that says so, and nothing written."""
    out = tmp_path / "out"
    sweep(0, 1, out, budget=SMALL)
    with pytest.raises(ConfigError, match="made with events 1000, not 300"):
        sweep(0, 1, out, budget=HURRIED)
    settings = json.loads((out / SETTINGS_FILE).read_text())
    (out / SETTINGS_FILE).write_text(json.dumps({**settings, "build": "other"}))
    with pytest.raises(ConfigError, match="made with build 'other'"):
        sweep(0, 2, out, budget=SMALL)
    assert seeds_in(out) == [0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="holds something that no sweep wrote"):
        sweep(0, 1, tmp_path / "mine")
    with pytest.raises(ConfigError, match="5:5 is no range"):
        sweep(5, 5, tmp_path / "none")
    with pytest.raises(ConfigError, match="profile: a profile is"):
        sweep(0, 1, tmp_path / "none", profile="all the worst")
    assert not (tmp_path / "none").exists()


def test_two_drivers_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second one is refused while the first one works, and not afterwards; what was half written is gone."""
    works = opened(tmp_path / "out", SETTINGS_FILE, what="sweep")
    with works, pytest.raises(ConfigError, match="another sweep works there"):
        sweep(0, 1, tmp_path / "out")
    (tmp_path / "out" / SETTINGS_FILE).write_text("{}")
    half = tmp_path / "out" / "blocks" / "0-1.parquet.half"
    half.parent.mkdir()
    half.touch()
    with opened(tmp_path / "out", SETTINGS_FILE, what="sweep"):
        assert not half.exists()
