"""One session of Spark for the whole folder, since a Java takes seconds to start, and one pass over many runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from raftmeta.spark import Verified, spark_session, verify
from raftmeta.spark.verify import SETTINGS
from tests.spark import runs
from tests.spark.observed import CONTRADICTED, RIGHT

QUICK = {"spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with spark_session("local[2]", settings={**SETTINGS, **QUICK}) as session:
        yield session


@dataclass(frozen=True, slots=True)
class Checked:
    """What verify made of all runs of tests.spark.runs."""

    paths: list[Path]
    verified: Verified

    def table(self, name: str) -> pa.Table:
        return pq.read_table(self.verified.out / f"{name}.parquet")

    def rows(self, name: str, run: str) -> list[dict[str, Any]]:
        table = self.table(name)
        found: list[dict[str, Any]] = table.filter(pc.equal(table["run"], run)).to_pylist()
        return found


@pytest.fixture(scope="session")
def checked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("runs")
    makers = (
        runs.clean,
        runs.clean_in_buckets,
        runs.stale,
        runs.transactions,
        runs.strange,
        runs.foreign,
        runs.torn,
        runs.unwatched,
        runs.unseen,
        runs.runaway,
    )
    paths = [make(folder / make.__name__) for make in makers]
    paths += [runs.observed(folder / name, rows) for name, (rows, _) in CONTRADICTED.items()]
    paths.append(runs.observed(folder / "right", RIGHT))
    out = tmp_path_factory.mktemp("verified") / "out"
    return Checked(paths, verify(paths, out, bucket_rows=runs.SMALL_BUCKET))
