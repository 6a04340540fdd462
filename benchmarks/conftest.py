"""The frame of the benchmarks: what a round counts, and a table of rates at the end.

A benchmark says how many operations one round does, `benchmark.extra_info["operations"] = n` (or puts, gets, ...); the
JSON of ./build.sh bench then carries `per_second`, from the median round, beside machine and commit.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import pytest

COUNTS = ("operations", "puts", "gets", "reads", "entries", "frames", "bytes")


def per_second(benchmark: Any) -> float | None:
    """Operations per second of the median round; None for a benchmark that counts nothing."""
    counted = [benchmark.extra_info[name] for name in COUNTS if name in benchmark.extra_info]
    return counted[0] / benchmark.stats.median if counted and benchmark.stats else None


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """What a number needs beside it to be comparable."""
    machine_info["cores"] = len(os.sched_getaffinity(0))
    machine_info["kernel"] = platform.release()
    machine_info["libc"] = " ".join(platform.libc_ver())


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: list[Any], output_json: dict[str, Any]) -> None:
    rates = {benchmark.fullname: per_second(benchmark) for benchmark in benchmarks}
    for entry in output_json["benchmarks"]:
        if (rate := rates.get(entry["fullname"])) is not None:
            entry["extra_info"]["per_second"] = rate


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    session = getattr(config, "_benchmarksession", None)
    rows = [(benchmark.name, per_second(benchmark)) for benchmark in session.benchmarks] if session else []
    if not rows:
        return
    terminalreporter.section("rates (median round)")
    width = max(len(name) for name, _ in rows)
    for name, rate in rows:
        if rate is not None:
            terminalreporter.write_line(f"{name:{width}}  {rate:>15,.0f} /s")
