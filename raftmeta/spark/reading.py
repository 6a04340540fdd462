"""The tables of format("raftmeta") from a program: each call is a relation of its own, with its options checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read"]


def read(spark: SparkSession, table: str = "kv", **options: Any) -> DataFrame:
    """A table of a sealed file (path=...), or of a running cluster (url=...).

    options: those of docs/pipeline.md "Tables of a cluster". Raises AnalysisException that names a wrong one. Errors
    of the file or cluster come when a program first asks for rows.
    """
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("raftmeta").options(table=table, **given).load()
