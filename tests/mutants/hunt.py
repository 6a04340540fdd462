"""Look for one planted bug: python hunt.py <folder> <profile> <events> <small> [<passed over>...]; prints JSON.

Runs in a process of its own, over the copy in the folder that carries the bug. Worlds of the named profile and of the
swarm take turns, up to so many events; each lives for a while under faults and must converge afterwards. What is passed
over ("swarm 6") is left out. small: 1 when every history of some small worlds is to be taken too: of bugs in the core.

    python hunt.py <folder> --live <world>      one of the worlds alone, to see what it does without the bug
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
    "dense": {},
    "sparse": {},
    # Leaders fall as soon as they lead, and their frames come late: many terms, tails that conflict.
    "elections": {
        "nodes": 5, "crash_ppm": 500_000, "crash_all_ppm": 100_000, "partition_ppm": 600_000, "pause_ppm": 300_000,
        "transfer_ppm": 500_000, "isolate_ppm": 200_000, "duplicate_ppm": 50_000, "reorder_ppm": 50_000,
        "delay_ppm": 50_000, "drop_ppm": 50_000, "fault_gap_us": 100_000, "down_us": 150_000, "client_gap_us": 30_000,
        "election_timeout_ticks": 10,
    },
    # A leader that is cut off keeps a long tail, while two others commit less of a later term.
    "long_tails": {
        "nodes": 3, "crash_ppm": 500_000, "partition_ppm": 300_000, "pause_ppm": 300_000, "isolate_ppm": 500_000,
        "duplicate_ppm": 50_000, "reorder_ppm": 50_000, "delay_ppm": 50_000, "drop_ppm": 50_000,
        "fault_gap_us": 60_000, "down_us": 150_000, "client_gap_us": 10_000, "election_timeout_ticks": 10,
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
    # A snapshot that waits to be installed is overtaken by the next leader's APPENDs, which wait to be applied:
    # so there is a tail behind the point. Most of what is behind is served from the log, else no APPEND would come.
    "installs": {
        "nodes": 5, "snapshot_entries": 4, "partition_ppm": 700_000, "crash_ppm": 500_000, "transfer_ppm": 700_000,
        "fault_gap_us": 40_000, "down_us": 50_000, "client_gap_us": 10_000, "election_timeout_ticks": 10,
        "buggify_snapshot_instead": 200_000, "buggify_install_postponed": 990_000, "buggify_apply_postponed": 995_000,
    },
    # Nodes start with a long tail that is read from their log's files one record at a time, are given a snapshot
    # meanwhile, and the background of their disks waits.
    "orders": {
        "nodes": 5, "snapshot_entries": 64, "append_bytes_max": 64, "partition_ppm": 500_000, "crash_ppm": 900_000,
        "fault_gap_us": 60_000, "down_us": 200_000, "client_gap_us": 3_000, "election_timeout_ticks": 10,
        "background_us": 50_000, "buggify_log_left_on_disk": 990_000, "buggify_snapshot_instead": 200_000,
    },
    # Leaders serve reads by their lease; they are paused and cut off, and the answers to their rounds come late.
    "lease_reads": {
        "nodes": 3, "lease_reads": 1, "partition_ppm": 400_000, "pause_ppm": 700_000, "isolate_ppm": 300_000,
        "delay_ppm": 300_000, "delay_us": 90_000, "fault_gap_us": 100_000, "client_gap_us": 2_000,
        "election_timeout_ticks": 20,
    },
    # The same, with answers so late that a lease which counts from their receipt is long over.
    "late_answers": {
        "nodes": 3, "lease_reads": 1, "partition_ppm": 400_000, "pause_ppm": 300_000, "isolate_ppm": 600_000,
        "delay_ppm": 700_000, "delay_us": 180_000, "fault_gap_us": 100_000, "client_gap_us": 2_000,
        "election_timeout_ticks": 20,
    },
    # Consumers lag all the time, and the history is short.
    "watches": {
        "nodes": 3, "history_bytes_max": 4096, "crash_ppm": 300_000, "pause_ppm": 300_000, "partition_ppm": 300_000,
        "fault_gap_us": 100_000, "down_us": 400_000, "client_gap_us": 2_000, "buggify_watch_full": 200_000,
        "buggify_watch_replay_of_one": 250_000, "buggify_history_cut_early": 250_000,
    },
    # Clients have eight commands under way, whose frames are lost, repeated and late.
    "windows": {
        "nodes": 5, "client_window": 8, "session_window": 8, "partition_ppm": 300_000, "drop_ppm": 50_000,
        "duplicate_ppm": 50_000, "delay_ppm": 200_000, "reorder_ppm": 50_000, "transfer_ppm": 300_000,
        "crash_ppm": 200_000, "fault_gap_us": 100_000, "client_gap_us": 3_000, "election_timeout_ticks": 10,
    },
    # Rights are on: principals try what they may, an admin changes that, and leaders, dumps and restarts come between.
    "rights": {
        "nodes": 3, "rights": 1, "snapshot_entries": 16, "partition_ppm": 300_000, "crash_ppm": 400_000,
        "transfer_ppm": 500_000, "delay_ppm": 100_000, "duplicate_ppm": 50_000, "fault_gap_us": 100_000,
        "down_us": 200_000, "client_gap_us": 3_000, "election_timeout_ticks": 10, "buggify_snapshot_instead": 200_000,
    },
    # Doors ask for znodes; owners fall silent, and leaders, dumps and restarts come between.
    "znodes": {
        "nodes": 3, "znodes": 1, "snapshot_entries": 16, "checkpoints": 1, "partition_ppm": 300_000,
        "crash_ppm": 400_000, "transfer_ppm": 500_000, "delay_ppm": 100_000, "duplicate_ppm": 50_000,
        "fault_gap_us": 150_000, "down_us": 200_000, "client_gap_us": 3_000, "election_timeout_ticks": 10,
        "buggify_snapshot_instead": 200_000,
    },
    # The same with quiet hours, in which containers are empty for a minute.
    "slow_znodes": {
        "nodes": 3, "znodes": 1, "tick_ms": 40, "client_gap_us": 30_000, "lease_ttl_ms": 2_000,
        "fault_gap_us": 5_000_000, "crash_ppm": 300_000, "transfer_ppm": 300_000, "rest_us": 200_000_000,
        "busy_us": 5_000_000,
    },
    # Members of worker groups come and go, also by hanging, while leaders do.
    "groups": {
        "nodes": 3, "groups": 1, "snapshot_entries": 16, "checkpoints": 1, "partition_ppm": 300_000,
        "crash_ppm": 400_000, "transfer_ppm": 500_000, "delay_ppm": 100_000, "duplicate_ppm": 50_000,
        "fault_gap_us": 150_000, "down_us": 200_000, "client_gap_us": 2_000, "election_timeout_ticks": 10,
        "buggify_snapshot_instead": 200_000,
    },
    # Topics, offsets of worker groups, and record logs, while leaders, dumps and restarts come between.
    "topics": {
        "nodes": 3, "topics": 1, "groups": 1, "snapshot_entries": 16, "checkpoints": 1, "partition_ppm": 300_000,
        "crash_ppm": 400_000, "transfer_ppm": 500_000, "delay_ppm": 100_000, "duplicate_ppm": 50_000,
        "fault_gap_us": 150_000, "down_us": 200_000, "client_gap_us": 2_000, "election_timeout_ticks": 10,
        "buggify_snapshot_instead": 200_000,
    },
    "hangs": {
        "nodes": 3, "host_watchdog_ms": 200, "lease_ttl_ms": 600, "hang_ppm": 900_000, "fault_gap_us": 500_000,
        "client_gap_us": 3_000,
    },
    # Processes end and begin again, and clients hold leases.
    "deaths": {
        "nodes": 3, "crash_ppm": 500_000, "partition_ppm": 600_000, "isolate_ppm": 200_000, "transfer_ppm": 200_000,
        "fault_gap_us": 150_000, "down_us": 400_000, "client_gap_us": 3_000, "election_timeout_ticks": 10,
        "lease_ttl_ms": 3_000, "processes": 1,
    },
    # Two observers beside three members: feeders die and are cut off, observers lose records, and leaders change.
    "observers": {
        "nodes": 5, "observers": 2, "crash_ppm": 200_000, "partition_ppm": 600_000, "isolate_ppm": 500_000,
        "flip_ppm": 100_000, "transfer_ppm": 300_000, "delay_ppm": 100_000, "fault_gap_us": 100_000,
        "down_us": 150_000, "client_gap_us": 5_000, "election_timeout_ticks": 10, "snapshot_entries": 64,
    },
    # A process is back sooner than the others forget its death, and something rejects between it and the leader.
    "quick_deaths": {
        "nodes": 3, "crash_ppm": 500_000, "partition_ppm": 800_000, "fault_gap_us": 40_000, "down_us": 30_000,
        "client_gap_us": 3_000, "election_timeout_ticks": 80, "early_campaigns": 1, "lease_ttl_ms": 3_000,
        "processes": 1,
    },
    # Logs have no room for growth most of the time.
    "full": {
        "nodes": 3, "free_bytes_min": 65_536, "full_ppm": 900_000, "fault_gap_us": 200_000, "client_gap_us": 3_000,
    },
    # Bytes of the log make points due, and members get snapshots in the middle of such a count.
    "points": {
        "nodes": 5, "snapshot_log_bytes": 4096, "snapshot_entries": 200, "partition_ppm": 700_000,
        "crash_ppm": 300_000, "transfer_ppm": 300_000, "fault_gap_us": 100_000, "down_us": 300_000,
        "client_gap_us": 5_000, "election_timeout_ticks": 10, "buggify_snapshot_instead": 250_000,
    },
    # A leader removes a member, and the majority that its last entry waits for is paused for long.
    "removed_while_paused": {
        "nodes": 3, "membership_ppm": 300_000, "wipe_ppm": 60_000, "pause_ppm": 300_000, "tick_ms": 80,
        "election_timeout_ticks": 100, "fault_gap_us": 1_000_000, "client_gap_us": 200_000,
    },
    # Nothing goes wrong but that the leader changes, and the log tells the lease clock seldom.
    "changes": {
        "nodes": 3, "lease_ttl_ms": 3000, "transfer_ppm": 1_000_000, "fault_gap_us": 300_000,
        "client_gap_us": 200_000,
    },
    "many_changes": {
        "nodes": 3, "lease_ttl_ms": 3000, "transfer_ppm": 1_000_000, "fault_gap_us": 50_000,
        "client_gap_us": 200_000, "election_timeout_ticks": 20,
    },
    # Folders are put back to older copies (docs/operations.md says never to).
    "put_back": {
        "nodes": 3, "ruin": 1, "put_back_ppm": 500_000, "crash_ppm": 500_000, "partition_ppm": 300_000,
        "isolate_ppm": 300_000, "client_gap_us": 10_000,
    },
    # Who comes back learns of several changes from a snapshot.
    "members_by_snapshot": {
        "nodes": 5, "snapshot_entries": 8, "membership_ppm": 800_000, "crash_ppm": 500_000, "wipe_ppm": 100_000,
        "transfer_ppm": 200_000, "fault_gap_us": 100_000, "down_us": 400_000, "client_gap_us": 5_000,
        "election_timeout_ticks": 10, "buggify_snapshot_instead": 250_000,
    },
}  # fmt: skip


# Each is closed in a second or two without a bug. logs=1.2..: two nodes hold the tails of two leaders of the past.
SMALL_WORLDS: dict[str, str] = {
    "an entry": "time_outs=1,proposals=1,crashes=1",
    "two leaders, a crash": "time_outs=2,proposals=0,crashes=1",
    "two leaders, an entry": "time_outs=2,proposals=1,crashes=0",
    "three time-outs": "time_outs=3,proposals=0,crashes=0,has_slow_disks=0",
    "a leader that lost its tail": "time_outs=2,proposals=1,crashes=1,has_slow_disks=0",
    "tails": "logs=1.2..,time_outs=2,proposals=0,crashes=0",
    "four": "founding=vvvv,time_outs=2,proposals=0,crashes=0,has_slow_disks=0",
    "exchange": "founding=vll,target=lvv,changes=1,time_outs=1,proposals=0,crashes=1",
    "there and back": "founding=vvl,target=vvv,changes=2,time_outs=1,proposals=0,crashes=0",
    "a change, two leaders": "founding=vvl,target=vvv,changes=1,time_outs=2,proposals=0,crashes=0,has_slow_disks=0",
}
SMALL_STATES_MAX = 400_000  # of one of them: what a bug adds may have no end


def hunt_small() -> dict[str, object] | None:
    """The first small world in which an invariant falls, and after how many states of all; None: it survives."""
    from raftmeta.sim import small_world

    states = 0
    for name, bounds in SMALL_WORLDS.items():
        world = small_world(bounds)
        world.run(SMALL_STATES_MAX)
        states += world.counts["taken"]
        if world.violation is not None:
            return {"violation": world.violation, "world": name, "states": states, "actions": len(world.path())}
    return None


def live(world: str) -> tuple[str | None, int]:
    """Live the world of this name and seed; which invariant fell, and its events."""
    from raftmeta.sim.world.world_handle import World

    name, _, seed = world.partition(" ")
    lived = World(int(seed), **PROFILES[name]) if PROFILES[name] else World.swarm(int(seed), name)
    lived.run(WORLD_EVENTS)
    lived.settle(SETTLE_EVENTS)
    return lived.violation, lived.counts["events"]


def hunt(profile: str, events_max: int, passed_over: list[str]) -> dict[str, object]:
    """Worlds one after the other until one falls; the events of all of them."""
    events = 0
    turn = 0
    while events < events_max:
        # A bug without a profile is looked for in the swarm alone: then every turn takes other seeds.
        world = f"{profile} {turn // 2}" if turn % 2 == 0 else f"swarm {turn // 2 + 1000}"
        turn += 1
        if world in passed_over:
            continue
        violation, lived = live(world)
        events += lived
        if violation is not None:
            return {"violation": violation, "world": world, "events": events}
    return {"violation": None, "world": profile, "events": events}


if __name__ == "__main__":
    import raftmeta

    folder = Path(sys.argv[1]).resolve()
    found = Path(raftmeta.__file__).resolve()
    if not found.is_relative_to(folder):
        sys.exit(f"raftmeta comes from {found}, not from the copy in {folder}: nothing would be found")
    if sys.argv[2] == "--live":
        print(json.dumps(live(sys.argv[3])[0]))
    else:
        small = hunt_small() if sys.argv[4] == "1" else None
        print(json.dumps({"small": small, "large": hunt(sys.argv[2], int(sys.argv[3]), sys.argv[5:])}))
