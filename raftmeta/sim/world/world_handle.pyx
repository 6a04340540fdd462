"""The simulated world from Python: build it from a seed, run it, read what happened."""

from __future__ import annotations

from libc.string cimport memset

from raftmeta._core cimport CoreStatus, core_status
from raftmeta.native import buggify
from raftmeta.engine.state cimport Engine
from raftmeta.raft.state cimport FEEDS_MAX
from raftmeta.sim.world.liveness cimport liveness_settle
from raftmeta.sim.world.swarm cimport SwarmKind, swarm_config
from raftmeta.sim.world.world cimport sim_config_init, world_create, world_destroy, world_run
from raftmeta.sim.world.world_state cimport SIM_BEGIN_NS, SIM_CLIENT_WINDOW, SimConfig, SimDecision, SimNote

INVARIANTS = {
    1: "I1 election safety",
    2: "I2 log matching",
    3: "I3 leader completeness",
    4: "I4 state machine safety",
    5: "I5 acknowledged before durable",
    6: "I6 term or vote said before durable, or two votes in one term",
    7: "I7 committed without a durable quorum",
    8: "I8 recovery lost what was vouched for",
    9: "I9 a pointer went backwards",
    10: "I10 membership",
    11: "I11 state hashes differ",
    12: "I11 sealed files or points differ",
    13: "I13 stale read",
    20: "I21 a queue above its cap",
    21: "I12 acknowledged and not committed",
    24: "I18 a frame for another incarnation was taken",
    14: "I14 applied more than once",
    15: "I15 watch gap, repetition or difference",
    16: "I16 a progress mark before what it names",
    17: "I17 a lease ended too early",
    18: "I18b a guarded write was accepted under an old token",
    19: "I19 a damaged frame was taken",
    22: "I22 no progress after healing",
    25: "I24 what clients saw is no history of registers",
    100: "a node stopped itself",
    26: "I13 a read that nothing proves",
    27: "I14 an outcome was lost while the session lives",
    28: "I25 an entry that was known as committed was cut silently",
    29: "I26 rights were not those of their place in the log",
    30: "I27 a znode's counters are not what is below it",
    31: "I28 two children of a znode have one number",
    32: "I29 an ephemeral does not live as long as its owner's lease",
    33: "I30 a znode's revisions are not those of its changes",
    34: "I31 a request was done before the one in front of it",
    35: "I32 a znode without one above it",
    36: "I33 a request for znodes did something else than ZooKeeper's rules say",
    37: "I34 a generation of a worker group has another leader than its own",
    38: "I35 a generation of a worker group fell, or its fence is not its own",
    39: "I36 a request of an old generation or of a fenced instance was taken",
    40: "I37 a resource of a worker group has two owners",
    41: "I38 a member of a worker group ended before its time",
    42: "I39 a stable worker group without an assignment of each member",
    43: "I45 offsets of a record log have a gap, or one was given twice",
    44: "I46 a batch of a record log is not as it was acknowledged",
    45: "I47 a producer's batch was stored twice, or what was refused was stored",
    46: "I48 a compacted log has another record of a key than the last",
    47: "I49 a topic is not what its requests made of it",
    48: "I50 an offset of a group is not what the last accepted commit said",
    49: "I51 a member of a worker group has another lease than the one that its join granted",
    60: "I60 a process was ended that runs",
    61: "I61 a session of an ended process acts",
    101: "no memory",
}


cdef tuple _fault_names():
    cdef SimConfig config
    sim_config_init(&config, 0)
    return tuple(dict(config.faults))


FAULTS = _fault_names()
# Kinds of a tape's entries, in the order of the native FAULT_...; each but heal and calls is a rate's name without
# its unit.
KINDS = ("partition", "isolate", "replay", "crash", "crash_all", "pause", "wall", "cut_at_sync", "wipe", "flip",
         "misdirect", "disk_error", "full", "transfer", "membership", "heal", "calls", "rot", "hang", "put_back")
# A profile names the rate of a buggify point so.
POINTS = {f"buggify_{name.lower()}": number for number, name in enumerate(buggify.names())}
# The kinds of swarm, in the order of SwarmKind.
SWARMS = ("swarm", "dense", "sparse")
NOTES = {1: "frame", 2: "fault", 3: "down", 4: "up", 5: "role", 6: "commit"}


