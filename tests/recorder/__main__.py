"""Incidents of ten kinds, again and again: how many does `raftmeta explain` name rightly?

    python -m tests.recorder --incidents 30

At least nine of ten must be named, and no cause that is not true may be called certain. Exit code 1: it was not so.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.recorder.incidents import KINDS, cluster_under_shims, done

NAMED_MIN = 0.9


def main() -> int:
    """Do them in turn, and tell each verdict."""
    parser = argparse.ArgumentParser(description="Do incidents to real processes and explain them.")
    parser.add_argument("--incidents", type=int, default=30)
    count = parser.parse_args().incidents
    named = wrong = 0
    with tempfile.TemporaryDirectory() as folder, cluster_under_shims(Path(folder)) as cluster:
        for number in range(count):
            verdict = done(cluster, KINDS[number % len(KINDS)])
            named += verdict.incident is not None
            wrong += verdict.wrong is not None
            cause = verdict.incident.cause if verdict.incident else None
            told = f"{cause.confidence}: {cause.text}" if cause else "NOT NAMED"
            print(f"{number + 1:3}  {verdict.kind:12} {verdict.node}  {told}", flush=True)
            if verdict.wrong is not None:
                print(f"     WRONG AND CERTAIN: {verdict.wrong.cause.text}", flush=True)
    print(f"{named} of {count} named rightly, {wrong} wrongly with certainty; load {os.getloadavg()[0]:.0f}")
    return 0 if named >= NAMED_MIN * count and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
