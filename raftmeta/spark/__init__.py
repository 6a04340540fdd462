"""Pipelines on Spark: `raftmeta pipeline` and the same from a program (docs/pipeline.md).

    from raftmeta.spark import verify

    verified = verify(["build/jepsen/20261120-register"], "checked")
    print(verified.verdict)

Needs the extra `spark` and Java 17; both are looked for when a pipeline is started, not when this is imported.
"""

from __future__ import annotations

from raftmeta.spark.runs import Run, find_runs
from raftmeta.spark.session import spark_session
from raftmeta.spark.verify import Verified, verify

__all__ = ["Run", "Verified", "find_runs", "spark_session", "verify"]