cdef _set_faults(SimConfig* config, dict faults):
    points = {name: faults.pop(name) for name in POINTS if name in faults}
    unknown = set(faults) - set(FAULTS)
    if unknown:
        raise ValueError(f"unknown fault: {', '.join(sorted(unknown))}; there are {', '.join((*FAULTS, *POINTS))}")
    config.faults = {**config.faults, **faults}
    for name, ppm in points.items():
        config.buggify_ppm[<unsigned>POINTS[name]] = ppm


def _kind_of(name: str) -> int:
    if name not in KINDS:
        raise ValueError(f"unknown kind of fault: {name}; there are {', '.join(KINDS)}")
    return KINDS.index(name)


cdef dict _profile(const SimConfig* config):
    return {"nodes": config.nodes, "observers": config.observers, "feeds_max": config.feeds_max, "seeds": config.seeds,
            "segment_bytes": config.segment_bytes, "sector_bytes": config.sector_bytes,
            "history_bytes_max": config.history_bytes_max, "lease_ttl_ms": config.lease_ttl_ms,
            "snapshot_entries": config.snapshot_entries, "snapshot_chunk_bytes": config.snapshot_chunk_bytes,
            "tick_ms": config.tick_ms, "rest_us": config.rest_us, "busy_us": config.busy_us,
            "election_timeout_ticks": config.election_timeout_ticks, "append_bytes_max": config.append_bytes_max,
            "checkpoints": config.has_checkpoints, "users": config.has_users,
            "user_large_ppm": config.user_large_ppm, "background_us": config.background_us,
            "turn_us": config.turn_us, "early_campaigns": config.campaigns_early, "lease_reads": config.lease_reads,
            "log_memory_bytes": config.log_memory_bytes, "snapshot_log_bytes": config.snapshot_log_bytes,
            "free_bytes_min": config.free_bytes_min, "host_watchdog_ms": config.host_watchdog_ms,
            "client_window": config.client_window, "session_window": config.session_window,
            "silent_ends": config.ends_silently, "ruin": config.is_ruin, "encryption": config.encrypts,
            "rights": config.has_rights, "znodes": config.has_znodes,
            "groups": config.has_groups, "topics": config.has_topics, "processes": config.has_processes,
            "old_level": config.old_level, "upgrade_ms": config.upgrade_ms,
            **config.faults,
            **{name: config.buggify_ppm[<unsigned>number] for name, number in POINTS.items()
               if config.buggify_ppm[<unsigned>number]}}


def swarm_profile(seed: int, kind: str = "swarm") -> dict[str, int]:
    """The arguments of World that the seed chooses."""
    cdef SimConfig config
    if kind not in SWARMS:
        raise ValueError(f"unknown kind of swarm: {kind}; there are {', '.join(SWARMS)}")
    sim_config_init(&config, seed & ((1 << 64) - 1))
    swarm_config(&config, <SwarmKind>(<int>SWARMS.index(kind)))
    return _profile(&config)


