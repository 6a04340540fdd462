"""The examples of the pipeline, each on a cluster that it runs, in the one session of these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples import lake, migrate, stream, sweep, tables, verify

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes

ZOOKEEPER = Path(__file__).parents[1] / "migrate" / "data" / "zookeeper"


def test_tables_of_a_cluster_and_of_its_backup(spark: Any, tmp_path: Path) -> None:
    """Keys of now and then, what was before each change, keys with leases."""
    assert tables.main(tmp_path) == {
        "topics": 19,
        "topics_before": 20,
        "changed": 6,
        "leased": 3,
        "topics_in_backup": 19,
    }


def test_a_stream_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    """The example itself compares what it wrote with the store, over a restart and a killed node."""
    assert len(stream.main(tmp_path)) == 4 * stream.EACH


def test_a_lake_knows_what_the_store_forgot(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake.main(tmp_path)
    told = capsys.readouterr().out
    assert "the lake has 10 changes, revisions 1 to 10" in told
    assert "in 1 file" in told


def test_a_migration_catches_up_until_nothing_differs(tmp_path: Path) -> None:
    """From a PySyncObj that goes on, which it runs; and from the files of a ZooKeeper."""
    there = migrate.main(tmp_path / "pysyncobj")
    assert (len(there), there[b"topics/00"], there[b"topics/20"]) == (21, b"retention=72", b"retention=24")
    there = migrate.main(tmp_path / "zookeeper", ZOOKEEPER)
    assert there[b"/a"] == b"second"


def test_a_sweep_tells_what_its_seeds_reached(spark: Any, tmp_path: Path) -> None:
    assert sweep.main(tmp_path, 4) == (4, 0)


def test_what_clients_saw_is_verified_and_a_lie_is_found(spark: Any, tmp_path: Path) -> None:
    verified = verify.main(tmp_path)
    assert {row["run"]: row["verdict"] for row in verified.histories} == {"seen": "ok", "falsified": "violation"}
    assert verified.counts["anomalies"] == 1
