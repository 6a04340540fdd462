"""The simulated world from Python: build it from a seed, run it, read what happened."""

from __future__ import annotations

from libc.string cimport memset

from raftmeta._core cimport CoreStatus, core_status
from raftmeta.runtime.engine_state cimport Engine
from raftmeta.sim.world cimport sim_config_init, world_create, world_destroy, world_run, world_settle
from raftmeta.sim.world_state cimport SimConfig, World as NativeWorld

INVARIANTS = {
    1: "I1 election safety",
    2: "I2 log matching",
    3: "I3 leader completeness",
    4: "I4 state machine safety",
    5: "I5 acknowledged before durable",
    6: "I6 term or vote said before durable",
    7: "I7 committed without a durable quorum",
    8: "I8 recovery lost what was vouched for",
    9: "I9 a pointer went backwards",
    10: "I10 membership",
    11: "I11 state hashes differ",
    13: "I13 stale read",
    14: "I14 applied more than once",
    15: "I15 watch gap, repetition or difference",
    22: "I22 no progress after healing",
    100: "a node stopped itself",
    101: "no memory",
}
FAULTS = (
    "drop_ppm", "duplicate_ppm", "delay_ppm", "delay_us", "latency_us", "partition_ppm", "crash_ppm", "crash_all_ppm",
    "cut_at_sync_ppm", "pause_ppm", "transfer_ppm", "fault_gap_us", "down_us", "disk_us", "slow_disk_ppm",
    "client_gap_us",
)


cdef _set_faults(SimConfig* config, dict faults):
    unknown = set(faults) - set(FAULTS)
    if unknown:
        raise ValueError(f"unknown fault: {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    config.faults.drop_ppm = faults.get("drop_ppm", config.faults.drop_ppm)
    config.faults.duplicate_ppm = faults.get("duplicate_ppm", config.faults.duplicate_ppm)
    config.faults.delay_ppm = faults.get("delay_ppm", config.faults.delay_ppm)
    config.faults.delay_us = faults.get("delay_us", config.faults.delay_us)
    config.faults.latency_us = faults.get("latency_us", config.faults.latency_us)
    config.faults.partition_ppm = faults.get("partition_ppm", config.faults.partition_ppm)
    config.faults.crash_ppm = faults.get("crash_ppm", config.faults.crash_ppm)
    config.faults.crash_all_ppm = faults.get("crash_all_ppm", config.faults.crash_all_ppm)
    config.faults.cut_at_sync_ppm = faults.get("cut_at_sync_ppm", config.faults.cut_at_sync_ppm)
    config.faults.pause_ppm = faults.get("pause_ppm", config.faults.pause_ppm)
    config.faults.transfer_ppm = faults.get("transfer_ppm", config.faults.transfer_ppm)
    config.faults.fault_gap_us = faults.get("fault_gap_us", config.faults.fault_gap_us)
    config.faults.down_us = faults.get("down_us", config.faults.down_us)
    config.faults.disk_us = faults.get("disk_us", config.faults.disk_us)
    config.faults.slow_disk_ppm = faults.get("slow_disk_ppm", config.faults.slow_disk_ppm)
    config.faults.client_gap_us = faults.get("client_gap_us", config.faults.client_gap_us)


cdef class World:
    """A simulated cluster. The same arguments give the same history, to the byte (trace_hash)."""
    cdef NativeWorld* _world

    def __cinit__(self, seed: int, *, nodes: int = 3, segment_bytes: int = 65536, sector_bytes: int = 512, **faults):
        cdef SimConfig config
        if not 1 <= nodes <= 7:
            raise ValueError(f"nodes must be 1 to 7, not {nodes}")
        sim_config_init(&config, seed & ((1 << 64) - 1))
        config.nodes = nodes
        config.segment_bytes = segment_bytes
        config.sector_bytes = sector_bytes
        _set_faults(&config, faults)
        self._world = world_create(&config)
        if self._world == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self._world != NULL:
            world_destroy(self._world)

    def run(self, events: int) -> int:
        """Handle up to `events` more events without the GIL; return how many. It stops at the first violation."""
        cdef unsigned long long most = events
        cdef unsigned long long done
        with nogil:
            done = world_run(self._world, most)
        return done

    def settle(self, events_max: int = 2_000_000) -> None:
        """Heal everything and wait, in simulated time, until the cluster has converged; then compare everything."""
        cdef unsigned long long most = events_max
        with nogil:
            world_settle(self._world, most)

    @property
    def violation(self) -> str | None:
        """The first invariant that did not hold, with where and the numbers that contradict it; None: all held."""
        if self._world.violation == 0:
            return None
        return (f"{INVARIANTS[self._world.violation]}: node {self._world.violation_node} "
                f"a={self._world.violation_a} b={self._world.violation_b} "
                f"event={self._world.counts.events} time_ms={self._world.now_ns // 1_000_000}")

    @property
    def trace_hash(self) -> int:
        """A hash of every event and frame so far."""
        return self._world.trace_hash

    @property
    def counts(self) -> dict[str, int]:
        """What happened so far: events, frames, faults, calls and their fates."""
        return dict(self._world.counts)

    @property
    def simulated_s(self) -> float:
        """Simulated seconds since the world began."""
        return (self._world.now_ns - 1_000_000_000) / 1e9

    def nodes(self) -> list[dict[str, int]]:
        """What each node believes now; a node that is down has only `number` and `is_up`."""
        cdef CoreStatus status
        cdef Engine* engine
        described = []
        for number in range(self._world.config.nodes):
            engine = self._world.nodes[number].engine
            if not self._world.nodes[number].is_up or engine == NULL:
                described.append({"number": number, "is_up": 0})
                continue
            memset(&status, 0, sizeof(CoreStatus))
            if engine.core != NULL:
                core_status(engine.core, &status)
            described.append({
                "number": number, "is_up": 1, "state": engine.state, "id": engine.id, "boot": engine.boot,
                "genesis": engine.genesis.record.state, "role": status.role, "term": status.term,
                "vote": status.vote, "leader": status.leader, "committed": status.committed, "last": status.last,
                "persisted": status.persisted, "applied": engine.applied, "lease_ms": status.lease_ms,
                "is_repairing": status.is_repairing, "session": engine.session,
                "calls_open": self._world.nodes[number].calls_open, "outstanding": engine.outstanding.size,
                "read_rounds": engine.read_rounds.size, "blocked_writes": engine.blocked.size,
            })
        return described

    @property
    def committed(self) -> int:
        """The greatest index committed anywhere."""
        return self._world.truth.committed
