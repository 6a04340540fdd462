"""Progress and errors of jobs, the same for every pipeline: how far a job is, and why it failed, in one line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from raftmeta.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "failed", "told"]

POLL_S = 0.25
REASON_MAX = 600  # characters of Spark's words that an error shows

Progress = Callable[[str, int, int], None]


def failed(error: Exception) -> Exception:
    """The error of a task, in one line."""
    text = str(error)
    if "No module named 'raftmeta" in text:
        return ConfigError("the executors have no raftmeta: install the same version there, with the extra spark")
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "\t"))]
    return RuntimeError(f"the job failed: {' '.join(lines)[:REASON_MAX]}")


@contextmanager
def told(spark: SparkSession, what: str, on_progress: Progress | None) -> Iterator[None]:
    """Report how many tasks of the present stages are done, while the block runs."""
    if on_progress is None:
        yield
        return
    tell = on_progress
    tracker = spark.sparkContext.statusTracker()
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.wait(POLL_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:
                return  # what is wrong with Spark is told by the job itself
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            tell(what, done, sum(stage.numTasks for stage in stages if stage is not None))

    thread = threading.Thread(target=poll, name="raftmeta-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