cdef class World:
    """A simulated cluster. The same arguments give the same history, to the byte (trace_hash)."""

    def __cinit__(self, seed: int, *, nodes: int = 3, segment_bytes: int = 65536, sector_bytes: int = 512,
                  history_bytes_max: int = 65536, lease_ttl_ms: int = 1000, snapshot_entries: int = 300,
                  snapshot_chunk_bytes: int = 2048, tick_ms: int = 10, election_timeout_ticks: int = 50,
                  append_bytes_max: int = 262144, rest_us: int = 0, busy_us: int = 1_000_000, checkpoints: int = 0,
                  users: int = 0, user_large_ppm: int = 0, background_us: int = 0, turn_us: int = 0,
                  early_campaigns: int = 0, lease_reads: int = 0, log_memory_bytes: int = 0,
                  snapshot_log_bytes: int = 0, free_bytes_min: int = 0, host_watchdog_ms: int = 0,
                  client_window: int = 1, session_window: int = 0, silent_ends: int = 0, ruin: int = 0,
                  encryption: int = 0, rights: int = 0, znodes: int = 0, groups: int = 0, topics: int = 0,
                  old_level: int = 0, upgrade_ms: int = 0, processes: int = 0, observers: int = 0, feeds_max: int = 0,
                  seeds: int = 0, **faults):
        cdef SimConfig config
        if not 1 <= nodes <= 7:
            raise ValueError(f"nodes must be 1 to 7, not {nodes}")
        if not 0 <= observers < nodes:
            raise ValueError(f"observers must be 0 to {nodes - 1}, fewer than nodes, not {observers}")
        if not 0 <= feeds_max <= FEEDS_MAX:
            raise ValueError(f"feeds_max must be 0 to {FEEDS_MAX}, not {feeds_max}")
        if not 0 <= seeds <= nodes:
            raise ValueError(f"seeds must be 0 to {nodes}, not {seeds}")
        if election_timeout_ticks < 10:
            raise ValueError(f"election_timeout_ticks must be 10 or more, not {election_timeout_ticks}")
        if not 1 <= client_window <= SIM_CLIENT_WINDOW:
            raise ValueError(f"client_window must be 1 to {SIM_CLIENT_WINDOW}, not {client_window}")
        if tick_ms < 1:
            raise ValueError(f"tick_ms must be 1 or more, not {tick_ms}")
        sim_config_init(&config, seed & ((1 << 64) - 1))
        config.nodes = nodes
        config.observers = observers
        config.feeds_max = feeds_max
        config.seeds = seeds
        config.segment_bytes = segment_bytes
        config.sector_bytes = sector_bytes
        config.history_bytes_max = history_bytes_max
        config.lease_ttl_ms = lease_ttl_ms
        config.snapshot_entries = snapshot_entries
        config.snapshot_chunk_bytes = snapshot_chunk_bytes
        config.tick_ms = tick_ms
        config.election_timeout_ticks = election_timeout_ticks
        config.rest_us = rest_us
        config.busy_us = busy_us
        config.append_bytes_max = append_bytes_max
        config.has_checkpoints = checkpoints != 0
        config.has_users = users != 0
        config.user_large_ppm = user_large_ppm
        config.background_us = background_us
        config.turn_us = turn_us
        config.campaigns_early = early_campaigns != 0
        config.lease_reads = lease_reads != 0
        config.log_memory_bytes = log_memory_bytes
        config.snapshot_log_bytes = snapshot_log_bytes
        config.free_bytes_min = free_bytes_min
        config.host_watchdog_ms = host_watchdog_ms
        config.client_window = client_window
        config.session_window = session_window
        config.ends_silently = silent_ends != 0
        config.is_ruin = ruin != 0
        config.encrypts = encryption != 0
        config.has_rights = rights != 0 and not ruin
        config.has_znodes = znodes != 0 and not ruin
        config.has_groups = groups != 0 and not ruin
        config.has_topics = topics != 0 and not ruin
        config.old_level = old_level
        config.upgrade_ms = upgrade_ms
        config.has_processes = processes != 0
        _set_faults(&config, faults)
        self.native = world_create(&config)
        if self.native == NULL:
            raise MemoryError

    @staticmethod
    def swarm(seed: int, kind: str = "swarm") -> World:
        """The world whose size and faults the seed chooses too."""
        return World(seed, **swarm_profile(seed, kind))

    def __dealloc__(self):
        if self.native != NULL:
            world_destroy(self.native)

    def follow(self, tape) -> None:
        """Before the first event: exactly these faults strike, whatever the rates of fault events say."""
        cdef SimDecision decision
        if self.native.counts.events != 0:
            raise ValueError("a tape is followed from the first event on")
        self.native.has_script = True
        for strike, kind in sorted({(strike, _kind_of(kind)) for strike, kind in tape}):
            decision.strike = strike
            decision.kind = kind
            if not self.native.script.push(decision):
                raise MemoryError

    def strike(self, kind: str) -> None:
        """Let this fault strike at the next fault event of a world that follows a tape: the tape grows by it."""
        cdef SimDecision decision
        cdef SimDecision* before
        cdef size_t place
        if not self.native.has_script:
            raise ValueError("only a world that follows a tape is struck by hand")
        decision.strike = self.native.strikes
        decision.kind = _kind_of(kind)
        for place in range(self.native.script_next, self.native.script.size):
            before = &self.native.script.data[place]
            if (before.strike, before.kind) == (decision.strike, decision.kind):
                return
        if not self.native.script.push(decision):
            raise MemoryError
        place = self.native.script.size - 1
        while place > self.native.script_next:
            before = &self.native.script.data[place - 1]
            if (before.strike, before.kind) <= (decision.strike, decision.kind):
                break
            self.native.script.data[place] = before[0]
            place -= 1
        self.native.script.data[place] = decision

    def keep_story(self) -> None:
        """From now on keep what a diagram needs."""
        self.native.story_is_on = True

    def run(self, events: int) -> int:
        """Handle up to `events` more events without the GIL; return how many. It stops at the first violation."""
        cdef unsigned long long most = events
        cdef unsigned long long done
        with nogil:
            done = world_run(self.native, most)
        return done

    def settle(self, events_max: int = 2_000_000) -> None:
        """Heal everything and wait, in simulated time, until the cluster has converged; then compare everything."""
        cdef unsigned long long most = events_max
        with nogil:
            liveness_settle(self.native, most)

    @property
    def violation(self) -> str | None:
        """The first invariant that did not hold, with where and the numbers that contradict it; None: all held."""
        if self.native.violation == 0:
            return None
        return (f"{INVARIANTS[self.native.violation]}: node {self.native.violation_node} "
                f"a={self.native.violation_a} b={self.native.violation_b} "
                f"event={self.native.counts.events} time_ms={self.native.now_ns // 1_000_000}")

    @property
    def tape(self) -> list[tuple[int, str]]:
        """The faults that struck: at which of the fault events, and of which kind."""
        return [(self.native.tape.data[i].strike, KINDS[self.native.tape.data[i].kind])
                for i in range(self.native.tape.size)]

    def story(self) -> list[dict[str, int | str]]:
        """The story since keep_story was called; of a long run the end."""
        cdef SimNote note
        lines = []
        for i in range(self.native.story.size):
            note = self.native.story.at(i)
            lines.append({"time_ns": note.time_ns - SIM_BEGIN_NS, "event": note.event, "what": NOTES[note.what],
                          "node": note.node, "other": note.other, "a": note.a, "b": note.b, "c": note.c})
        return lines

    @property
    def profile(self) -> dict[str, int]:
        """The arguments that make this world again, beside its seed."""
        return _profile(&self.native.config)

    @property
    def trace_hash(self) -> int:
        """A hash of every event and frame so far."""
        return self.native.trace_hash

    @property
    def counts(self) -> dict[str, int]:
        """Counts so far: events, frames, faults, calls and their fates."""
        return dict(self.native.counts)

    @property
    def buggified(self) -> dict[str, int]:
        """The buggify points that fired so far, as a profile names them, and how often."""
        return {name: self.native.buggify_fired[<unsigned>number] for name, number in POINTS.items()
                if self.native.buggify_fired[<unsigned>number]}

    @property
    def simulated_s(self) -> float:
        """Simulated seconds since the world began."""
        return (self.native.now_ns - SIM_BEGIN_NS) / 1e9

    def nodes(self) -> list[dict[str, int]]:
        """Each node's view of itself now; a node that is down has only `number` and `is_up`."""
        cdef CoreStatus status
        cdef Engine* engine
        described = []
        for number in range(self.native.config.nodes):
            engine = self.native.nodes[number].engine
            if not self.native.nodes[number].is_up or engine == NULL:
                described.append({"number": number, "is_up": 0})
                continue
            memset(&status, 0, sizeof(CoreStatus))
            if engine.core != NULL:
                core_status(engine.core, &status)
            described.append({
                "number": number, "is_up": 1, "state": engine.state, "id": engine.id, "boot": engine.boot,
                "genesis": engine.genesis.record.state, "role": status.role, "term": status.term,
                "vote": status.vote, "leader": status.leader, "committed": status.committed, "last": status.last,
                "persisted": status.persisted, "applied": engine.applying.applied, "lease_ms": status.lease_ms,
                "membership": status.membership_index, "is_removed": status.is_removed,
                "is_repairing": status.is_repairing, "session": engine.session.id,
                "calls_open": self.native.nodes[number].calls_open, "outstanding": engine.calls.own.commands.size,
                "snapshotted": status.snapshotted, "compacted": status.compacted,
                "feeder": status.feeder, "feed_depth": status.feed_depth, "feeds": status.feed_count,
                "receiving": engine.snapshots.receiving_state, "taking": engine.snapshots.taking_state,
                "read_rounds": engine.reads.rounds.size, "blocked_writes": engine.room.blocked.size,
            })
        return described

    @property
    def committed(self) -> int:
        """The greatest index committed anywhere."""
        return self.native.truth.committed
