"""Many simulated clusters on Spark: failing seeds, and the rare states reached. It needs the extra spark and Java 17.

    python examples/sweep.py /tmp/sweep-example [SEEDS]

Each seed is a whole cluster under faults (docs/faults.md). The sweep does not live again the seeds that the folder has:
call it again with more. `raftmeta pipeline sweep --seeds 0:SEEDS --out DIR` does the same; with --master on a cluster.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from raftmeta.sim import Budget
from raftmeta.spark import sweep

BUDGET = Budget(1000, 2_000_000)  # events under faults, and at most so many to converge afterwards


def main(folder: Path, seeds: int = 200) -> tuple[int, int]:
    """Run it; return how many seeds the folder has, and how many of them failed."""
    swept = sweep(0, seeds, folder / "sweep", budget=BUDGET, block_seeds=max(1, seeds // 8), master="local[2]")
    print(f"{swept.seeds} seeds, {swept.lived} of them lived now; {len(swept.failures)} failures")
    for failure in swept.failures:
        print(failure["failure"], failure["replay"], sep="\n    ")
    coverage = pq.read_table(folder / "sweep" / "coverage.parquet").sort_by("seeds").to_pylist()
    print(f"{swept.reached} rare states were reached; the rarest of them:")
    for row in [row for row in coverage if row["seeds"]][:5]:
        print(f"{row['mark']:>40} by {row['seeds']} seeds, first {row['first_seed']}")
    return swept.seeds, len(swept.failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
