"""A round of workloads through one door, without brokers of their own, and its verdict."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

from jepsen.checker import Verdict, judge
from jepsen.client import Doors
from jepsen.store import RunFolder
from jepsen.workers import Slot, Workers
from jepsen.workloads import WORKLOADS

CLIENTS = 3
PERIOD_S = 0.002
OPERATIONS = 300  # of a round
ROUNDS_MAX = 12
groups = itertools.count()


def judged(folder: Path, doors: Doors, *workloads: str) -> tuple[Verdict, list[dict[str, Any]]]:
    """A round of these workloads on nodes of their own, by clients that share one door; and what they observed."""
    group = next(groups)
    run = RunFolder(folder / str(group), workload="w", nemesis="none", seed=group)
    slots = [Slot(name, number, group, PERIOD_S, 60.0) for number, name in enumerate(workloads * CLIENTS)]

    async def ask() -> None:
        workers = Workers(
            lambda _: None,  # type: ignore[arg-type, return-value]  # nothing is asked but the door
            slots,
            spools=run.spools,
            name="c",
            node="",
            life=1,
            t0_ns=run.t0_ns,
            seed=group,
            doors=doors,
        )
        running = asyncio.create_task(workers.run())
        while not running.done() and sum(workers.fates.counts.values()) < OPERATIONS * len(workloads):
            await asyncio.wait([running], timeout=0.05)
        workers.stop()
        await running

    asyncio.run(ask())
    models = {name: model for name in workloads if (model := WORKLOADS[name].model) is not None}
    histories, observed = run.gather(models, [])
    return judge(histories, observed, models, [], [], run.t0_ns), observed
