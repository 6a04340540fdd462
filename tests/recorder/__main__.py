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
VOIDS_MAX = 3  # on a busy machine the leader may change by itself just before it is struck


def main() -> int:
    """Do them in turn, and tell each verdict."""
    parser = argparse.ArgumentParser(description="Do incidents to real processes and explain them.")
    parser.add_argument("--incidents", type=int, default=30)
    count = parser.parse_args().incidents
    named = wrong = 0
    with tempfile.TemporaryDirectory() as folder, cluster_under_shims(Path(folder)) as cluster:
        for number in range(count):
            verdict = done(cluster, KINDS[number % len(KINDS)])
            for _ in range(VOIDS_MAX):
                if not verdict.is_void:
                    break
                print(f"     {verdict.kind}: the leader changed before it was struck, again", flush=True)
                verdict = done(cluster, KINDS[number % len(KINDS)])
            named += verdict.is_named
            wrong += len(verdict.wrong)
            cause = verdict.judged.cause if verdict.judged else None
            told = f"{cause.confidence}: {cause.text}" if cause else "nothing"
            mark = "" if verdict.is_named else "NOT NAMED  "
            print(f"{number + 1:3}  {verdict.kind:12} {verdict.node}  {mark}{told}", flush=True)
            for one in verdict.wrong:
                print(f"     WRONG AND CERTAIN: {one.kind}: {one.text}: {one.cause.text}", flush=True)
    print(f"{named} of {count} named rightly, {wrong} wrongly with certainty; load {os.getloadavg()[0]:.0f}")
    return 0 if named >= NAMED_MIN * count and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
