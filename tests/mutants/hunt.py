"""Look for one planted bug: python hunt.py <folder of the copy> <profile> <events at most>; prints the find as JSON.

Runs in a process of its own, over the copy that carries the bug. Worlds of the named profile and of the swarm take
turns; each lives for a while under faults and must converge afterwards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORLD_EVENTS = 30_000  # under faults
SETTLE_EVENTS = 400_000  # at most, until all has healed

# Worlds in which a kind of mistake shows soon: what the swarm draws too, but seldom together.
PROFILES: dict[str, dict[str, int]] = {
    "swarm": {},
    # Leaders fall as soon as they lead, and their frames come late: many terms, tails that conflict.
    "elections": {
        "nodes": 5, "crash_ppm": 500_000, "crash_all_ppm": 100_000, "partition_ppm": 600_000, "pause_ppm": 300_000,
        "transfer_ppm": 500_000, "isolate_ppm": 200_000, "duplicate_ppm": 50_000, "reorder_ppm": 50_000,
        "delay_ppm": 50_000, "drop_ppm": 50_000, "fault_gap_us": 100_000, "down_us": 150_000, "client_gap_us": 30_000,
        "election_timeout_ticks": 10,
    },
    # A tail of several entries passes from leader to leader in parts of one entry each (paper Figure 8).
    "figure8": {
        "nodes": 5, "append_bytes_max": 64, "crash_ppm": 300_000, "partition_ppm": 500_000, "isolate_ppm": 300_000,
        "delay_ppm": 100_000, "delay_us": 20_000, "fault_gap_us": 40_000, "down_us": 60_000, "client_gap_us": 20_000,
        "election_timeout_ticks": 10,
    },
    # Wiped members come back as others and are taken in while the cluster is cut in parts.
    "members": {
        "nodes": 5, "membership_ppm": 800_000, "wipe_ppm": 100_000, "partition_ppm": 300_000, "crash_ppm": 200_000,
        "isolate_ppm": 300_000, "transfer_ppm": 300_000,
        "fault_gap_us": 150_000, "down_us": 150_000, "client_gap_us": 30_000, "election_timeout_ticks": 10,
    },
    "reads": {
        "nodes": 5, "partition_ppm": 800_000, "pause_ppm": 500_000, "transfer_ppm": 700_000, "delay_ppm": 100_000,
        "fault_gap_us": 100_000, "client_gap_us": 20_000, "election_timeout_ticks": 10,
    },
    "leases": {
        "nodes": 3, "lease_ttl_ms": 400, "partition_ppm": 500_000, "pause_ppm": 500_000, "slow_disk_ppm": 300_000,
        "delay_ppm": 300_000, "delay_us": 60_000, "fault_gap_us": 150_000, "client_gap_us": 5_000,
        "election_timeout_ticks": 20,
    },
    # Points so close that a tail which nobody else has reaches beyond the next of them.
    "snapshots": {
        "nodes": 5, "snapshot_entries": 4, "snapshot_chunk_bytes": 512, "partition_ppm": 900_000,
        "crash_ppm": 300_000, "transfer_ppm": 400_000, "fault_gap_us": 120_000, "client_gap_us": 20_000,
        "election_timeout_ticks": 10,
    },
    "damage": {
        "nodes": 3, "flip_ppm": 700_000, "crash_ppm": 400_000, "partition_ppm": 200_000, "fault_gap_us": 80_000,
        "down_us": 50_000,
    },
    # Damaged entries that are gone from the others' logs: mended by a snapshot in front of a sound tail.
    "repairs": {
        "nodes": 5, "flip_ppm": 700_000, "crash_ppm": 500_000, "partition_ppm": 500_000, "snapshot_entries": 10,
        "fault_gap_us": 60_000, "down_us": 50_000, "client_gap_us": 10_000, "election_timeout_ticks": 10,
    },
}  # fmt: skip


def hunt(profile: str, events_max: int) -> dict[str, object]:
    """Worlds one after the other until one falls; the events of all of them."""
    from raftmeta.sim.world_handle import World

    events = 0
    turn = 0
    while events < events_max:
        name = profile if turn % 2 == 0 else "swarm"
        seed = turn // 2
        world = World(seed, **PROFILES[name]) if name != "swarm" else World.swarm(seed + 1000 * (turn % 2))
        world.run(WORLD_EVENTS)
        world.settle(SETTLE_EVENTS)
        events += world.counts["events"]
        if world.violation is not None:
            return {"violation": world.violation, "seed": seed, "world": name, "events": events}
        turn += 1
    return {"violation": None, "seed": 0, "world": profile, "events": events}


if __name__ == "__main__":
    import raftmeta

    folder = Path(sys.argv[1]).resolve()
    found = Path(raftmeta.__file__).resolve()
    if not found.is_relative_to(folder):
        sys.exit(f"raftmeta comes from {found}, not from the copy in {folder}: nothing would be found")
    print(json.dumps(hunt(sys.argv[2], int(sys.argv[3]))))
