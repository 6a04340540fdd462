"""python -m tests.mutants: plant each known bug in a copy of the sources, and show which invariant kills it, and when.

Exit code 1: a planted bug survived, or a harmless change did not.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutants.planted import Planted, SmallFind, Verdict, build, failing_test, hunt, planted_bugs
from tests.mutants.rules import named

EVENTS_MAX = 4_000_000  # of all worlds in which one bug is looked for
HEAD = (
    "| Change | Source | Killed by | After events | In world | In a small world, after states |\n"
    "|---|---|---|---|---|---|"
)


def judge(planted: Planted, events_max: int) -> Verdict:
    """Build the bug and hunt it. Raises PlantingFailed."""
    with tempfile.TemporaryDirectory(prefix="raftmeta-mutant-") as name:
        folder = Path(name)
        started = time.monotonic()
        build(planted, folder)
        built = time.monotonic()
        if planted.tests:
            failed = failing_test(planted, folder)
            return Verdict(
                planted,
                violation=failed,
                world=f"`{planted.tests[0]}`",
                events=0,
                small=None,
                build_s=built - started,
                hunt_s=time.monotonic() - built,
            )
        found = hunt(planted, folder, events_max)
        return Verdict(
            planted,
            violation=found["large"]["violation"],
            world=found["large"]["world"],
            events=found["large"]["events"],
            small=SmallFind(**found["small"]) if found["small"] else None,
            build_s=built - started,
            hunt_s=time.monotonic() - built,
        )


def verdicts(bugs: list[Planted], jobs: int, events_max: int) -> Iterator[Verdict]:
    """As they come; the work is done in other processes, so threads are enough."""
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(judge, planted, events_max) for planted in bugs]):
            yield done.result()


def row(verdict: Verdict) -> str:
    """One line of the table of docs/faults.md."""
    fate = named(verdict.violation) if verdict.violation else "survives"
    if verdict.planted.tests and verdict.violation:
        fate = f"test `{verdict.violation}`"
    small = "survives" if verdict.planted.is_of_core else "-"
    if verdict.small is not None:
        small = f"{named(verdict.small.violation)}: {verdict.small.world}, {verdict.small.states:,}"
    cells = (
        verdict.planted.title.rstrip("."),
        verdict.planted.source,
        fate,
        f"{verdict.events:,}",
        verdict.world,
        small,
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./build.sh mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these, by the names of their patches")
    parser.add_argument("--jobs", type=int, default=2, help="built and hunted at a time (default: 2)")
    parser.add_argument("--events", type=int, default=EVENTS_MAX, help=f"looked at for each (default: {EVENTS_MAX:,})")
    arguments = parser.parse_args()
    bugs = [planted for planted in planted_bugs() if not arguments.names or planted.name in arguments.names]
    started = time.monotonic()
    found: list[Verdict] = []
    for verdict in verdicts(bugs, arguments.jobs, arguments.events):
        found.append(verdict)
        mark = "ok" if verdict.is_as_it_should_be else "WRONG"
        times = f"built in {verdict.build_s:.0f} s, hunted for {verdict.hunt_s:.0f} s"
        print(f"{mark:>5}  {row(verdict)}  {times}", file=sys.stderr, flush=True)
    print(HEAD)
    for verdict in sorted(found, key=lambda one: bugs.index(one.planted)):
        print(row(verdict))
    killed = sum(verdict.is_killed for verdict in found if not verdict.planted.is_harmless)
    harmful = sum(not planted.is_harmless for planted in bugs)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = f"{time.monotonic() - started:.0f} s, {spent.ru_utime + spent.ru_stime:.0f} s of processor time"
    print(f"\n{killed} of {harmful} planted bugs killed in {times}", file=sys.stderr)
    return 0 if all(verdict.is_as_it_should_be for verdict in found) else 1


if __name__ == "__main__":
    sys.exit(main())
