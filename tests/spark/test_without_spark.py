"""Questions that need no Spark do not start it, with the same answers; and what a killed driver left goes."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta.cli.app import app
from raftmeta.errors import Compacted
from raftmeta.spark import ClientSource, Lake, feed, sizes, spark_session, state, sweep
from raftmeta.spark import session as session_module
from raftmeta.spark.folders import exchanged
from raftmeta.spark.lake_answers import fold, newest_changes
from raftmeta.spark.options import SourceOptions
from raftmeta.spark.places import place_of
from raftmeta.spark.scratch import scratch_folder
from raftmeta.spark.travel import changes
from tests.client.nodes import serving
from tests.lint.sources import ROOT
from tests.spark.test_lake import write_a_lot
from tests.spark.test_sweep import SMALL

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("lakes")
    with serving(folder) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        write_a_lot(client, 6)
        return feed(ClientSource(client, quiet_s=0.2), folder / "lake", file_rows=10).lake


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session_module, "_start", refuse)


def test_answers_without_spark_are_those_of_spark(spark: Any, lake: Lake) -> None:
    """State at each revision, the newest changes, and sizes by prefix."""
    for revision in (0, 5, lake.last // 2, lake.last):
        found = state(spark, lake, revision=revision).drop("at_revision").orderBy("key").toArrow().to_pylist()
        assert fold(lake, revision).to_pylist() == found
    since = datetime.datetime.fromtimestamp(lake.files[1].first_ms / 1000, datetime.UTC)
    for question in ({"key": "same"}, {"prefix": "k"}, {"since": since}, {"until": since}, {}):
        asked = changes(spark, lake, **question).orderBy("revision", "sub", ascending=False).limit(7).toArrow()
        expected = asked.sort_by([("revision", "ascending"), ("sub", "ascending")]).to_pylist()
        assert newest_changes(lake, 7, **question).to_pylist() == expected
    for revision in (lake.last // 2, lake.last):
        alone, joined = (sizes(lake, revision=revision, depth=1, master=one) for one in (None, "local[2]"))
        assert alone.to_pylist() == joined.to_pylist()
        assert alone.column_names == joined.column_names


def test_the_verbs_of_a_small_lake_start_no_spark(lake: Lake, no_spark: None, tmp_path: Path) -> None:
    def asked(*words: str) -> str:
        ended = CliRunner().invoke(app, ["--json", "pipeline", *words])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    folder = str(lake.folder)
    assert json.loads(asked("history", folder, "--key", "last"))[-1]["op"] == "put"
    assert json.loads(asked("state", folder, "--prefix", "last"))[0]["value"] == "1"
    assert json.loads(asked("sizes", folder))
    asked("state", folder, "--out", str(tmp_path / "state.parquet"))
    assert pq.read_table(tmp_path / "state.parquet").num_rows == fold(lake, lake.last).num_rows


def test_a_sweep_with_nothing_left_starts_no_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells again what it has; a block that the tables do not have yet is added up first."""
    first = sweep(0, 4, tmp_path, budget=SMALL, block_seeds=2)
    started = 0

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal started
        started += 1
        return spark_session(*given, **more)

    monkeypatch.setattr(sys.modules["raftmeta.spark.sweep"], "spark_session", counted)
    again = sweep(0, 4, tmp_path, budget=SMALL, block_seeds=2)
    assert (again.seeds, again.lived, again.reached, again.failures, started) == (
        4,
        0,
        first.reached,
        first.failures,
        0,
    )
    (tmp_path / "summary.json").unlink()
    assert (sweep(0, 4, tmp_path, budget=SMALL, block_seeds=2).seeds, started) == (4, 1)


HOLDS = """
import sys, time
from raftmeta.spark.scratch import scratch_folder
with scratch_folder("held", within=sys.argv[1]) as folder:
    (folder / "large").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_driver_left_goes_with_the_next_one(tmp_path: Path) -> None:
    """A folder of a process that lives stays."""

    def holder() -> tuple[subprocess.Popen[str], Path]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", HOLDS, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    (killed, left), (living, kept) = holder(), holder()
    try:
        killed.kill()
        killed.wait(60)
        assert left.exists() and kept.exists()
        with scratch_folder("held", within=tmp_path) as own:
            assert not left.exists()
            assert kept.exists() and own.exists()
        assert not own.exists()
    finally:
        for process in (killed, living):
            process.kill()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


def test_half_a_folder_of_a_killed_driver_goes(tmp_path: Path) -> None:
    (tmp_path / ".out.abc.half").mkdir()
    with exchanged(tmp_path / "out") as one, exchanged(tmp_path / "out") as other:
        assert one.exists() and other.exists()
    assert os.listdir(tmp_path) == ["out"]


def test_a_compacted_start_says_how_to_go_on(tmp_path: Path) -> None:
    """With the checkpoint that it has a stream cannot."""
    with serving(tmp_path) as (nodes, url):
        for number in range(10):
            nodes["a"].put("k", str(number))
        nodes["a"].compact(8)
        options = SourceOptions.parse({"url": url, "table": "changes"})
        with place_of(options) as place, pytest.raises(Compacted, match=r"start_revision=9 or oldest.*new checkpoint"):
            place.change_parts(3, 10, 1)
