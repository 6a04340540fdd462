"""How long a cluster is without a leader that acknowledges writes: kill the leader again and again, under load.

    python -m jepsen failover --kills 50

Measured from SIGKILL to the first acknowledgement of a write that was asked for afterwards, by any client, with the
default settings of raftmeta. The killed broker is started again, and the next kill comes when it serves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from jepsen.clock import NS_PER_S, now_ns
from jepsen.plan import Plan
from jepsen.spool import read_spool
from jepsen.stage import Stage
from jepsen.store import RunFolder

DEFAULTS = {"insecure": True}  # namespaces of the run are no loopback; everything else as raftmeta has it
PERCENTILES = (0.5, 0.9, 0.99, 1.0)


def measure(plan: Plan, console: Console, *, kills: int) -> list[float]:
    """The times of so many failovers, in seconds, sorted; they are also kept in the run's folder."""
    folder = RunFolder(plan.store, workload=plan.workloads[0], nemesis="failover", seed=plan.seed)
    killed_ns: list[int] = []
    with Stage(plan, folder, settings=DEFAULTS) as stage:
        stage.start()
        cluster = stage.cluster
        for number in range(kills):
            leader = cluster.wait_for(cluster.leader, "a leader")
            node = cluster.nodes[leader]
            killed_ns.append(now_ns())
            node.kill()
            cluster.wait_for(cluster.leader, "another leader")
            cluster.start(leader)
            cluster.wait_ready(leader)
            if (number + 1) % 10 == 0:
                console.print(f"{number + 1} of {kills} kills")
        stage.stop_asking()
        stage.kill_all()
    times_s = failover_times_s(killed_ns, sorted(folder.spools.iterdir()))
    facts = {
        "kills": kills,
        "rate": plan.rate,
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "percentiles_s": {f"p{share * 100:g}": percentile(times_s, share) for share in PERCENTILES},
        "seconds": times_s,
    }
    (folder.path / "failover.json").write_text(json.dumps(facts, indent=2) + "\n")
    return times_s


def failover_times_s(killed_ns: Sequence[int], spools: Sequence[Path]) -> list[float]:
    """For each kill: until the first write asked for after it was acknowledged. Raises ValueError without one."""
    written: list[tuple[int, int]] = []
    for path in spools:
        asked: dict[int, int] = {}
        for kind, time_ns, *rest in read_spool(path):
            if kind == "invoke" and rest[2] == "write":
                asked[rest[1]] = time_ns
            elif kind == "ok" and rest[1] in asked:
                written.append((asked.pop(rest[1]), time_ns))
            elif kind in ("fail", "info"):
                asked.pop(rest[1], None)
    times_s = [
        (min(done_ns for asked_ns, done_ns in written if asked_ns >= killed) - killed) / NS_PER_S
        for killed in killed_ns
    ]
    return sorted(times_s)


def percentile(values: Sequence[float], share: float) -> float:
    """Of sorted values: the least that at least this share of them does not exceed."""
    return values[max(-(-int(len(values) * share * 1000) // 1000) - 1, 0)]
